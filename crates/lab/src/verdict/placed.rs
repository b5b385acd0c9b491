//! Who stands where among ranked levels, and how sure that is.

use super::score::{Asked, Score};
use crate::metrics::SHOWN_RATIO_MIN;
use crate::stats;
use crate::words;

/// Logarithms that are no farther apart are those of one figure: beyond it is what sums are rounded by.
const EQUAL: f64 = 1e-9;

/// Scores are alike where no cell of the one is farther from the other's: means may be one where cells are not.
const ALIKE_CELL_RATIO_MAX: f64 = 1.05;

/// Who stands where. The order is that of the means; a level that can't be told from the best although one
/// above it can is placed nowhere: its own spread is too wide.
pub(super) struct Placed<'a> {
    pub(super) best: &'a Score,
    /// Not told from the best, and none above them is; each with its test.
    pub(super) ties: Vec<(&'a Score, stats::Welch)>,
    /// Told from the best.
    pub(super) worse: Vec<&'a Score>,
    /// Behind the best in each repeat, of which there are too few for the test to tell.
    pub(super) unsure: Vec<&'a Score>,
    /// Below a level that is told from the best, and themselves not; or run once, beside others that were run more often.
    pub(super) unplaced: Vec<&'a Score>,
    /// The best was run once, or all others were: nothing is known of who is told from whom. All are in `worse`.
    pub(super) alone: bool,
}

impl<'a> Placed<'a> {
    /// Places levels that are ranked; none where there is no level.
    pub(super) fn of(scores: &'a [Score], asked: &Asked<'_>) -> Option<Placed<'a>> {
        let confidence = asked.study.confidence;
        let (best, others) = scores.split_first()?;
        let mut placed = Placed {
            best,
            ties: Vec::new(),
            worse: Vec::new(),
            unsure: Vec::new(),
            unplaced: Vec::new(),
            alone: false,
        };
        let test = |other: &'a Score| {
            let test = best.test(other, confidence);
            test.map(|test| (other, test))
        };
        let tests: Vec<(&Score, stats::Welch)> = others.iter().filter_map(test).collect();
        if tests.is_empty() && !others.is_empty() {
            placed.alone = true;
            placed.worse.extend(others);
            return Some(placed);
        }
        placed.unplaced.extend(others.iter().filter(|other| other.logs.len() < 2));
        let chances: Vec<f64> = tests.iter().map(|(_, test)| test.p).collect();
        let corrected = stats::holm(&chances);
        for ((other, test), p) in tests.into_iter().zip(corrected) {
            let is_behind = !placed.worse.is_empty() || !placed.unsure.is_empty();
            if p < 1.0 - confidence {
                placed.worse.push(other);
            } else if best.beats_always(other, asked.better)
                && !best.is_within_sampling(other, confidence)
            {
                placed.unsure.push(other);
            } else if is_behind {
                placed.unplaced.push(other);
            } else {
                placed.ties.push((other, test));
            }
        }
        Some(placed)
    }

    /// Those that came out as the best did: of levels of which nothing is known but one repeat those whose figure shows as the best's
    /// does, over all and nearly so in each cell, of others those that gave the same in every repeat. Which stands first of them is chance.
    pub(super) fn alike(&self) -> Vec<&'a Score> {
        if !self.alone {
            let equal = self.ties.iter().filter(|(score, _)| self.is_equal(score));
            return equal.map(|(score, _)| *score).collect();
        }
        let is_alike = |score: &&&Score| self.best.away(score) < SHOWN_RATIO_MIN.ln();
        let alike = self.worse.iter().filter(is_alike).copied();
        alike.filter(|score| self.is_near_in_each_cell(score)).collect()
    }

    /// Those that are not told from the best, and not alike.
    pub(super) fn untold(&self) -> Vec<&'a Score> {
        let untold = self.ties.iter().filter(|(score, _)| !self.is_equal(score));
        untold.map(|(score, _)| *score).collect()
    }

    /// Whether this one and the best gave one figure, in all repeats of both, and about one in each cell.
    fn is_equal(&self, score: &Score) -> bool {
        let log = self.best.log();
        let is_one = self.best.logs.iter().chain(&score.logs).all(|one| (one - log).abs() < EQUAL);
        is_one && self.is_near_in_each_cell(score)
    }

    /// Whether no cell of this one is far from the best's.
    fn is_near_in_each_cell(&self, score: &Score) -> bool {
        self.best.away_in_a_cell(score) < ALIKE_CELL_RATIO_MAX.ln()
    }

    /// The best with what came out alike, in words: `raid5-8`, `raid5-8 and raid6-8`.
    pub(super) fn best_named(&self) -> String {
        let mut names = vec![self.best.level.as_str()];
        names.extend(self.alike().iter().map(|score| score.level.as_str()));
        words::listed(&names)
    }

    /// Those that were run once, beside others that were run more often: with a figure and no interval.
    pub(super) fn once(&self) -> Vec<&'a Score> {
        self.unplaced.iter().copied().filter(|score| score.logs.len() < 2).collect()
    }

    /// How often each was run.
    pub(super) fn repeats(&self) -> usize {
        self.best.logs.len()
    }

    /// The best of those that are behind the best, be it told or unsure, and did not come out alike.
    pub(super) fn next(&self) -> Option<&'a Score> {
        let alike = if self.alone { self.alike() } else { Vec::new() };
        let is_alike = |score: &&Score| alike.iter().any(|other| std::ptr::eq(*other, *score));
        let behind = self.worse.iter().filter(|score| !is_alike(score));
        let behind = behind.chain(&self.unsure).copied();
        behind.min_by(|one, other| self.best.away(one).total_cmp(&self.best.away(other)))
    }

    /// Whether none that can't be placed stands before this one, which is the next of those that can.
    pub(super) fn is_second(&self, next: &Score) -> bool {
        self.unplaced.iter().all(|other| self.best.away(other) > self.best.away(next))
    }
}
