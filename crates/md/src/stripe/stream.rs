//! Streams of writes: who goes on where it ended.
//!
//! A sequential writer whose requests don't end at rows leaves the last row of each half written. Carried
//! out at once, that half reads the other; but the writer, if it has several requests under way, is about
//! to bring it. So the last part of a stream waits for its row to fill (see `write`), but only while the
//! stream has other requests under way, whose answers make the writer send the next ones. (md has the
//! same end: it delays stripes that would have to read.)
//!
//! A stream is recognised by its second write, which begins where the first ended, or not more than a row behind
//! that: a file system that writes back many small files in the order of their places leaves out a block here
//! and there. The [`STREAMS_MAX`] writes or streams seen last are remembered; random writers hardly ever match.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// So many streams are told apart: more writers at a time than that gain little from order anyway.
const STREAMS_MAX: usize = 16;

/// A writer, perhaps sequential.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    end: Cell<u64>,
    writes: Cell<u64>,
    under_way: Cell<usize>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Streams(VecDeque<Rc<Stream>>);

/// A write of a stream, under way until this is dropped.
pub(crate) struct StreamWrite(Rc<Stream>);

impl Streams {
    /// Notes a write, as the next of its stream where there is one.
    pub(crate) fn note(&mut self, start: u64, end: u64, row_bytes: u64) -> Rc<StreamWrite> {
        // Where it ended comes before near it: of two streams side by side each has its own.
        let (mut exactly, mut near) = (None, None);
        for (index, stream) in self.0.iter().enumerate() {
            let ended = stream.end.get();
            if ended == start {
                exactly = Some(index);
                break;
            }
            if near.is_none() && ended < start && start - ended < row_bytes {
                near = Some(index);
            }
        }
        let known = exactly.or(near);
        let stream = match known {
            Some(index) => Rc::clone(&self.0[index]),
            None => {
                if self.0.len() == STREAMS_MAX {
                    self.0.pop_front();
                }
                let stream = Rc::<Stream>::default();
                self.0.push_back(Rc::clone(&stream));
                stream
            }
        };
        stream.end.set(end);
        stream.writes.set(stream.writes.get() + 1);
        stream.under_way.set(stream.under_way.get() + 1);
        Rc::new(StreamWrite(stream))
    }
}

impl StreamWrite {
    /// Whether the stream is one, ends at `end`, and has more than `here` writes under way.
    pub(crate) fn goes_on(&self, end: u64, here: usize) -> bool {
        let stream = &self.0;
        stream.writes.get() > 1 && stream.end.get() == end && stream.under_way.get() > here
    }
}

impl Drop for StreamWrite {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_known_by_its_second_write_and_goes_on_while_others_are_under_way() {
        let mut streams = Streams::default();
        let first = streams.note(0, 10, 100);
        let other = streams.note(500, 510, 100);
        assert!(!first.goes_on(10, 0) && !other.goes_on(510, 0));
        let second = streams.note(10, 20, 100);
        assert!(second.goes_on(20, 1) && !second.goes_on(20, 2) && !first.goes_on(10, 1));
        drop(first);
        assert!(!second.goes_on(20, 1));
    }

    #[test]
    fn a_stream_may_leave_out_less_than_a_row_and_goes_forward_only() {
        let mut streams = Streams::default();
        let first = streams.note(0, 10, 100);
        let second = streams.note(60, 70, 100);
        assert!(second.goes_on(70, 1), "a gap of half a row");
        let back = streams.note(20, 30, 100);
        let far = streams.note(170, 180, 100);
        assert!(!back.goes_on(30, 0) && !far.goes_on(180, 0));
        // Where it ended wins over near it.
        let (near, exact) = (streams.note(320, 330, 100), streams.note(400, 410, 1));
        let next = streams.note(410, 420, 100);
        assert!(next.goes_on(420, 1) && !near.goes_on(330, 0));
        drop((first, exact));
    }
}
