//! Layouts that survive no lost disk, and what does best of the others.

use super::placed::Placed;
use super::score::{self, Asked, Score};
use super::told::{behind, compared, shown};
use crate::results::LayoutFigures;
use crate::words;

/// Which levels are layouts that survive no lost disk, and what does best of the others.
pub(super) fn sentence(
    asked: &Asked<'_>,
    scores: &[Score],
    layouts: &[LayoutFigures],
) -> Option<String> {
    let any = |level: &str, is: fn(&LayoutFigures) -> bool| {
        // What differs with other factors is named with them: `raid6-8, disk=exos-x20`.
        layouts.iter().any(|one| one.name.split(", ").next() == Some(level) && is(one))
    };
    // Of sets in files of one disk nothing is told, so none of them is the one that survives.
    if scores.iter().any(|score| any(&score.level, |one| one.shares_disks)) {
        return None;
    }
    let survives_none = |level: &str| any(level, |one| one.survives_any == 0);
    let (fragile, others): (Vec<&Score>, Vec<&Score>) =
        scores.iter().partition(|score| survives_none(&score.level));
    if fragile.is_empty() || others.is_empty() {
        return None;
    }
    let names: Vec<&str> = fragile.iter().map(|score| score.level.as_str()).collect();
    let survive = if names.len() == 1 { "survives" } else { "survive" };
    let names = words::listed(&names);
    let is_best = scores.first().is_some_and(|best| survives_none(&best.level));
    if !is_best {
        return Some(format!("{names} {survive} no lost disk."));
    }
    let others: Vec<Score> = others.into_iter().cloned().collect();
    let placed = Placed::of(&others, asked)?;
    let (is, alike) = match placed.alike().as_slice() {
        [] => ("is", ""),
        _ => ("are", ", alike"),
    };
    let best = format!(
        "{}{alike}: {}",
        placed.best_named(),
        shown(asked.metric, placed.best, asked.study.confidence)
    );
    let rest = match (placed.untold().as_slice(), placed.next()) {
        _ if others.len() == 1 => return Some(format!("{names} {survive} no lost disk; {best}.")),
        ([], Some(next)) => {
            let compared = compared(asked, placed.best, next);
            let few = match (placed.alone, placed.is_second(next)) {
                (true, _) => ", which one repeat does not make sure",
                (_, true) => "",
                (_, false) => ", the next that can be placed",
            };
            format!(", {compared}{few}{}", behind(&placed, asked))
        }
        ([], None) if placed.alone => ", which one repeat does not make sure".to_owned(),
        ([], None) => behind(&placed, asked),
        (ties, _) => {
            let ties: Vec<&str> = ties.iter().map(|tie| tie.level.as_str()).collect();
            format!(", not told from {}{}", ties.join(", "), behind(&placed, asked))
        }
    };
    let but = score::elsewhere(&others, asked);
    Some(format!(
        "{names} {survive} no lost disk; of those that do, the best {is} {best}{rest}{but}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Better;
    use crate::study::{Options, Study};

    fn score(level: &str, rates: &[f64]) -> Score {
        let logs: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
        let cells = vec![logs.clone()];
        Score {
            level: level.to_owned(),
            logs,
            cells,
            errors: vec![0.0],
            means: Vec::new(),
            figure: None,
        }
    }

    /// Found by a newcomer, in a report of an interrupted run: "2.21 × raid5-4", and raid10-8 between them, of which one repeat was
    /// done, was not told of.
    #[test]
    fn who_was_run_once_is_told_among_those_that_survive_a_loss() {
        let text = "title = 't'\nquestion = 'q?'\nmachine = {}\nlayouts = { a = {} }\n\
                    [[factor]]\nname = 'layout'\nlevels = ['a']\n\
                    [[workload]]\nname = 'random'\nkind = 'random'\n";
        let study = Study::parse("s", "s.toml", text, &Options::default());
        let study = study.unwrap_or_else(|error| panic!("{error}"));
        let asked = Asked { study: &study, by: "layout", metric: "iops", better: Better::Higher };
        let scores = [
            score("raid0-8", &[2000.0, 2001.0]),
            score("raid6-8", &[1000.0, 1001.0]),
            score("raid10-8", &[900.0]),
            score("raid5-4", &[450.0, 451.0]),
        ];
        let layouts = [
            LayoutFigures { name: "raid0-8".to_owned(), ..LayoutFigures::default() },
            LayoutFigures {
                name: "raid6-8".to_owned(),
                survives_any: 2,
                ..LayoutFigures::default()
            },
        ];
        let said = sentence(&asked, &scores, &layouts).expect("one survives no loss");
        for part in [
            "of those that do, the best is raid6-8: 1000 I/Os a second",
            ", 2.22 × raid5-4, the next that can be placed; of one repeat, so not placed: raid10-8 900 I/Os a second.",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
