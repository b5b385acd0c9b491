//! How long the rest of a run takes, by how long the runs before took.
//!
//! What a run costs depends on its workload and the parameters of it (a rebuild of whole disks takes a thousand times as
//! long as a second of reads), and less on the levels of the factors. So cells whose workload and parameters are the same are
//! of one **kind**:
//!
//! * of a cell that was run, the next run takes between the shortest and the longest of its own;
//! * of one that wasn't, between the shortest and the longest of its kind, once two cells of it (or all that it has) were run;
//! * of any other nothing is known: then what is known is a lower bound of the whole, and is said to be one.
//!
//! With several runs side by side, the rest takes at least its share of the sum, and no less than the longest run; and in
//! whatever order, no longer than the share of the sum and the longest run after it (Graham, *Bounds on Multiprocessing
//! Timing Anomalies*, 1969).

use crate::design::CellSpec;
use crate::duration;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A range whose ends lie no farther apart than by this factor is told as one figure.
const RANGE_NARROW: f64 = 1.3;

/// How long the rest of a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// No less than this.
    pub at_least: Duration,
    /// No more than this, if runs take what those before took; none while a kind of cell is left of which too little is known.
    pub at_most: Option<Duration>,
}

impl fmt::Display for Left {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.at_least;
        match self.at_most {
            None => write!(out, "at least {} left", whole(least)),
            Some(most) if most <= least.mul_f64(RANGE_NARROW) => {
                write!(out, "some {} left", whole(most))
            }
            Some(most) => write!(out, "{} to {} left", whole(least), whole(most)),
        }
    }
}

/// A span in whole seconds, begun ones counted: `7 s`, `3 min 20 s`.
pub fn whole(span: Duration) -> String {
    match span.as_secs_f64().ceil() {
        seconds if seconds < 60.0 => format!("{seconds} s"),
        seconds => duration::text(seconds),
    }
}

/// The shortest and the longest of some spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: Duration,
    high: Duration,
}

impl Range {
    fn with(known: Option<Range>, other: Range) -> Range {
        known.map_or(other, |known| Range {
            low: known.low.min(other.low),
            high: known.high.max(other.high),
        })
    }

    /// What is left of it after so long.
    fn after(self, spent: Duration) -> Range {
        Range { low: self.low.saturating_sub(spent), high: self.high.saturating_sub(spent) }
    }
}

/// A kind of cells.
#[derive(Clone, Debug, Default)]
struct KindOfCells {
    cells: usize,
    /// Of these were run.
    seen: usize,
    range: Option<Range>,
}

/// How long runs took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// The kind of each cell, and what its own runs took.
    cells: Vec<(usize, Option<Range>)>,
    kinds: Vec<KindOfCells>,
}

impl Pace {
    /// Of these cells, none of which was run.
    pub(crate) fn new(cells: &[CellSpec]) -> Pace {
        let mut numbers = BTreeMap::new();
        let mut pace = Pace::default();
        for cell in cells {
            let key = (cell.workload.name.clone(), cell.workload.parameters());
            let kind = *numbers.entry(key).or_insert(pace.kinds.len());
            if kind == pace.kinds.len() {
                pace.kinds.push(KindOfCells::default());
            }
            pace.kinds[kind].cells += 1;
            pace.cells.push((kind, None));
        }
        pace
    }

    /// A run of this cell took so long.
    pub(crate) fn took(&mut self, cell: usize, span: Duration) {
        let (kind, own) = &mut self.cells[cell];
        let (kind, run) = (&mut self.kinds[*kind], Range { low: span, high: span });
        kind.seen += usize::from(own.is_none());
        kind.range = Some(Range::with(kind.range, run));
        *own = Some(Range::with(*own, run));
    }

    /// A run of this cell failed: no more of its runs will take any time.
    pub(crate) fn failed(&mut self, cell: usize) {
        let (kind, own) = &mut self.cells[cell];
        self.kinds[*kind].cells -= usize::from(own.is_none());
        *own = Some(Range { low: Duration::ZERO, high: Duration::ZERO });
    }

    /// What a run of this cell takes at the most; none while that is not known.
    pub(crate) fn run_takes(&self, cell: usize) -> Option<Duration> {
        self.of(cell).map(|range| range.high)
    }

    fn of(&self, cell: usize) -> Option<Range> {
        let (kind, own) = self.cells[cell];
        let kind = &self.kinds[kind];
        own.or(kind.range.filter(|_| kind.seen >= kind.cells.min(2)))
    }

    /// How long the rest takes, so many runs at a time: cells to be run, and cells that run just now with how long they have.
    /// None where nothing is known.
    pub(crate) fn left(
        &self,
        rest: impl Iterator<Item = usize>,
        running: impl Iterator<Item = (usize, Duration)>,
        jobs: usize,
    ) -> Option<Left> {
        let mut is_known = true;
        let (mut sum, mut longest) = (Range { low: Duration::ZERO, high: Duration::ZERO }, None);
        let all = running.chain(rest.map(|cell| (cell, Duration::ZERO)));
        for (cell, spent) in all {
            let Some(range) = self.of(cell) else {
                is_known = false;
                continue;
            };
            let range = range.after(spent);
            sum = Range { low: sum.low + range.low, high: sum.high + range.high };
            let Range { low, high } = longest.unwrap_or(range);
            longest = Some(Range { low: low.max(range.low), high: high.max(range.high) });
        }
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX).max(1);
        let longest = longest.or((is_known).then_some(sum))?;
        let at_most = sum.high / jobs + longest.high - longest.high / jobs;
        let at_least = longest.low.max(sum.low / jobs);
        Some(Left { at_least, at_most: is_known.then_some(at_most) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Options, Study};

    const S: Duration = Duration::from_secs(1);

    /// Layouts a, b and c, each under reads, writes and rebuilds: cells 0 to 2, 3 to 5, 6 to 8.
    fn pace() -> Pace {
        let text = "title = \"t\"\nquestion = \"q?\"\nmachine = {}\nlayouts = { a = {}, b = {}, c = {} }\n\
             factor = [{ name = \"layout\", levels = [\"a\", \"b\", \"c\"] }]\n\
             [[workload]]\nname = \"random\"\nkind = \"random\"\nread_share = [1, 0]\n\
             [[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\n";
        let study = Study::parse("s", "s.toml", text, &Options::default()).expect("it is right");
        let pace = Pace::new(&crate::design::cells(&study).expect("there are some"));
        let kinds: Vec<usize> = pace.cells.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0, 1, 2, 0, 1, 2, 0, 1, 2], "by workload and parameters");
        pace
    }

    fn left(pace: &Pace, rest: &[usize], running: &[(usize, Duration)], jobs: usize) -> String {
        let left = pace.left(rest.iter().copied(), running.iter().copied(), jobs);
        left.map_or_else(String::new, |left| left.to_string())
    }

    #[test]
    fn a_kind_of_which_too_little_is_known_makes_the_rest_a_lower_bound() {
        let mut pace = pace();
        assert_eq!(left(&pace, &[0, 1, 2], &[], 1), "");
        for (cell, seconds) in [(0, 10), (3, 20), (1, 10), (4, 10)] {
            pace.took(cell, S * seconds);
        }
        assert_eq!(left(&pace, &[6, 7], &[], 1), "20 s to 30 s left");
        assert_eq!(left(&pace, &[6, 7, 8], &[], 1), "at least 20 s left");
        // One rebuild tells of its own cell, and not yet of others.
        pace.took(2, S * 1000);
        assert_eq!(left(&pace, &[6, 7, 8], &[], 1), "at least 20 s left");
        assert_eq!(left(&pace, &[7, 2], &[], 1), "some 16 min 50 s left");
        assert_eq!((pace.run_takes(2), pace.run_takes(8)), (Some(S * 1000), None));
        pace.took(5, S * 3000);
        assert_eq!(left(&pace, &[7, 8], &[], 1), "16 min 50 s to 50 min 10 s left");
        assert_eq!(pace.run_takes(8), Some(S * 3000));
    }

    #[test]
    fn a_cell_that_failed_takes_no_more_time_and_is_not_waited_for() {
        let mut pace = pace();
        pace.took(2, S * 100);
        pace.failed(5);
        assert_eq!(left(&pace, &[5, 8], &[], 1), "at least 0 s left");
        pace.failed(8);
        assert_eq!(left(&pace, &[2, 5, 8], &[], 1), "some 1 min 40 s left");
    }

    #[test]
    fn what_runs_counts_with_what_is_left_of_it_and_a_dear_run_is_not_shared_out() {
        let mut pace = pace();
        [0, 1].into_iter().for_each(|cell| pace.took(cell, S * 10));
        pace.took(2, S * 1000);
        assert_eq!(left(&pace, &[0, 1], &[(2, S * 400)], 1), "some 10 min 20 s left");
        assert_eq!(left(&pace, &[0, 1], &[(2, S * 400)], 4), "some 10 min 5 s left");
        assert_eq!(left(&pace, &[], &[(2, S * 2000)], 4), "some 0 s left");
        assert_eq!(left(&pace, &[], &[], 4), "some 0 s left");
    }
}
