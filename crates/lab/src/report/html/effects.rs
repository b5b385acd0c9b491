//! What each factor does to each group's primary metric: main effects.
//!
//! The mean at each level of a factor over all levels of all others, as dots on a logarithmic axis:
//! effects are ratios, and equal ones shall look equal. The share of the variance comes from `stats`. In a full design these means compare like with
//! like. Interactions they don't show; the panels of the group's own section do.

use crate::report::figures::{Unit, capitalised, factor_label, measure, percent, significant};
use crate::report::plot::axis::Axis;
use crate::report::plot::bars::{self, BarPlot, Row};
use crate::report::shape::Group;
use crate::results::Results;
use crate::stats;
use maud::{Markup, html};

/// Whether any group has factors to compare.
pub fn has_effects(groups: &[Group]) -> bool {
    groups.iter().any(|group| group.factors.len() > 1 && group.largest(group.primary()) > 0.0)
}

/// What each factor does to each group's primary metric: the mean at each of its levels over all
/// other factors.
pub fn effects(results: &Results, groups: &[Group]) -> Markup {
    if !has_effects(groups) {
        return html! {};
    }
    let shown = groups.iter().filter(|g| g.factors.len() > 1 && g.largest(g.primary()) > 0.0);
    html! {
        section #effects {
            h2 { "What each factor does" }
            p.about {
                "The geometric mean at each level over all levels of the other factors, the factor of \
                 the largest effect first, with its share of the variance of the logarithms; what the \
                 shares leave over is interplay and noise. The dashed line is the mean of all cells. Whiskers, as \
                 elsewhere, are the uncertainty of measuring, not the spread between cells."
            }
            @for group in shown { (effects_of(results, group)) }
        }
    }
}

fn effects_of(results: &Results, group: &Group) -> Markup {
    let metric = group.primary();
    let measure = measure(metric);
    let unit = Unit::fitting(&measure.quantity, group.largest(metric));
    let mut factors: Vec<usize> = (0..group.factors.len()).collect();
    factors.sort_by(|&a, &b| group.importance(b, metric).total_cmp(&group.importance(a, metric)));
    let workload = group.cells.first().map_or("", |cell| cell.workload.as_str());
    let alone = group.cells.iter().all(|cell| cell.workload == workload);
    let mut shares = stats::effects(results, metric);
    shares.retain(|effect| effect.workload == workload);
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for f in factors {
        let factor = &group.factors[f];
        let ratio = significant(group.importance(f, metric), 3);
        let name = capitalised(&factor_label(&factor.name));
        let effect = shares.iter().find(|effect| alone && effect.factor == factor.name);
        let share = effect.map_or(String::new(), |effect| {
            let balance = if effect.balanced { "" } else { ", not balanced" };
            format!(", {} of the variance{balance}", percent(effect.share))
        });
        rows.push(Row::Heading(format!("{name}: ×{ratio} from lowest to highest{share}")));
        for level in 0..factor.levels.len() {
            let Some(estimate) = group.estimate(&[(f, level)], metric) else { continue };
            let (mean, low, high) =
                (estimate.mean / unit.size, estimate.low / unit.size, estimate.high / unit.size);
            values.extend([mean, low, high]);
            rows.push(Row::Bar {
                label: factor.levels[level].clone(),
                value: Some((mean, low, high)),
                figure: unit.figure(estimate),
                tooltip: format!("{}: {}", factor.level_label(level), unit.named_figure(estimate)),
            });
        }
    }
    let positive = values.iter().copied().filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let title = unit.titled(&measure.label);
    // Effects are ratios: equal ones shall look equal.
    let axis = match values.iter().all(|value| *value > 0.0) {
        true => Axis::log(&title, low, high),
        false => Axis::for_values(&title, values.iter().copied(), 8),
    };
    let plots = [rows];
    let widths = bars::widths(&plots);
    let reference = group.estimate(&[], metric).map(|estimate| estimate.mean / unit.size);
    html! {
        div.plate {
            h3 { (capitalised(&group.title)) ": " (measure.label) }
            div.panels.one {
                figure.panel {
                    (BarPlot {
                        title: &format!("What each factor does to {}", measure.label),
                        description: "Means at each level of each factor, with intervals.",
                        axis: &axis, rows: &plots[0], reference, widths, width: 720.0,
                    }.svg())
                }
            }
        }
    }
}
