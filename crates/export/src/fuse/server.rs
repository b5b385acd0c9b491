//! The server: requests under way, and what answers each.

use super::answer::{Answer, Opened, Valid, dot};
use super::change::Changer;
use super::holds::Holds;
use super::inbox::{Inbox, InboxError};
use super::limits::{
    ENTRIES_MAX, READ_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX, UNTOLD_VALID, VALID,
    WRITING_REQUEST_BYTES_MAX,
};
use super::notices::Notices;
use super::protocol::{Agreed, DIRECT, Errno, MINOR_MIN, Service};
use super::question::{Head, Question};
use futures_util::future::{Either, select};
use futures_util::stream::{TryStreamExt, unfold};
use rt::inodes::{Attributes, Changes, InodeKind, ListEntry, MountId, OpenNode};
use rt::sync::Semaphore;
use rt::{Buf, Cookie, InodesRef, Node, SgList, StreamError, StreamRef};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use stdx::ByteCount;

/// The unit in which `df` is answered, in bytes.
const USAGE_UNIT: u64 = 4096;

/// Why serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FuseError {
    /// The stream failed.
    #[error("serving the mount: {0}")]
    Stream(#[from] StreamError),
    /// A request whose length can't be.
    #[error("serving the mount: a request of {0} bytes can't be")]
    Length(usize),
    /// The kernel speaks another protocol.
    #[error(
        "serving the mount: the kernel speaks version {major}.{minor} of the protocol; 7.{MINOR_MIN} or later is needed (Linux 5.4)"
    )]
    TooOld {
        /// The kernel's.
        major: u32,
        /// The kernel's.
        minor: u32,
    },
}

impl From<InboxError> for FuseError {
    fn from(error: InboxError) -> FuseError {
        match error {
            InboxError::Stream(error) => FuseError::Stream(error),
            InboxError::Length(length) => FuseError::Length(length),
        }
    }
}

/// A server of a mount. See the [module](super).
pub struct Server {
    shared: Rc<Shared>,
    notices: Option<Notices>,
}

/// What requests share.
struct Shared {
    inodes: InodesRef,
    stream: StreamRef,
    /// A reply is one write, and one at a time.
    writing: Semaphore,
    holds: Holds,
    service: Service,
    mount: MountId,
    /// Nothing until the protocol was agreed on.
    agreed: Cell<Option<Agreed>>,
    /// Where the kernel is told what is no longer so.
    told: Option<StreamRef>,
}

/// What an answer consists of behind its head.
enum Rest {
    Built(Answer),
    Data(SgList),
    Nothing,
}

impl From<Answer> for Rest {
    fn from(answer: Answer) -> Rest {
        Rest::Built(answer)
    }
}

impl Server {
    /// A server of this file system over the kernel's requests. What the file system changes otherwise, the kernel learns
    /// when it asks again.
    pub fn new(inodes: InodesRef, stream: StreamRef) -> Server {
        Server::with(inodes, stream, None)
    }

    /// The same, and the kernel is told at once, by another stream to it: one whose writes may wait until requests are answered.
    pub fn with_notices(inodes: InodesRef, stream: StreamRef, notices: StreamRef) -> Server {
        Server::with(inodes, stream, Some(notices))
    }

    fn with(inodes: InodesRef, stream: StreamRef, notices: Option<StreamRef>) -> Server {
        let told = notices.clone().filter(|_| inodes.changes() == Changes::Told);
        let (service, notices) = match (inodes.changes(), notices) {
            (Changes::Never, _) => (Service::Still, None),
            (Changes::Told, None) => (Service::Untold, None),
            (Changes::Told, Some(notices)) => (Service::Told, Some(Notices::new(&inodes, notices))),
        };
        let mount = notices.as_ref().map_or(MountId::NONE, |notices| notices.mount);
        let (writing, holds, agreed) = (Semaphore::new(1), Holds::new(&inodes), Cell::default());
        let shared = Shared { inodes, stream, writing, holds, service, mount, agreed, told };
        Server { shared: Rc::new(shared), notices }
    }

    /// Answers until the file system is unmounted. Dropping it gives up what is under way, and closes what is open.
    ///
    /// # Errors
    /// [`FuseError`].
    pub async fn serve(self) -> Result<(), FuseError> {
        let request_bytes_max = self.shared.request_bytes_max();
        let inbox = Inbox::new(Rc::clone(&self.shared.stream), request_bytes_max);
        let requests = unfold(inbox, async |mut inbox| {
            let next = inbox.next().await.map_err(FuseError::from).transpose()?;
            Some((next, inbox))
        });
        let answered = requests.try_for_each_concurrent(REQUESTS_MAX, |request| {
            let shared = Rc::clone(&self.shared);
            async move { shared.request(&request).await }
        });
        let told = async {
            if let Some(notices) = &self.notices {
                notices.pass_on().await;
            }
            std::future::pending().await
        };
        let ended = match select(pin!(answered), pin!(told)).await {
            Either::Left((ended, _)) | Either::Right((ended, _)) => ended,
        };
        match ended {
            // Who unmounts while a reply is under way meant it.
            Err(FuseError::Stream(StreamError::Gone)) => Ok(()),
            other => other,
        }
    }
}

impl Shared {
    /// How long the kernel may believe an answer.
    fn valid(&self) -> Duration {
        match self.service {
            Service::Still | Service::Told => VALID,
            Service::Untold => UNTOLD_VALID,
        }
    }

    /// The same of names in a directory: of one that folds them the kernel would keep each spelling by itself, there or not, long after
    /// what it leads to was moved, removed or made under another.
    fn valid_in(&self, directory: Node) -> Valid {
        let attributes = self.valid();
        let keeps = self.service == Service::Still || !self.inodes.folds_names(directory);
        Valid { entry: if keeps { attributes } else { Duration::ZERO }, attributes }
    }

    fn request_bytes_max(&self) -> usize {
        match self.service {
            Service::Still => REQUEST_BYTES_MAX,
            Service::Told | Service::Untold => WRITING_REQUEST_BYTES_MAX,
        }
    }

    fn changer(&self, node: Node) -> Changer<'_> {
        let (inodes, holds) = (&self.inodes, &self.holds);
        let (mount, service, valid) = (self.mount, self.service, self.valid_in(node));
        let (agreed, told) = (self.agreed.get().unwrap_or_default(), self.told.as_ref());
        Changer { inodes, holds, mount, service, agreed, valid, told }
    }

    async fn request(&self, request: &Buf) -> Result<(), FuseError> {
        let Some(head) = Head::decode(request.bytes()) else {
            return Err(FuseError::Length(request.len()));
        };
        let agreed = self.agreed.get();
        let rest = match head.question(request, agreed.unwrap_or_default()) {
            None => Err(Errno::INVALID),
            Some(Question::Remark) => return Ok(()),
            Some(Question::Begin { major, minor, read_ahead, offers }) => {
                if major < 7 || major == 7 && minor < MINOR_MIN {
                    self.reply(head, Err(Errno::PROTOCOL)).await?;
                    return Err(FuseError::TooOld { major, minor });
                }
                Ok(if major > 7 {
                    Answer::begin_again().into()
                } else {
                    let agreed = Agreed::on(offers, self.service);
                    self.agreed.set(Some(agreed));
                    Answer::begin(minor, read_ahead, agreed, self.request_bytes_max()).into()
                })
            }
            Some(question) => match agreed {
                Some(agreed) => self.answer(head, question, agreed).await,
                None => Err(Errno::PROTOCOL),
            },
        };
        self.reply(head, rest).await
    }

    async fn answer(&self, head: Head, question: Question, agreed: Agreed) -> Result<Rest, Errno> {
        let (inodes, node, valid) = (&self.inodes, head.node, self.valid());
        Ok(match question {
            Question::Lookup(name) if name.len() > inodes.name_bytes_max() => {
                return Err(Errno::NAME_TOO_LONG);
            }
            Question::Lookup(name) => {
                let valid = self.valid_in(node);
                match inodes.lookup(node, &name).await {
                    Ok(found) => Answer::looked_up(Some(&found), valid).into(),
                    // That there is none may be kept too.
                    Err(rt::InodeError::NotFound) if !valid.entry.is_zero() => {
                        Answer::looked_up(None, valid).into()
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Question::Attributes => {
                Answer::attributes(&inodes.attributes(node).await?, valid).into()
            }
            Question::LinkTarget => {
                let target = inodes.link_target(node).await?;
                Answer(target).into()
            }
            // An error tells the kernel to open without asking from now on.
            Question::Open { .. } if agreed.opens_alone() => return Err(Errno::UNKNOWN),
            Question::OpenDirectory if agreed.opens_directories_alone() => {
                return Err(Errno::UNKNOWN);
            }
            Question::Open { how, only_writes, drops } => {
                let opened = self.changer(node).opened(only_writes);
                self.changer(node).open(head, node, (how, drops), opened).await?.into()
            }
            Question::OpenDirectory => {
                let is_still = self.service == Service::Still;
                let (is_kept, is_cached_directory) = (is_still, is_still);
                let opened = Opened { is_direct: false, is_kept, is_cached_directory };
                self.changer(node)
                    .open(head, node, (OpenNode::default(), false), opened)
                    .await?
                    .into()
            }
            Question::Close(handle) if self.holds.release(node, handle == DIRECT) => Rest::Nothing,
            Question::Close(_) => return Err(Errno::INVALID),
            // A write that was answered is done: there is nothing to say at the end, nor ever again.
            Question::Flush => return Err(Errno::UNKNOWN),
            Question::End => Rest::Nothing,
            Question::Read { at, len } => {
                let len = ByteCount(len.into());
                let data = inodes.read(node, at, len).await?;
                assert!(
                    data.len() as u64 <= len.bytes(),
                    "a read gives what was asked for at the most"
                );
                Rest::Data(data)
            }
            Question::List { after, len, attributes } => {
                self.list(node, after, len as usize, attributes).await?.into()
            }
            Question::Usage => {
                let usage = inodes.usage(node).await?;
                Answer::usage(&usage, USAGE_UNIT, inodes.name_bytes_max() as u32).into()
            }
            Question::Value { len, name } => {
                let value = inodes.extended_attribute(node, &name).await?;
                sized(value, len)?
            }
            Question::Names { len } => {
                let mut names = Vec::new();
                for name in inodes.extended_attributes(node).await? {
                    names.extend(name);
                    names.push(0);
                }
                sized(names, len)?
            }
            Question::Seek(at, what) => {
                Answer::place(inodes.seek(node, at, what).await?.bytes()).into()
            }
            Question::Fsync(what) => {
                inodes.fsync(node, what).await?;
                Rest::Nothing
            }
            Question::Sync => {
                inodes.sync().await?;
                Rest::Nothing
            }
            Question::Change(_) if self.service == Service::Still => return Err(Errno::READ_ONLY),
            Question::Change(change) => {
                self.changer(node).change(head, change).await?.map_or(Rest::Nothing, Rest::Built)
            }
            Question::Unknown => return Err(Errno::UNKNOWN),
            Question::Begin { .. } | Question::Remark => unreachable!("they were answered before"),
        })
    }

    async fn list(
        &self,
        directory: Node,
        after: Cookie,
        room: usize,
        attributes: bool,
    ) -> Result<Answer, Errno> {
        let (inodes, valid) = (&self.inodes, self.valid_in(directory));
        let mut list = Answer::default();
        let mut entries = Vec::new();
        if after < Cookie(2) {
            let own = inodes.attributes(directory).await?;
            let above = inodes.parent(directory).await?;
            let above = inodes.attributes(above).await?;
            let dots = [dot(".", &own, 1), dot("..", &above, 2)];
            entries.extend(dots.into_iter().skip(after.0 as usize));
        }
        let behind = if after < Cookie::FIRST { Cookie::START } else { after };
        let entries_max = (room / Answer::entry_bytes(1, attributes)).clamp(1, ENTRIES_MAX);
        entries.extend(inodes.list(directory, behind, entries_max).await?);
        for entry in entries {
            assert!(entry.cookie.0 < 1 << 63, "a cookie is a place in a file");
            if list.0.len() + Answer::entry_bytes(entry.name.len(), attributes) > room {
                break;
            }
            let known = match attributes {
                // The kernel takes none for dots; and what can't be looked at is listed by its name alone.
                true if entry.cookie >= Cookie::FIRST => Some(self.listed(directory, &entry).await),
                true => Some(None),
                false => None,
            };
            list.add_entry(&entry, known.as_ref().map(Option::as_ref), valid);
        }
        Ok(list)
    }

    /// What is known of an entry. Directories are looked up by their names, as the kernel does itself: it may be refused there.
    async fn listed(&self, directory: Node, entry: &ListEntry) -> Option<Attributes> {
        let known = self.inodes.attributes(entry.node).await.ok()?;
        match known.kind {
            InodeKind::Directory => self.inodes.lookup(directory, &entry.name).await.ok(),
            _ => Some(known),
        }
    }

    async fn reply(&self, head: Head, rest: Result<Rest, Errno>) -> Result<(), FuseError> {
        let (built, data) = match &rest {
            Ok(Rest::Built(answer)) => (&answer.0[..], SgList::new()),
            Ok(Rest::Data(data)) => (&[][..], data.clone()),
            Ok(Rest::Nothing) | Err(_) => (&[][..], SgList::new()),
        };
        let len = rest.as_ref().map(|_| built.len() + data.len()).map_err(|errno| *errno);
        assert!(
            len.is_ok_and(|len| len <= READ_BYTES_MAX as usize) || len.is_err(),
            "an answer fits"
        );
        let mut first = Answer::head(head.number, len);
        first.0.extend_from_slice(built);
        let mut reply = SgList::from(Buf::copy_of(&first.0));
        reply.append(data);
        let _turn = self.writing.acquire().await.expect("nobody closes the semaphore");
        self.stream.write(reply).await?;
        Ok(())
    }
}

/// A value, where there is room for it; its length, where none is offered.
fn sized(value: Vec<u8>, room: u32) -> Result<Rest, Errno> {
    let len = u32::try_from(value.len()).map_err(|_| Errno::RANGE)?;
    match room {
        0 => Ok(Answer::length(len).into()),
        room if len <= room => Ok(Answer(value).into()),
        _ => Err(Errno::RANGE),
    }
}
