//! Over how many cells a mean is, beside those of other rows.
//!
//! A cell may have failed, and of a run that was interrupted each row has other cells: means of such rows don't compare, and each
//! says over how many it is.

use super::estimate::Estimate;
use super::shape::Group;
use std::collections::BTreeSet;

impl Group<'_> {
    /// Whether a mean over the cells at these levels would be of less than others are: some have no figures, or were not run
    /// where another row's were.
    pub fn is_partial(&self, at: &[(usize, usize)], metric: &str) -> bool {
        let (have, all) = self.coverage(at, metric);
        have < all
    }

    /// Whether a row has less than another in all.
    pub fn has_partial(&self) -> bool {
        self.row_levels().iter().any(|row| self.is_partial(row, self.primary()))
    }

    /// Over how many combinations of levels the mean of the cells at these levels is, and over how many it would be if its row had
    /// all that any row has there.
    pub fn coverage(&self, at: &[(usize, usize)], metric: &str) -> (usize, usize) {
        let matches = |position: &[usize], f: usize, level: usize| position[f] == level;
        let (mut have, mut all) = (BTreeSet::new(), BTreeSet::new());
        for (cell, position) in self.cells.iter().zip(&self.positions) {
            let is_there = cell.is_sound() && Estimate::of_cell(cell, metric).is_some();
            let counts = is_there || !cell.is_sound();
            let mut beside = at.iter().filter(|(f, _)| Some(*f) != self.rows);
            if !counts || !beside.all(|&(f, level)| matches(position, f, level)) {
                continue;
            }
            let mut without_row = position.clone();
            if let Some(row) = self.rows {
                without_row[row] = 0;
            }
            if is_there && at.iter().all(|&(f, level)| matches(position, f, level)) {
                have.insert(without_row.clone());
            }
            all.insert(without_row);
        }
        (have.len(), all.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::report::sample;
    use crate::results::Cell;

    /// A mean over three block sizes beside means over four would make a failure look like a gain.
    #[test]
    fn a_mean_that_lacks_a_failed_cell_is_marked() {
        let mut results = sample::raid_layouts();
        let broken = results.cells.iter_mut().find(|cell| cell.workload == "random").unwrap();
        broken.metrics.clear();
        broken.error = Some("gone".into());
        let options = crate::report::TextOptions { width: 110, colour: false, full: false };
        let out = crate::report::text(&results, options);
        assert!(out.contains(" *") && out.contains("over fewer cells than the others"));
        assert!(crate::report::html(&results).contains("title=\"some of its cells failed\""));
    }

    /// Figures of jobs that failed are shown where they stand by themselves, and are part of no mean.
    #[test]
    fn figures_of_a_cell_that_failed_are_marked_and_in_no_mean() {
        let mut results = sample::raid_layouts();
        let broken = results.cells.iter_mut().find(|cell| cell.workload == "random").unwrap();
        broken.error = Some("a job took too long".into());
        for figure in broken.metrics.values_mut() {
            figure.mean *= 1e6;
            figure.samples.iter_mut().for_each(|sample| *sample *= 1e6);
        }
        let id = broken.id.clone();
        let shown = |full| {
            let options = crate::report::TextOptions { width: 200, colour: false, full };
            crate::report::text(&results, options)
        };
        let out = shown(true);
        assert!(out.contains(&format!("✗ {id}: a job took too long")), "{out}");
        assert!(out.contains(", failed"), "{out}");
        let out = shown(false);
        assert!(out.contains("* over fewer cells than the others: some failed"), "{out}");
        let groups = crate::report::shape::groups(&results);
        let group = groups.iter().find(|group| group.title.contains("random")).expect("a group");
        let row = group
            .row_levels()
            .into_iter()
            .find(|row| group.select(row).any(|cell| cell.error.is_some()));
        let row = row.expect("it is in a row");
        let mean = group.estimate(&row, group.primary()).expect("of the others").mean;
        let sound = group.select(&row).filter(|cell| cell.is_sound());
        let most = sound.map(|cell| cell.metrics[group.primary()].mean).fold(0.0, f64::max);
        assert!(mean < most, "{mean} {most}");
        assert!(crate::report::html(&results).contains("<span class=\"failed\"> failed</span>"));
    }

    /// Found by a newcomer: 1630 beside 785, of a run that was interrupted: of the one only small queues had been run, of the other
    /// large ones.
    #[test]
    fn a_mean_over_other_cells_than_the_rows_beside_it_says_over_how_many() {
        let mut results = sample::raid_layouts();
        let is_missing = |cell: &Cell| {
            cell.workload == "random"
                && cell.factors["layout"] == "raid5-6"
                && (cell.factors["queue_depth"] == "64" || cell.factors["block_size"] == "4k")
        };
        results.cells.retain(|cell| !is_missing(cell));
        let options = crate::report::TextOptions { width: 110, colour: false, full: false };
        let out = crate::report::text(&results, options);
        let table = &out[out.find("Random\n").unwrap()..];
        let others = &table[table.find("Other metrics").unwrap()..];
        let of = |layout: &str| {
            let line = others.lines().find(|line| line.trim_start().starts_with(layout));
            line.unwrap().to_owned()
        };
        assert!(of("raid5-6").contains("raid5-6, 27 of 48 cells "), "{others}");
        assert!(!of("raid5-12").contains("cells"), "{others}");
        assert!(others.contains("does not compare with the others"), "{others}");
        // The same of a figure that is a mean over block sizes; there no cell failed.
        assert!(table.contains("* over fewer cells than the others: not all were run."), "{out}");
        let page = crate::report::html(&results);
        assert!(page.contains("title=\"not all of its cells were run\""));
        assert!(!page.contains("title=\"some of its cells failed\""));
    }
}
