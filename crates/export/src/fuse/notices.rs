//! What others changed, on its way to the kernel.
//!
//! The kernel takes the locks of a file or directory before it forgets what it knows of it, and a program whose
//! request is under way may hold them: a notice is taken only when that was answered. So notices go by a stream of their
//! own, beside the requests, and one is dropped only when it was taken. Changes of the same thing that wait are one; so no more
//! wait than there are files and names that the program itself changed.

use super::answer::Answer;
use rt::inodes::{ChangeNotice, InodesRef, MountId, Watcher};
use rt::sync::Notify;
use rt::{Buf, StreamError, StreamRef};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Notices that wait.
#[derive(Default)]
struct Queue {
    waiting: RefCell<BTreeSet<ChangeNotice>>,
    more: Notify,
}

impl Watcher for Queue {
    fn changed(&self, notice: ChangeNotice) {
        self.waiting.borrow_mut().insert(notice);
        self.more.notify_one();
    }
}

/// See the [module](self).
pub(super) struct Notices {
    inodes: InodesRef,
    stream: StreamRef,
    queue: Rc<Queue>,
    /// The number that requests of this mount bear.
    pub(super) mount: MountId,
}

impl Notices {
    /// Listens to the file system from now on.
    pub(super) fn new(inodes: &InodesRef, stream: StreamRef) -> Notices {
        let queue = Rc::new(Queue::default());
        let mount = inodes.watch(Rc::clone(&queue) as Rc<dyn Watcher>);
        Notices { inodes: Rc::clone(inodes), stream, queue, mount }
    }

    /// Passes them on, until nobody takes them.
    pub(super) async fn pass_on(&self) {
        loop {
            let next = self.queue.waiting.borrow_mut().pop_first();
            let Some(notice) = next else {
                self.queue.more.notified().await;
                continue;
            };
            let message = Buf::copy_of(&Answer::notice(&notice).0);
            // What the kernel doesn't know it need not forget, and says so by an error.
            if let Err(StreamError::Gone) = self.stream.write(message.into()).await {
                return;
            }
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.inodes.unwatch(self.mount);
    }
}
