//! A request spread over members: pieces that follow one another on a member become one request.
//!
//! The layout hands out pieces of at most one chunk, in the order of the array. A **run** is what one
//! member is asked for at once: pieces join it as long as they go on where it ends and it stays within
//! [`MEMBER_REQUEST_MAX`]. The **segments** remember which piece of the array lies where in which run,
//! so that a read's answers are put together without copying, and a write's data is taken apart the
//! same way.

use rt::SgList;
use smallvec::SmallVec;

/// The longest request to one member. Beyond half a megabyte disks and links gain nothing from longer
/// ones, while whatever waits behind them waits longer.
pub(crate) const MEMBER_REQUEST_MAX: u64 = 1 << 20;

/// One request to one member.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) slot: usize,
    /// Byte of the member's data area.
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// A piece of the array: which run has it. Its place in the run follows from the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) run: u32,
    pub(crate) len: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Spread {
    pub(crate) runs: SmallVec<[Run; 2]>,
    pub(crate) segments: SmallVec<[Segment; 4]>,
}

impl Spread {
    /// Adds the next piece of the array. `slots` is how many members there are: no run that still can
    /// grow lies further back than twice that.
    pub(crate) fn add(&mut self, slot: usize, at: u64, len: u64, slots: usize) {
        let first = self.runs.len().saturating_sub(2 * slots);
        let grown = self.runs[first..].iter_mut().enumerate().rev().find(|(_, run)| {
            run.slot == slot && run.at + run.len == at && run.len + len <= MEMBER_REQUEST_MAX
        });
        let run = match grown {
            Some((index, run)) => {
                run.len += len;
                first + index
            }
            None => {
                self.runs.push(Run { slot, at, len });
                self.runs.len() - 1
            }
        };
        self.segments.push(Segment { run: run as u32, len });
    }

    /// The answers of the runs put together in the order of the array.
    pub(crate) fn assemble(&self, answers: &[SgList]) -> SgList {
        if let [answer] = answers {
            return answer.clone();
        }
        assert_eq!(answers.len(), self.runs.len(), "each run has its answer");
        let mut taken: SmallVec<[u64; 16]> = SmallVec::from_elem(0, answers.len());
        let mut whole = SgList::new();
        for segment in &self.segments {
            let (answer, from) = (&answers[segment.run as usize], &mut taken[segment.run as usize]);
            let to = *from + segment.len;
            whole.append(answer.slice(*from as usize..to as usize));
            *from = to;
        }
        whole
    }

    /// The data of each run, taken from the data of the whole.
    pub(crate) fn scatter(&self, data: &SgList) -> SmallVec<[SgList; 2]> {
        if self.runs.len() == 1 {
            return SmallVec::from_iter([data.clone()]);
        }
        let mut parts: SmallVec<[SgList; 2]> = self.runs.iter().map(|_| SgList::new()).collect();
        let mut at = 0;
        for segment in &self.segments {
            let end = at + segment.len as usize;
            parts[segment.run as usize].append(data.slice(at..end));
            at = end;
        }
        assert_eq!(at, data.len(), "all data is scattered");
        parts
    }
}
