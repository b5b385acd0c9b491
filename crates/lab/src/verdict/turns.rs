//! For which settings the order of the levels is another than over all.
//!
//! A setting is a value of a parameter, of a factor, or the workload; or two of those together. In its cells the levels are
//! ranked anew, and each pair of levels that stands the other way round than over all *turns*, if that is
//! told by Welch's test, corrected after Holm for all pairs at all values of the same keys; or if each repeat says so by a
//! ratio of [`UNSURE_RATIO`], which is named as what it is. All pairs count and not the best level alone: a level that is best
//! everywhere (RAID 0) hides what becomes of the others.
//!
//! A setting is told of a pair only where each of its cells bears it ([`Score::holds_in_each`]): where a mean over other
//! parameters turns and one of its cells stands as over all, it is the two settings together that turn the pair, or more of them;
//! how many cells have another best level than over all, the ranking says.
//!
//! Two settings together are told where neither alone turns that pair, the strongest first, and few of them; of what is not
//! sure only a change at the top. A pair that stands the other way round at one of the two alone as well, without being told
//! there, is that one's: it is told there, as not sure.
//!
//! Of one repeat there is no test, and chance may have turned what it has: that it differs by a ratio of [`UNSURE_RATIO`] is told as
//! what that repeat gave, and that more repeats tell whether it holds.

use super::score::{Asked, Score, are_of_one_repeat, scores};
use crate::claims::Measured;
use crate::metrics::{Better, SHOWN_RATIO_MIN, UNSURE_RATIO, figures, percent_less};
use crate::stats;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Pairs that are named at one setting beside its best level.
const PAIRS_NAMED_MAX: usize = 2;
/// Cells that are named where two settings together turn the order.
const TOGETHER_NAMED_MAX: usize = 3;
/// What is said before of an order that is another in the one repeat that there is.
const IN_ONE_REPEAT: &str = "In the one repeat the order differs";
/// And behind it.
const MORE_TELL: &str = "; more repeats tell whether that holds";
/// The key under which the workload counts.
const WORKLOAD: &str = "workload";

/// A pair of levels that stands the other way round than over all.
struct Turned {
    /// What does better here.
    over: String,
    /// What does better over all.
    under: String,
    /// By how much, above 1.
    ratio: f64,
    /// Told by the test; else only each repeat says so.
    is_sure: bool,
}

/// A setting and its pairs.
struct At {
    /// `queue_depth` and `4`; one or two.
    setting: Vec<(String, String)>,
    /// The level that does best here, in each of the cells.
    best: Option<String>,
    turned: Vec<Turned>,
    /// Pairs that stand the other way round, in each cell, and neither the test nor each repeat says so.
    leaning: Vec<Turned>,
}

impl At {
    /// Takes over a pair that two settings, this one and another, tell of: if it leans here, it is this one's.
    fn takes(&mut self, pair: &Turned) -> bool {
        let is_it = |its: &Turned| its.over == pair.over && its.under == pair.under;
        if let Some(place) = self.leaning.iter().position(is_it) {
            self.turned.push(self.leaning.remove(place));
        }
        self.turned.iter().any(is_it)
    }
}

/// The sentences: one a key, then one for two keys together. `overall` is ranked.
pub(super) fn sentences(
    asked: &Asked<'_>,
    chosen: &[&Measured<'_>],
    overall: &[Score],
) -> Vec<String> {
    let Some(first) = overall.first() else { return Vec::new() };
    let keys = keys(asked, chosen);
    let alone = |(key, values): &(String, Vec<String>)| {
        let settings = values.iter().map(|value| vec![(key.clone(), value.clone())]);
        (key.clone(), among(asked, chosen, overall, settings.collect()))
    };
    let mut known: Vec<(String, Vec<At>)> = keys.iter().map(alone).collect();
    let together = together(asked, chosen, overall, &keys, &mut known);
    let once = are_of_one_repeat(overall);
    let mut sentences = Vec::new();
    for (key, found) in &known {
        let told = found.iter().filter(|at| !at.turned.is_empty());
        let said = |at: &At| text(at, &first.level, asked.better, once);
        let texts: Vec<String> =
            told.map(|at| format!("at {} {}", at.setting[0].1, said(at))).collect();
        let texts = texts.join("; ");
        match once {
            _ if texts.is_empty() => {}
            true => sentences.push(format!("{IN_ONE_REPEAT} with {key}: {texts}{MORE_TELL}.")),
            false => sentences.push(format!("The order turns with {key}: {texts}.")),
        }
    }
    sentences.extend(together);
    sentences
}

/// Every key that has several values here, but for the ranked factor.
fn keys(asked: &Asked<'_>, chosen: &[&Measured<'_>]) -> Vec<(String, Vec<String>)> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for measured in chosen {
        let workload = (WORKLOAD.to_owned(), measured.cell.workload.clone());
        let factors = measured.cell.factors.clone().into_iter().chain([workload]);
        for (key, value) in factors.filter(|(key, _)| key != asked.by) {
            let values = keys.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    keys.into_iter().filter(|(_, values)| values.len() > 1).collect()
}

/// The settings, of one kind, each with the pairs that turn there.
fn among(
    asked: &Asked<'_>,
    chosen: &[&Measured<'_>],
    overall: &[Score],
    settings: Vec<Vec<(String, String)>>,
) -> Vec<At> {
    let mut found: Vec<At> = Vec::new();
    let once = are_of_one_repeat(overall);
    // Of all pairs of all settings: how likely chance is, and whether each repeat says so.
    let (mut chances, mut seen): (Vec<f64>, Vec<(bool, bool)>) = Default::default();
    for setting in settings {
        let has = |measured: &Measured<'_>| {
            setting.iter().all(|(key, value)| match key.as_str() {
                WORKLOAD => measured.cell.workload == *value,
                key => measured.cell.factors.get(key) == Some(value),
            })
        };
        let of: Vec<&Measured<'_>> =
            chosen.iter().filter(|measured| has(measured)).copied().collect();
        let here = scores(asked, &of).ranked;
        let Some((first, others)) = here.split_first() else { continue };
        let shows = |other: &Score| first.away(other) >= SHOWN_RATIO_MIN.ln();
        let is_best = others.iter().all(|other| shows(other) && first.holds_in_each(other, asked));
        let best = is_best.then(|| first.level.clone());
        let mut turned = Vec::new();
        for (place, over) in here.iter().enumerate() {
            for under in here.iter().skip(place + 1) {
                let at = |level: &str| overall.iter().position(|score| score.level == level);
                let test = over.test(under, asked.study.confidence);
                let p = test.map(|test| test.p).or(once.then_some(1.0));
                let (Some(its), Some(others), Some(p)) = (at(&over.level), at(&under.level), p)
                else {
                    continue;
                };
                let ratio = (over.log() - under.log()).abs().exp();
                let is_turned =
                    others < its && ratio >= SHOWN_RATIO_MIN && over.holds_in_each(under, asked);
                turned.push(Turned {
                    over: over.level.clone(),
                    under: under.level.clone(),
                    ratio,
                    is_sure: false,
                });
                chances.push(if is_turned { p } else { 1.0 });
                let leans = is_turned && over.is_ahead_in_each(under, asked.better);
                let by_each = over.beats_always(under, asked.better)
                    && !over.is_within_sampling(under, asked.study.confidence);
                seen.push((is_turned && by_each, leans));
            }
        }
        found.push(At { setting, best, turned, leaning: Vec::new() });
    }
    let told = stats::holm(&chances).into_iter().zip(seen);
    let mut told = told.map(|(p, (always, leans))| (p, always, leans));
    for at in &mut found {
        // In the order in which they were found, one of `told` each; the chance of one that stands as over all is 1.
        for mut pair in std::mem::take(&mut at.turned) {
            let Some((p, always, leans)) = told.next() else { continue };
            pair.is_sure = p < 1.0 - asked.study.confidence;
            if pair.is_sure || always && pair.ratio >= UNSURE_RATIO {
                at.turned.push(pair);
            } else if leans {
                at.leaning.push(pair);
            }
        }
        at.turned.sort_by(|one, other| {
            other.is_sure.cmp(&one.is_sure).then(other.ratio.total_cmp(&one.ratio))
        });
    }
    found
}

/// Two settings that turn together what neither turns alone.
fn together(
    asked: &Asked<'_>,
    chosen: &[&Measured<'_>],
    overall: &[Score],
    keys: &[(String, Vec<String>)],
    known: &mut [(String, Vec<At>)],
) -> Option<String> {
    let best = &overall.first()?.level;
    let mut found: Vec<At> = Vec::new();
    for (place, (one, values)) in keys.iter().enumerate() {
        for (other, others) in &keys[place + 1..] {
            let settings = values.iter().flat_map(|value| {
                let pair =
                    |its: &String| vec![(one.clone(), value.clone()), (other.clone(), its.clone())];
                others.iter().map(pair).collect::<Vec<_>>()
            });
            found.extend(among(asked, chosen, overall, settings.collect()));
        }
    }
    for at in &mut found {
        let is_best = |pair: &Turned| Some(&pair.over) == at.best.as_ref() && pair.under == *best;
        at.turned.retain(|pair| pair.is_sure || is_best(pair));
        let ones = known.iter_mut().flat_map(|(_, ones)| ones);
        for one in ones.filter(|one| one.setting.iter().all(|part| at.setting.contains(part))) {
            at.turned.retain(|pair| !one.takes(pair));
        }
    }
    found.retain(|at| !at.turned.is_empty());
    // What is sure first, then what is strongest.
    found.sort_by(|one, other| {
        let sure = |at: &At| Reverse(at.turned.iter().any(|pair| pair.is_sure));
        let most = |at: &At| at.turned[0].ratio;
        sure(one).cmp(&sure(other)).then(most(other).total_cmp(&most(one)))
    });
    let once = are_of_one_repeat(overall);
    let texts: Vec<String> = found
        .iter()
        .take(TOGETHER_NAMED_MAX)
        .map(|at| {
            let setting: Vec<String> =
                at.setting.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("at {} {}", setting.join(", "), text(at, best, asked.better, once))
        })
        .collect();
    let more = match found.len().saturating_sub(TOGETHER_NAMED_MAX) {
        0 => String::new(),
        1 => "; and in one such place more".to_owned(),
        n => format!("; and in {n} such places more"),
    };
    let texts = texts.join("; ");
    (!texts.is_empty()).then(|| match once {
        true => format!("{IN_ONE_REPEAT} where two settings meet: {texts}{more}{MORE_TELL}."),
        false => format!("Two settings together turn it: {texts}{more}."),
    })
}

/// `raid10-8 does best, 6.3 × raid5-8; raid6-8 comes before raid1-2 (1.2 ×)`.
fn text(at: &At, best: &str, better: Better, once: bool) -> String {
    let by = |pair: &Turned| {
        let unsure = if pair.is_sure || once { "" } else { ", not sure" };
        let ratio = match better {
            Better::Higher => format!("{} ×", figures(pair.ratio)),
            Better::Lower => format!("{} % less", percent_less(pair.ratio)),
        };
        (ratio, unsure)
    };
    let than = if better == Better::Lower { " than" } else { "" };
    let is_best = |pair: &&Turned| Some(&pair.over) == at.best.as_ref() && pair.under == best;
    let winner = at.turned.iter().find(is_best);
    let mut parts = Vec::new();
    if let Some(pair) = winner {
        let (ratio, unsure) = by(pair);
        let does = if once { "came out" } else { "does" };
        parts.push(format!("{} {does} best, {ratio}{than} {best}{unsure}", pair.over));
    }
    let others: Vec<&Turned> = at
        .turned
        .iter()
        .filter(|pair| winner.is_none_or(|winner| pair.over != winner.over))
        .collect();
    parts.extend(others.iter().take(PAIRS_NAMED_MAX).map(|pair| {
        let (ratio, unsure) = by(pair);
        format!("{} comes before {} ({ratio}{unsure})", pair.over, pair.under)
    }));
    match others.len().saturating_sub(PAIRS_NAMED_MAX) {
        0 => {}
        1 => parts.push("one pair more changes places".to_owned()),
        n => parts.push(format!("{n} pairs more change places")),
    }
    parts.join(", ")
}
