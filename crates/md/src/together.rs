//! Waiting for several requests that are under way together.

use rt::{IoFuture, IoResult};
use smallvec::SmallVec;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// Waits for all requests, which are under way together.
pub(crate) fn all(
    mut futures: SmallVec<[IoFuture; 4]>,
) -> impl Future<Output = SmallVec<[IoResult; 4]>> {
    let mut results: SmallVec<[Option<IoResult>; 4]> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        let mut pending = false;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none() {
                match Pin::new(future).poll(context) {
                    Poll::Ready(answer) => *result = Some(answer),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut results).into_iter().flatten().collect())
    })
}
