//! What is said alike of scores and their standing, wherever it is said.

use super::placed::Placed;
use super::score::{Asked, Score};
use crate::metrics::{self, Better, SHOWN_RATIO_MIN, figures, percent};
use crate::words;

/// Ratios up to here are told in percent, and those below what the figures show as such.
const PERCENT_RATIO_MAX: f64 = 1.1;

/// `1.90 × raid5-6`, `3.2 % above raid5-6`; of what should be low, `50 % less than raid5-6`.
pub(super) fn compared(asked: &Asked<'_>, best: &Score, next: &Score) -> String {
    let ratio = (best.log() - next.log()).abs().exp();
    match (ratio, asked.better) {
        (1.0, _) => format!("as much as {}", next.level),
        (r, Better::Higher) if r < SHOWN_RATIO_MIN => {
            format!("less than 0.5 % above {}", next.level)
        }
        (r, Better::Lower) if r < SHOWN_RATIO_MIN => {
            format!("less than 0.5 % below {}", next.level)
        }
        (r, Better::Higher) if r < PERCENT_RATIO_MAX => {
            format!("{} % above {}", figures(100.0 * (r - 1.0)), next.level)
        }
        (r, Better::Higher) => format!("{} × {}", figures(r), next.level),
        (r, Better::Lower) => format!("{} % less than {}", metrics::percent_less(r), next.level),
    }
}

/// Who is behind the best without being told from it: in each repeat, by a spread that is too wide, or because one repeat has none.
pub(super) fn behind(placed: &Placed<'_>, asked: &Asked<'_>) -> String {
    let confidence = asked.study.confidence;
    let names = |some: &[&Score]| {
        some.iter().map(|score| score.level.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    if !placed.unsure.is_empty() {
        text += &format!(
            "; each of {} repeats puts it before {}, too few to be sure at {}",
            placed.repeats(),
            names(&placed.unsure),
            percent(confidence)
        );
    }
    let once = placed.once();
    let several = placed.unplaced.iter().copied().filter(|score| score.logs.len() > 1);
    let several: Vec<&Score> = several.collect();
    if !several.is_empty() {
        text += &format!("; {} too uncertain to place: more repeats tell", names(&several));
    }
    if !once.is_empty() {
        let figure =
            |score: &&Score| format!("{} {}", score.level, shown(asked.metric, score, confidence));
        let figures: Vec<String> = once.iter().map(figure).collect();
        text += &format!("; of one repeat, so not placed: {}", words::listed(&figures));
    }
    text
}

/// A score as a figure with its interval.
pub(super) fn shown(metric: &str, score: &Score, confidence: f64) -> String {
    metrics::quantity_with_interval(metric, &score.as_metric(confidence), confidence)
}
