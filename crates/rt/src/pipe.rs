//! A pipe of two directions in memory: two [streams](crate::Stream) that are each other's peer.
//!
//! For tests: with it a server and its client run in virtual time, in one executor, the same way each
//! time. Each direction holds so many bytes as [`pipe`] was told; a writer waits where it is full, as on a
//! socket. A read gives what is there, up to the memory it was lent.

use crate::buf::BufMut;
use crate::sg::SgList;
use crate::stream::{HungUp, Stream, StreamError, StreamFuture, StreamRef};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Two streams; what is written to one is read from the other. Each direction holds `capacity` bytes.
///
/// # Panics
/// If `capacity` is zero: nothing could ever pass.
pub fn pipe(capacity: usize) -> (StreamRef, StreamRef) {
    assert!(capacity > 0, "a pipe holds a byte at the least");
    let there = Rc::new(RefCell::new(Direction::new(capacity)));
    let back = Rc::new(RefCell::new(Direction::new(capacity)));
    let one = End { incoming: Rc::clone(&back), outgoing: Rc::clone(&there) };
    let other = End { incoming: there, outgoing: back };
    (Rc::new(one), Rc::new(other))
}

struct Direction {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// Nobody writes any more.
    ended: bool,
    /// Nobody reads any more.
    unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Wait for the end of it.
    waiting: Vec<Waker>,
}

impl Direction {
    fn new(capacity: usize) -> Direction {
        Direction {
            bytes: VecDeque::new(),
            capacity,
            ended: false,
            unread: false,
            reader: None,
            writer: None,
            waiting: Vec::new(),
        }
    }
}

/// Wakes who waits there. No borrow is held: waking may drop a task.
fn wake(direction: &RefCell<Direction>, change: impl FnOnce(&mut Direction) -> Option<Waker>) {
    let waker = change(&mut direction.borrow_mut());
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Marks a direction as one that nobody writes to any more.
fn end(direction: &RefCell<Direction>) {
    let wakers = {
        let mut direction = direction.borrow_mut();
        direction.ended = true;
        let mut wakers = std::mem::take(&mut direction.waiting);
        wakers.extend(direction.reader.take());
        wakers
    };
    wakers.into_iter().for_each(Waker::wake);
}

struct End {
    incoming: Rc<RefCell<Direction>>,
    outgoing: Rc<RefCell<Direction>>,
}

impl Stream for End {
    fn read(&self, into: BufMut, from: usize) -> StreamFuture<(BufMut, usize)> {
        assert!(from < into.len(), "a read has room for a byte");
        let incoming = Rc::clone(&self.incoming);
        Box::pin(async move {
            let mut into = into;
            let count = poll_fn(|context| {
                let mut direction = incoming.borrow_mut();
                if direction.bytes.is_empty() && !direction.ended {
                    direction.reader = Some(context.waker().clone());
                    return Poll::Pending;
                }
                let count = direction.bytes.len().min(into.len() - from);
                let taken = direction.bytes.drain(..count);
                for (target, byte) in into[from..].iter_mut().zip(taken) {
                    *target = byte;
                }
                Poll::Ready(count)
            })
            .await;
            wake(&incoming, |direction| direction.writer.take());
            Ok((into, count))
        })
    }

    fn write(&self, data: SgList) -> StreamFuture<()> {
        let outgoing = Rc::clone(&self.outgoing);
        Box::pin(async move {
            for piece in data.pieces() {
                let mut rest = piece.bytes();
                while !rest.is_empty() {
                    let count = poll_fn(|context| {
                        let mut direction = outgoing.borrow_mut();
                        if direction.unread || direction.ended {
                            return Poll::Ready(Err(StreamError::Gone));
                        }
                        let room = direction.capacity - direction.bytes.len();
                        if room == 0 {
                            direction.writer = Some(context.waker().clone());
                            return Poll::Pending;
                        }
                        let count = room.min(rest.len());
                        direction.bytes.extend(&rest[..count]);
                        Poll::Ready(Ok(count))
                    })
                    .await?;
                    wake(&outgoing, |direction| direction.reader.take());
                    rest = &rest[count..];
                }
            }
            Ok(())
        })
    }

    fn shutdown(&self) -> StreamFuture<()> {
        end(&self.outgoing);
        Box::pin(std::future::ready(Ok(())))
    }

    fn hung_up(&self) -> HungUp {
        let incoming = Rc::clone(&self.incoming);
        Box::pin(poll_fn(move |context| {
            let mut direction = incoming.borrow_mut();
            if direction.ended {
                return Poll::Ready(());
            }
            direction.waiting.retain(|waker| !waker.will_wake(context.waker()));
            direction.waiting.push(context.waker().clone());
            Poll::Pending
        }))
    }

    fn peer(&self) -> Rc<str> {
        "pipe".into()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        end(&self.outgoing);
        wake(&self.incoming, |direction| {
            direction.unread = true;
            direction.writer.take()
        });
    }
}

#[cfg(test)]
mod tests {
    //! What could break: bytes lost or turned round where the pipe is full, a reader or writer that is
    //! never woken.

    use super::*;
    use crate::buf::Buf;
    use crate::virtual_time::{run, runtime};

    async fn read_all(stream: StreamRef, lent: usize) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (buf, count) = stream.read(BufMut::zeroed(lent), 0).await.expect("read");
            if count == 0 {
                return all;
            }
            all.extend_from_slice(&buf[..count]);
        }
    }

    #[test]
    fn bytes_pass_in_order_through_a_pipe_that_is_smaller_than_they_are() {
        let runtime = runtime();
        let (one, other) = pipe(7);
        let sent: Vec<u8> = (0..200).collect();
        let data = SgList::from(Buf::copy_of(&sent));
        let writer = runtime.handle().spawn(async move { one.write(data).await });
        assert_eq!(run(&runtime, read_all(other, 5)), sent);
        run(&runtime, writer).expect("written");
    }

    #[test]
    fn what_was_written_is_read_after_the_writer_is_gone_and_then_the_end() {
        let runtime = runtime();
        let (one, other) = pipe(100);
        let data = SgList::from(Buf::copy_of(b"last words"));
        run(&runtime, async move { one.write(data).await }).expect("written");
        assert_eq!(run(&runtime, read_all(other, 100)), b"last words");
    }

    #[test]
    fn a_writer_that_waits_is_told_that_the_reader_is_gone() {
        let runtime = runtime();
        let (one, other) = pipe(3);
        let writer = runtime.handle().spawn(async move { one.write(Buf::zeros(10).into()).await });
        let rt = runtime.handle();
        run(&runtime, async move {
            rt.yield_now().await;
            drop(other);
        });
        assert_eq!(run(&runtime, writer), Err(StreamError::Gone));
    }

    #[test]
    fn the_end_is_told_to_who_does_not_read() {
        let runtime = runtime();
        let (one, other) = pipe(100);
        let rt = runtime.handle();
        run(&runtime, async move {
            one.write(Buf::copy_of(b"unread").into()).await.expect("written");
            let told = rt.spawn(other.hung_up());
            rt.yield_now().await;
            assert!(!told.is_finished(), "it is open");
            drop(one);
            told.await;
            other.hung_up().await;
        });
    }

    #[test]
    fn after_a_shutdown_the_other_direction_goes_on() {
        let runtime = runtime();
        let (one, other) = pipe(100);
        run(&runtime, async move {
            one.shutdown().await.expect("shut down");
            assert_eq!(other.read(BufMut::zeroed(1), 0).await.expect("read").1, 0);
            other.write(Buf::copy_of(b"x").into()).await.expect("written");
            assert_eq!(one.read(BufMut::zeroed(1), 0).await.expect("read").1, 1);
        });
    }
}
