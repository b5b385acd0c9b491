//! What others changed, on its way to the kernel.
//!
//! The kernel takes the locks of a file or directory before it forgets what it knows of it, and a program whose
//! request is under way may hold them: a notice is taken only when that was answered. So notices go by a stream of their
//! own, beside the requests, and one is dropped only when it was taken. Changes of the same thing that wait are one; so no more
//! wait than there are files and names that the program itself changed. Who made a change and wants the mount to show it waits until
//! all were taken.

use super::answer::Answer;
use rt::inodes::{ChangeNotice, InodesRef, MountId, Watcher};
use rt::sync::Notify;
use rt::{Buf, StreamError, StreamRef};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;

/// Notices that wait.
#[derive(Default)]
struct Queue {
    waiting: RefCell<BTreeSet<ChangeNotice>>,
    more: Notify,
    /// One is on its way.
    is_passing: Cell<bool>,
    /// Nobody takes them any more.
    has_ended: Cell<bool>,
    idle: Notify,
}

impl Queue {
    fn is_idle(&self) -> bool {
        let all_taken = self.waiting.borrow().is_empty() && !self.is_passing.get();
        all_taken || self.has_ended.get()
    }

    fn end(&self) {
        self.has_ended.set(true);
        self.idle.notify_waiters();
    }
}

impl Watcher for Queue {
    fn changed(&self, notice: ChangeNotice) {
        self.waiting.borrow_mut().insert(notice);
        self.more.notify_one();
    }

    fn passed_on(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            loop {
                let idle = self.idle.notified();
                if self.is_idle() {
                    return;
                }
                idle.await;
            }
        })
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
            self.queue.is_passing.set(true);
            let taken = self.stream.write(message.into()).await;
            self.queue.is_passing.set(false);
            // What the kernel doesn't know it need not forget, and says so by an error.
            if let Err(StreamError::Gone) = taken {
                return self.queue.end();
            }
            if self.queue.is_idle() {
                self.queue.idle.notify_waiters();
            }
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.inodes.unwatch(self.mount);
        self.queue.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{BufMut, MemoryTree, Node, Reactor, Runtime};
    use sim::SimReactor;
    use sim::host::Processor;

    const PIPE: usize = 8;

    /// What could break: a change counts as heard of while a notice of it waits, or is half taken; who waits for a kernel that is gone
    /// waits for ever.
    #[test]
    fn changes_are_passed_on_when_all_notices_were_taken_or_nobody_takes_them() {
        let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
        let rt = runtime.handle();
        let run = async move {
            let (stream, kernel) = rt::pipe(PIPE);
            let notices = Notices::new(&(MemoryTree::new("m") as InodesRef), stream);
            let queue = Rc::clone(&notices.queue);
            Rc::clone(&queue).passed_on().await;
            let passing = rt.spawn(async move { notices.pass_on().await });
            let heard = Rc::new(Cell::new(0));
            let waits = || {
                let (queue, heard) = (Rc::clone(&queue), Rc::clone(&heard));
                rt.spawn(async move {
                    queue.passed_on().await;
                    heard.set(heard.get() + 1);
                })
            };
            let mut left = 0;
            for node in [Node(2), Node(3)] {
                let notice = ChangeNotice::Attributes(node);
                left += Answer::notice(&notice).0.len();
                queue.changed(notice);
            }
            let waiting = waits();
            // The last of them lie in the pipe, which is taken, too.
            while left > PIPE {
                rt.sleep(std::time::Duration::from_millis(1)).await;
                assert_eq!(heard.get(), 0, "{left} bytes are not taken");
                let read = kernel.read(BufMut::for_overwrite(PIPE), 0).await;
                left -= read.expect("it is read").1;
            }
            waiting.await;
            queue.changed(ChangeNotice::Attributes(Node(4)));
            let waiting = waits();
            rt.sleep(std::time::Duration::from_millis(1)).await;
            assert_eq!(heard.get(), 1);
            drop(kernel);
            waiting.await;
            passing.await;
        };
        runtime.block_on(run).expect("it ends");
    }
}
