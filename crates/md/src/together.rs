//! Waiting for several requests that are under way together.

use rt::{IoFuture, IoResult};
use smallvec::SmallVec;
use std::future::Future;
use std::task::Poll;

/// Waits for all requests, which are under way together.
pub(crate) fn all(
    mut futures: SmallVec<[IoFuture; 4]>,
) -> impl Future<Output = SmallVec<[IoResult; 4]>> {
    std::future::poll_fn(move |context| {
        let mut pending = false;
        for future in &mut futures {
            // Woken by one at a time: when it has come, the others are asked.
            pending |= !future.poll_kept(context, pending);
        }
        if pending {
            return Poll::Pending;
        }
        Poll::Ready(answers(std::mem::take(&mut futures)))
    })
}

/// The same, and calls `came` for each answer as it comes, with the number of its request, and may do so again later.
///
/// For who keeps count of what is under way: it is woken by each, not only by those that it still has to wait for.
pub(crate) fn all_noted(
    mut futures: SmallVec<[IoFuture; 4]>,
    mut came: impl FnMut(usize),
) -> impl Future<Output = SmallVec<[IoResult; 4]>> {
    std::future::poll_fn(move |context| {
        let mut pending = false;
        for (number, future) in futures.iter_mut().enumerate() {
            match future.poll_kept(context, false) {
                true => came(number),
                false => pending = true,
            }
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready(answers(std::mem::take(&mut futures))),
        }
    })
}

fn answers(futures: SmallVec<[IoFuture; 4]>) -> SmallVec<[IoResult; 4]> {
    futures.into_iter().map(|future| future.into_answer().expect("it has come")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{IoCompletion, SgList};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Answers come in this order, each so many bytes long as its request's number says. Returns how often who waits was woken.
    fn woken(order: &[usize]) -> usize {
        let (completions, futures): (Vec<_>, SmallVec<_>) =
            order.iter().map(|_| IoFuture::pending()).unzip();
        let mut completions: Vec<Option<IoCompletion>> =
            completions.into_iter().map(Some).collect();
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let mut all = pin!(all(futures));
        let mut seen = 0;
        assert!(all.as_mut().poll(&mut context).is_pending());
        for number in order {
            let completion = completions[*number].take().expect("each is answered once");
            completion.complete(Ok(SgList::zeros(*number + 1)));
            if wakes.0.load(Ordering::Relaxed) == seen {
                continue;
            }
            seen = wakes.0.load(Ordering::Relaxed);
            if let Poll::Ready(answers) = all.as_mut().poll(&mut context) {
                let lens: Vec<usize> =
                    answers.iter().map(|answer| answer.as_ref().map_or(0, SgList::len)).collect();
                assert_eq!(lens, (1..=order.len()).collect::<Vec<_>>());
                assert!(completions.iter().all(Option::is_none), "all have come");
                return seen;
            }
        }
        panic!("it never ended");
    }

    /// A wake that is missing hangs the array; one too many is a pass through the executor for nothing.
    #[test]
    fn who_waits_for_all_is_woken_only_by_those_it_still_has_to_wait_for() {
        assert_eq!(woken(&[0]), 1);
        assert_eq!(woken(&[1, 0]), 1);
        assert_eq!(woken(&[0, 1]), 2);
        assert_eq!(woken(&[3, 1, 2, 0]), 1);
        assert_eq!(woken(&[1, 0, 3, 2]), 2);
        assert_eq!(woken(&[0, 1, 2, 3]), 4);
    }
}
