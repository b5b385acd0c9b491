//! What other threads ring to end the `park` of a thread that waits in its ring.
//!
//! The ring waits for the bell by an entry of its own, which stays under way from park to park. Ringing
//! makes a system call only while somebody listens: most wakers are called by the executor's own thread.
//!
//! **No descriptor, where that can be.** From Linux 6.7 on a ring can wait for a word in memory (a
//! futex), which any thread of the process can wake. Before, it reads an eventfd. That has a number, and
//! the number means something else to a thread with a [table of open files of its
//! own](crate::HostTree::open_alone): it would ring a stranger's file, by writing to it. So threads get
//! tables of their own only where bells need no descriptor ([`need_no_descriptor`]).

use crate::sys::{self, Errno, EventFd};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nobody waits, and nobody has rung.
const QUIET: u32 = 0;
/// The executor waits, or is about to.
const LISTENING: u32 = 1;
/// Somebody has rung.
const RUNG: u32 = 2;

/// Any of the bits that a futex's waiters can ask for (`FUTEX_BITSET_MATCH_ANY`).
const ANY_BIT: u64 = u32::MAX as u64;
/// The word has 32 bits (`FUTEX2_SIZE_U32`), and is not said to be this process's own (`FUTEX2_PRIVATE`): from
/// Linux 6.16 on a process gets a table of private waiters with its second thread, and a ring's entry that
/// waits since before that is not found in it, so a bell armed early would never be heard.
const WORD_OF_32_BITS: u32 = 2;

/// See the [module](self).
pub(crate) struct Bell {
    state: AtomicU32,
    event: Option<Event>,
}

struct Event {
    fd: EventFd,
    /// What the ring's entry reads into.
    count: AtomicU64,
}

impl Bell {
    pub(crate) fn new() -> Result<Bell, Errno> {
        let event = match need_no_descriptor() {
            true => None,
            false => Some(Event { fd: EventFd::new()?, count: AtomicU64::new(0) }),
        };
        Ok(Bell { state: AtomicU32::new(QUIET), event })
    }

    /// Begins to listen; false where the bell was rung already, so that there is nothing to wait for.
    pub(crate) fn listen(&self) -> bool {
        self.state.swap(LISTENING, Ordering::SeqCst) != RUNG
    }

    /// The end of a `park`: what was rung until here is answered by the look that the executor takes
    /// next.
    pub(crate) fn ignore(&self) {
        self.state.store(QUIET, Ordering::SeqCst);
    }

    /// The entry that ends when the bell is rung; it ends at once where nobody listens any more by the
    /// time the kernel takes it. It points into the bell, which must stay until it has ended.
    pub(crate) fn entry(&self) -> squeue::Entry {
        match &self.event {
            None => {
                let state = self.state.as_ptr().cast_const();
                let listening = u64::from(LISTENING);
                opcode::FutexWait::new(state, listening, ANY_BIT, WORD_OF_32_BITS).build()
            }
            Some(event) => {
                let fd = types::Fd(event.fd.as_fd().as_raw_fd());
                opcode::Read::new(fd, event.count.as_ptr().cast(), 8).build()
            }
        }
    }

    /// Ends an entry that is under way.
    pub(crate) fn signal(&self) {
        match &self.event {
            None => sys::wake_waiters(&self.state),
            Some(event) => event.fd.signal(),
        }
    }
}

impl rt::reactor::Unpark for Bell {
    fn unpark(&self) {
        if self.state.swap(RUNG, Ordering::SeqCst) == LISTENING {
            self.signal();
        }
    }
}

/// Whether this kernel's rings can wait for a word in memory.
pub(crate) fn need_no_descriptor() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut probe = Probe::new();
        let asked = IoUring::new(1).and_then(|ring| ring.submitter().register_probe(&mut probe));
        // Without rings there are no such bells either.
        asked.is_err() || probe.is_supported(opcode::FutexWait::CODE)
    })
}
