//! The requests that a simulated device has taken and not yet answered.

use rt::{Device, IoCompletion, IoError, IoErrorKind, IoFuture, IoResult, Request};

/// Requests by number; numbers are used again.
#[derive(Default)]
pub(crate) struct Pending {
    slots: Vec<Option<(Request, IoCompletion)>>,
    free: Vec<usize>,
}

impl Pending {
    /// Takes a request; returns its number and the future of its answer.
    pub(crate) fn enter(&mut self, request: Request) -> (usize, IoFuture) {
        let (completion, future) = IoFuture::pending();
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[id] = Some((request, completion));
        (id, future)
    }

    /// The request of this number.
    pub(crate) fn request(&self, id: usize) -> &Request {
        let (request, _) = self.slots[id].as_ref().expect("a request that is under way");
        request
    }

    /// Answers it.
    pub(crate) fn complete(&mut self, id: usize, result: IoResult) {
        let (_, completion) = self.slots[id].take().expect("a request is answered once");
        self.free.push(id);
        completion.complete(result);
    }

    /// Answers all with an error.
    pub(crate) fn fail_all(&mut self, device: &dyn Device, kind: IoErrorKind) {
        self.free.clear();
        for (request, completion) in self.slots.drain(..).flatten() {
            completion.complete(Err(IoError::of(&request, device, kind)));
        }
    }
}
