//! The server: requests under way, and what answers each.

use super::inbox::Inbox;
use super::protocol::{Answer, Errno, Head, MINOR_MIN, Question, dot, opens_alone};
use super::{ENTRIES_MAX, READ_BYTES_MAX};
use futures_util::stream::{TryStreamExt, unfold};
use rt::inodes::{Attributes, InodeKind, ListEntry};
use rt::sync::Semaphore;
use rt::{Buf, Cookie, InodesRef, Node, SgList, StreamError, StreamRef};
use std::cell::Cell;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// The unit in which `df` is answered, in bytes.
const USAGE_UNIT: u64 = 4096;
/// Bytes of a name at the most: what the kernel passes on. File systems of ZFS have 255, or 1023 with `longname`.
const NAME_BYTES_MAX: usize = 1023;

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

/// A server of a mount. See the [module](super).
pub struct Server(Rc<Shared>);

/// What requests share.
struct Shared {
    inodes: InodesRef,
    stream: StreamRef,
    /// A reply is one write, and one at a time.
    writing: Semaphore,
    /// Whether the kernel opens files and directories without asking, once it has been told so.
    opens_alone: Cell<(bool, bool)>,
    /// The protocol was agreed on.
    begun: Cell<bool>,
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
    /// A server of this file system over the kernel's requests.
    pub fn new(inodes: InodesRef, stream: StreamRef) -> Server {
        let (writing, opens_alone) = (Semaphore::new(1), Cell::new((false, false)));
        Server(Rc::new(Shared { inodes, stream, writing, opens_alone, begun: Cell::new(false) }))
    }

    /// Answers until the file system is unmounted. Dropping it gives up what is under way.
    ///
    /// # Errors
    /// [`FuseError`].
    pub async fn serve(self) -> Result<(), FuseError> {
        let inbox = Inbox::new(Rc::clone(&self.0.stream));
        let requests = unfold(inbox, async |mut inbox| {
            let next = inbox.next().await.transpose()?;
            Some((next, inbox))
        });
        let answered = requests.try_for_each_concurrent(super::REQUESTS_MAX, |request| {
            let shared = Rc::clone(&self.0);
            async move { shared.request(&request).await }
        });
        match answered.await {
            // Who unmounts while a reply is under way meant it.
            Err(FuseError::Stream(StreamError::Gone)) => Ok(()),
            other => other,
        }
    }
}

impl Shared {
    async fn request(&self, request: &[u8]) -> Result<(), FuseError> {
        let Some((head, bytes)) = Head::decode(request) else {
            return Err(FuseError::Length(request.len()));
        };
        let rest = match head.question(bytes) {
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
                    self.begun.set(true);
                    self.opens_alone.set(opens_alone(offers));
                    Answer::begin(minor, read_ahead, offers).into()
                })
            }
            Some(_) if !self.begun.get() => Err(Errno::PROTOCOL),
            Some(question) => self.answer(head.node, question).await,
        };
        self.reply(head, rest).await
    }

    async fn answer(&self, node: Node, question: Question) -> Result<Rest, Errno> {
        let inodes = &self.inodes;
        Ok(match question {
            Question::Lookup(name) if name.len() > NAME_BYTES_MAX => {
                return Err(Errno::NAME_TOO_LONG);
            }
            Question::Lookup(name) => match inodes.lookup(node, &name).await {
                Ok(found) => Answer::looked_up(Some(&found)).into(),
                // That there is none may be kept too.
                Err(rt::InodeError::NotFound) => Answer::looked_up(None).into(),
                Err(error) => return Err(error.into()),
            },
            Question::Attributes => Answer::attributes(&inodes.attributes(node).await?).into(),
            Question::LinkTarget => {
                let target = inodes.link_target(node).await?;
                Answer(target).into()
            }
            // An error tells the kernel to open without asking from now on.
            Question::Open if self.opens_alone.get().0 => return Err(Errno::UNKNOWN),
            Question::OpenDirectory if self.opens_alone.get().1 => return Err(Errno::UNKNOWN),
            Question::Open => Answer::opened(false).into(),
            Question::OpenDirectory => Answer::opened(true).into(),
            Question::Close | Question::End => Rest::Nothing,
            Question::Read { at, len } => {
                let len = ByteCount(len.into());
                let data = inodes.read(node, Offset(at), len).await?;
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
                let usage = inodes.usage().await?;
                Answer::usage(&usage, USAGE_UNIT, NAME_BYTES_MAX as u32).into()
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
            Question::Change => return Err(Errno::READ_ONLY),
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
        let inodes = &self.inodes;
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
            list.add_entry(&entry, known.as_ref().map(Option::as_ref));
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
        let data: Result<SgList, Errno> = rest.map(|rest| match rest {
            Rest::Built(answer) => SgList::from(Buf::copy_of(&answer.0)),
            Rest::Data(data) => data,
            Rest::Nothing => SgList::new(),
        });
        let len = data.as_ref().map(SgList::len).map_err(|errno| *errno);
        assert!(
            len.is_ok_and(|len| len <= READ_BYTES_MAX as usize) || len.is_err(),
            "an answer fits"
        );
        let mut reply = SgList::from(Buf::copy_of(&Answer::head(head.number, len).0));
        reply.append(data.unwrap_or_default());
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
