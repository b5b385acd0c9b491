//! Requests that change something, as calls of the file system.

use super::answer::{Answer, Opened, Valid};
use super::holds::Holds;
use super::limits::READ_BYTES_MAX;
use super::protocol::{Agreed, Errno, Service};
use super::question::{Change, Head};
use rt::inodes::{InodeError, InodeKind, InodesRef, MountId, New, OpenNode, WriteAt};
use rt::{Attributes, Buf, Node, StreamRef};
use stdx::ByteCount;

/// Bytes that one request copies at the most: what is copied by reading must not take the server for itself.
const COPY_BYTES_MAX: ByteCount = ByteCount(READ_BYTES_MAX as u64 * 64);

/// Who changes what.
pub(super) struct Changer<'a> {
    pub(super) inodes: &'a InodesRef,
    pub(super) holds: &'a Holds,
    pub(super) mount: MountId,
    pub(super) service: Service,
    pub(super) agreed: Agreed,
    /// How long the kernel may believe what it is told of a name in the directory, or of the node, that the request is about.
    pub(super) valid: Valid,
    /// Where it is told what is no longer so.
    pub(super) told: Option<&'a StreamRef>,
}

impl Changer<'_> {
    /// Carries a change out; what the kernel learns of it, beside that it was done.
    pub(super) async fn change(&self, head: Head, change: Change) -> Result<Option<Answer>, Errno> {
        let (inodes, node) = (self.inodes, head.node);
        let by = head.caller(self.mount, false);
        let made = |made: Attributes| Some(Answer::looked_up(Some(&made), self.valid));
        Ok(match change {
            Change::Create { name, new, exclusive, open, only_writes, drops } => {
                self.fits(&name)?;
                let by = (head, drops);
                let created = self.create(by, &name, new, exclusive, open).await?;
                let opened = self.opened(only_writes);
                self.holds.add(created.node, opened.is_direct);
                Some(Answer::created(&created, self.valid, opened))
            }
            Change::CreateUnnamed(new) => {
                let created = inodes.create_unnamed(by, node, new).await?;
                let opened = self.opened(false);
                self.holds.add(created.node, opened.is_direct);
                Some(Answer::created(&created, self.valid, opened))
            }
            Change::Mkdir(name, new) => {
                self.fits(&name)?;
                made(inodes.mkdir(by, node, &name, new).await?)
            }
            Change::Mknod { name, new, kind, device } => {
                self.fits(&name)?;
                made(inodes.mknod(by, node, &name, new, kind, device).await?)
            }
            Change::Symlink { name, target } => {
                self.fits(&name)?;
                made(inodes.symlink(by, node, &name, &target).await?)
            }
            Change::Link(of, name) => {
                self.fits(&name)?;
                made(inodes.link(by, of, node, &name).await?)
            }
            Change::Unlink(name) => {
                self.fits(&name)?;
                inodes.unlink(by, node, &name).await?;
                None
            }
            Change::Rmdir(name) => {
                self.fits(&name)?;
                inodes.rmdir(by, node, &name).await?;
                None
            }
            Change::Rename { name, to, to_name, how } => {
                self.fits(&name)?;
                self.fits(&to_name)?;
                inodes.rename(by, (node, &name), (to, &to_name), how).await?;
                None
            }
            Change::Attributes(set, drops) => {
                let by = head.caller(self.mount, drops);
                Some(Answer::attributes(
                    &inodes.setattr(by, node, set).await?,
                    self.valid.attributes,
                ))
            }
            Change::Write { at, data, durable, is_direct, drops } => {
                let by = head.caller(self.mount, drops);
                let len = data.len() as u32;
                // The kernel places what is appended itself: it knows where the file ends, or is told.
                inodes.write(by, node, WriteAt::Offset(at), data, durable).await?;
                // What comes by the cache is in it, in pages that the kernel keeps locked till it is answered: it would not forget
                // them before.
                if is_direct {
                    self.forget_written(node, at.bytes(), len).await;
                }
                Some(Answer::length(len))
            }
            Change::Fallocate { at, len, what } => {
                let by = head.caller_by_user(self.mount);
                inodes.fallocate(by, node, at, len, what).await?;
                None
            }
            Change::Copy { at, to, len, is_wide } => {
                let by = head.caller_by_user(self.mount);
                let copied = inodes.copy_range(by, (node, at), to, len.min(COPY_BYTES_MAX)).await;
                let copied = match copied {
                    // The kernel reads and writes instead, from now on.
                    Err(InodeError::NotSupported) => return Err(Errno::UNKNOWN),
                    copied => copied?.bytes(),
                };
                Some(if is_wide { Answer::place(copied) } else { Answer::length(copied as u32) })
            }
            Change::SetValue { name, value, how, drops } => {
                let by = head.caller(self.mount, drops);
                inodes.set_extended_attribute(by, node, &name, &value, how).await?;
                None
            }
            Change::RemoveValue(name) => {
                inodes.remove_extended_attribute(by, node, &name).await?;
                None
            }
            Change::Unheard => return Err(Errno::NOT_SUPPORTED),
        })
    }

    /// Makes and opens a file; opens the one that another made meanwhile, unless it must be a new one.
    async fn create(
        &self,
        (head, drops): (Head, bool),
        name: &[u8],
        new: New,
        exclusive: bool,
        open: OpenNode,
    ) -> Result<Attributes, Errno> {
        let (inodes, by) = (self.inodes, head.caller(self.mount, drops));
        match inodes.create(by, head.node, name, new).await {
            Err(InodeError::Exists) if !exclusive => {}
            created => return Ok(created?),
        }
        let found = inodes.lookup(head.node, name).await?;
        match found.kind {
            InodeKind::File => {}
            InodeKind::Directory => return Err(InodeError::IsDirectory.into()),
            _ => return Err(InodeError::Exists.into()),
        }
        inodes.open(by, found.node, open).await?;
        inodes.attributes(found.node).await.map_err(|error| {
            inodes.release(found.node);
            error.into()
        })
    }

    fn fits(&self, name: &[u8]) -> Result<(), Errno> {
        match name.len() > self.inodes.name_bytes_max() {
            true => Err(Errno::NAME_TOO_LONG),
            false => Ok(()),
        }
    }

    /// How the kernel goes on with a file that it opened: pages of it are still what they were, where it is told of changes.
    pub(super) fn opened(&self, only_writes: bool) -> Opened {
        let is_direct = only_writes && self.agreed.writes_past_cache() && self.told.is_some();
        let is_kept = self.service != Service::Untold;
        Opened { is_direct, is_kept, ..Opened::default() }
    }

    /// Opens a file or directory, which is then held.
    pub(super) async fn open(
        &self,
        head: Head,
        node: Node,
        (how, drops): (OpenNode, bool),
        opened: Opened,
    ) -> Result<Answer, Errno> {
        self.inodes.open(head.caller(self.mount, drops), node, how).await?;
        self.holds.add(node, opened.is_direct);
        Ok(Answer::opened(opened))
    }

    /// Before a write is answered: what somebody read meanwhile into the kernel's cache goes.
    async fn forget_written(&self, node: Node, at: u64, len: u32) {
        if let Some(told) = self.told.filter(|_| self.holds.is_read(node)) {
            let message = Buf::copy_of(&Answer::written(node, at, len.into()).0);
            // What the kernel doesn't know it need not forget, and says so by an error.
            let _ = told.write(message.into()).await;
        }
    }
}
