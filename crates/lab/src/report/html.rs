//! The report as one page of HTML that opens without a network.
//!
//! Style and the few lines of script are inside it, plots are inline SVG, and nothing is loaded from
//! anywhere: the page can be mailed, archived and printed. It follows the reader's light or dark
//! theme; on paper it is black on white, with plots kept whole.
//!
//! Order, by what a reader wants to know first: the question and the verdict; whether to believe it
//! (simulated or measured, quick, failed cells, claims); what was measured; then a section for each
//! group of workloads (`charts`, `curves`, `disks`), what each factor does (`effects`), the claims, pitfalls and warnings, and behind a fold
//! every cell (`tables`). Pitfalls are named under the verdict and in the sections of their cells, and told
//! once, with their mends. Nothing from the results is ever markup: `maud` escapes it.

mod charts;
mod curves;
mod disks;
mod effects;
mod panels;
mod tables;

use super::account;
use super::figures::{capitalised, factor_label, percent};
use super::findings::{Finding, errors, in_brief, pitfalls, repeats, warnings};
use super::shape::{Group, groups};
use crate::results::{ClaimCount, ClaimResult, Results};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of every page.
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/sort.js");

/// How many cells' names a warning lists.
const NAMED_CELLS_MAX: usize = 40;

/// The report as a page of HTML.
pub fn html(results: &Results) -> String {
    let groups = groups(results);
    let title = format!("{} · {}", results.title, results.study);
    let made_by = html! { meta name="generator" content={ "Spindle " (results.spindle_version) }; };
    let body = html! {
        main {
            (head(results))
            (contents(results, &groups))
            (subject(results))
            @for (number, group) in groups.iter().enumerate() {
                (charts::group(group, number, results.confidence))
            }
            (effects::effects(results, &groups))
            (claims(&results.claims))
            (worth(results))
            (findings(results))
            (tables::every_cell(results, &groups))
            (text(results))
            (reading(results))
        }
        script { (PreEscaped(SCRIPT)) }
    };
    page(&title, &made_by, &body)
}

/// A page that loads nothing from anywhere, with what more its head says.
pub(super) fn page(title: &str, more: &Markup, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (more)
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    // A control character in a name has no place in HTML, escaped or not.
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    page.into_string().chars().map(shown).collect()
}

fn head(results: &Results) -> Markup {
    let failed = results.cells.iter().filter(|cell| cell.error.is_some()).count();
    let warned = results.cells.iter().filter(|cell| !cell.warnings.is_empty()).count();
    let claims = ClaimCount::of(&results.claims);
    let pitfalls = pitfalls(&results.cells);
    let badge = match results.simulated {
        true => ("simulated", "Simulated", "Computed on modelled hardware, not measured on any."),
        false => ("measured", "Measured", "Measured on real hardware."),
    };
    html! {
        header {
            p.eyebrow {
                "Spindle lab · " (results.study)
                span.badge.(badge.0) title=(badge.2) { (badge.1) }
                @if results.quick { span.badge.quick { "Quick run" } }
            }
            h1 { (results.title) }
            p.question { (results.question) }
            div.verdict {
                p.verdict-label { "Verdict" }
                (rankings(results))
                p { (results.verdict) }
            }
            @if let Some(partial) = results.partial {
                p.caution {
                    strong { "Partial. " }
                    (partial) " are done: what stands here may turn with the rest."
                }
            }
            @for warning in account::layout_warnings(results) {
                p.caution { (warning) "." }
            }
            @if !pitfalls.is_empty() {
                p.caution {
                    strong { "Before you believe it: " }
                    (in_brief(&pitfalls, results.cells.len()))
                    ". " a href="#findings" { "What that means, and what to do" }
                }
            }
            @if results.quick {
                p.caution {
                    strong { "Quick run. " }
                    "It was shortened for a first look: intervals are wide, and it is no basis for a \
                     decision."
                }
            }
            ul.tiles {
                li { strong { (results.cells.len()) }
                    @if results.cells.len() == 1 { " cell, " } @else { " cells, " }
                    (repeats(results)) }
                @if results.cells.iter().any(|cell| cell.repeats > 1) {
                    li { strong { (percent(results.confidence)) } " confidence intervals" }
                }
                @if !results.claims.is_empty() {
                    li {
                        strong { (claims.held) " of " (claims.counted) }
                        " published " a href="#claims" { "claims" } " reproduced" (claims.more())
                    }
                }
                @if failed > 0 {
                    li.bad { strong { (failed) } " " a href="#findings" { "cells failed" } }
                }
                @if warned > 0 {
                    li.warn {
                        strong { (warned) } " cells with " a href="#findings" { "warnings" }
                    }
                }
            }
        }
    }
}

fn contents(results: &Results, groups: &[Group]) -> Markup {
    html! {
        nav aria-label="Contents" {
            a href="#subject" { (subject_title(results)) }
            @for (number, group) in groups.iter().enumerate() {
                a href={ "#group-" (number) } { (capitalised(&group.title)) }
            }
            @if effects::has_effects(groups) { a href="#effects" { "Effects" } }
            @if !results.claims.is_empty() { a href="#claims" { "Claims" } }
            @if !results.layouts.is_empty() { a href="#worth" { "Beside speed" } }
            @if results.cells.iter().any(|c| c.error.is_some() || !c.warnings.is_empty()) {
                a href="#findings" { "Pitfalls and warnings" }
            }
            a href="#cells" { "All cells" }
        }
    }
}

fn subject_title(results: &Results) -> &'static str {
    if results.simulated { "What was simulated" } else { "What was measured" }
}

fn subject(results: &Results) -> Markup {
    html! {
        section #subject {
            h2 { (subject_title(results)) }
            div.pair {
                (tables::scrolling("Machine", html! { table.facts {
                    tbody {
                        @for (part, what) in &results.machine {
                            tr { th scope="row" { (capitalised(&factor_label(part))) } td { (what) } }
                        }
                    }
                } }))
                (tables::scrolling("Run", html! { table.facts {
                    tbody {
                        tr {
                            th scope="row" { "Hardware" }
                            td { @if results.simulated { "simulated" } @else { "real" } }
                        }
                        tr { th scope="row" { "Repeats" } td { (repeats(results)) } }
                        tr { th scope="row" { "Seed" } td { (results.seed) } }
                        tr { th scope="row" { "Version" } td { "Spindle " (results.spindle_version) } }
                        tr { th scope="row" { "Study" } td { (results.study) } }
                        @for (what, told) in account::run_lines(results) {
                            tr { th scope="row" { (what) } td { (told) } }
                        }
                    }
                } }))
            }
            (parameters(results))
            @if !results.notes.is_empty() {
                p.note { strong { "This run departs from the study:" } }
                ul.note { @for note in &results.notes { li { (note) } } }
            }
        }
    }
}

/// What every cell of a workload shares, and so no table shows.
fn parameters(results: &Results) -> Markup {
    let fixed = account::fixed_parameters(results);
    html! {
        @if !fixed.is_empty() {
            (tables::scrolling("Fixed parameters", html! { table.facts {
                tbody {
                    @for (workload, pairs) in &fixed {
                        tr {
                            th scope="row" { (workload) }
                            td {
                                @for (number, (key, value)) in pairs.iter().enumerate() {
                                    @if number > 0 { " · " }
                                    (factor_label(key)) " " (value)
                                }
                            }
                        }
                    }
                }
            } }))
        }
    }
}

/// The verdict as tables.
fn rankings(results: &Results) -> Markup {
    html! {
        @for ranking in results.rankings.iter().filter(|ranking| ranking.rows.len() > 1) {
            (tables::scrolling(&format!("Verdict: {}", ranking.name), html! {
                (ranked(&account::ranking_table(ranking, results.confidence)))
            }))
        }
        @if let Some(how) = account::how_scores(&results.rankings) { p.about { (how) } }
    }
}

/// A ranking's table: names and standings are words, what lies between are figures.
fn ranked((header, rows): &(Vec<String>, Vec<Vec<String>>)) -> Markup {
    let is_figure = |number: usize| number > 0 && number + 1 < header.len();
    html! {
        table.figures {
            thead { tr {
                @for (number, head) in header.iter().enumerate() {
                    th.n[is_figure(number)] { (capitalised(&head.replace('\n', " "))) }
                }
            } }
            tbody {
                @for row in rows {
                    tr {
                        @for (number, field) in row.iter().enumerate() {
                            @if number == 0 { th scope="row" { (field) } } @else { td.n[is_figure(number)] { (field) } }
                        }
                    }
                }
            }
        }
    }
}

/// What the layouts are worth beside their speed.
fn worth(results: &Results) -> Markup {
    if results.layouts.is_empty() {
        return html! {};
    }
    let (header, rows) = account::layouts_table(&results.layouts);
    html! {
        section #worth {
            h2 { "What the layouts are worth beside their speed" }
            (tables::scrolling("Room, losses, rebuild and risk", html! {
                table.figures {
                    thead { tr {
                        @for (number, head) in header.iter().enumerate() {
                            th.n[number > 0] { (capitalised(&head.replace('\n', " "))) }
                        }
                        th { "What it is" }
                    } }
                    tbody {
                        @for (row, layout) in rows.iter().zip(&results.layouts) {
                            tr {
                                @for (number, field) in row.iter().enumerate() {
                                    @if number == 0 { th scope="row" { (field) } } @else { td.n { (field) } }
                                }
                                td { (layout.what) }
                            }
                        }
                    }
                }
            }))
            @for beside in account::rebuilds_beside(&results.layouts) { p.about { (beside) } }
            @for basis in account::bases(&results.layouts) { p.about { (basis) } }
            p.about { (account::HOW_LAYOUTS) }
        }
    }
}

/// The study's text, behind a fold.
fn text(results: &Results) -> Markup {
    html! {
        @if !results.run.text.is_empty() {
            section #text {
                h2 { "The text that was run" }
                details {
                    summary { (results.study) ", " (results.run.text.lines().count()) " lines" }
                    pre { (results.run.text) }
                }
            }
        }
    }
}

fn claims(claims: &[ClaimResult]) -> Markup {
    if claims.is_empty() {
        return html! {};
    }
    html! {
        section #claims {
            h2 { "Published claims" }
            p.about {
                "Findings that others published, as statements that this run checks. A claim that \
                 does not hold stays here; no parameter is bent toward it. Conjectures of an \
                 author, and findings that a parameter of the model was taken from, are checked \
                 and not counted."
            }
            (tables::scrolling("Published claims", html! {
                table.claims {
                    thead {
                        tr {
                            th { "Here" } th { "Claim" } th { "Published" } th { "Found here" }
                        }
                    }
                    tbody {
                        @for claim in claims {
                            tr.held[claim.reproduced].broken[!claim.reproduced && !claim.unsure] {
                                td.outcome {
                                    @if claim.reproduced { span { "✓ Reproduced" } }
                                    @else if claim.unsure { span { "? Not sure" } }
                                    @else { span { "✗ Not reproduced" } }
                                }
                                td {
                                    (claim.text)
                                    p.source {
                                        (source(&claim.source))
                                        @if let Some(near) = &claim.tolerance { " · within " (near) }
                                    }
                                    @if let Some(why) = &claim.uncounted {
                                        p.explanation { strong { "Not counted: " } (why) }
                                    }
                                    @if let Some(why) = &claim.explanation {
                                        p.explanation { strong { "Why: " } (why) }
                                    }
                                    @if let Some(suspect) = &claim.suspect {
                                        p.explanation { strong { "Suspect: " } (suspect.sentence()) }
                                    }
                                }
                                // On narrow screens the headings are gone, and these stand before the cells.
                                td data-label="Published" { (claim.published) }
                                td data-label="Found here" { (claim.measured) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// A source, its address a link if it has one. A link loads nothing until it is followed.
fn source(text: &str) -> Markup {
    let begin = text.find("https://").or_else(|| text.find("http://"));
    let Some(begin) = begin else { return html! { (text) } };
    let address = &text[begin..];
    let end = address.find(|c: char| c.is_whitespace() || ">)\"'".contains(c));
    let address = &address[..end.unwrap_or(address.len())];
    let address = address.trim_end_matches(['.', ',', ';']);
    html! {
        (text[..begin])
        a href=(address) rel="noreferrer" { (address) }
        (text[begin + address.len()..])
    }
}

fn findings(results: &Results) -> Markup {
    let (failed, warned) = (errors(results), warnings(results));
    let pitfalls = pitfalls(&results.cells);
    if failed.is_empty() && pitfalls.is_empty() && warned.is_empty() {
        return html! {};
    }
    html! {
        section #findings {
            @if !failed.is_empty() {
                h2 { "Cells that failed" }
                ul.findings { @for finding in &failed { (one_finding(finding, "✗", "bad")) } }
            }
            @if !pitfalls.is_empty() {
                h2 { "Pitfalls" }
                p.about {
                    "What keeps a figure from meaning what it seems to mean, and what to do about it."
                }
                ul.findings { @for pitfall in &pitfalls { (one_finding(pitfall, "!", "warn")) } }
            }
            @if !warned.is_empty() {
                h2 { "Warnings" }
                ul.findings { @for finding in &warned { (one_finding(finding, "!", "warn")) } }
            }
        }
    }
}

fn one_finding(finding: &Finding, sign: &str, class: &str) -> Markup {
    let more = finding.cells.len().saturating_sub(NAMED_CELLS_MAX);
    html! {
        li.(class) {
            span.sign aria-hidden="true" { (sign) }
            div {
                (finding.text)
                @if finding.numbers_differ { span.muted { " (others likewise, with other numbers)" } }
                @if let Some(mend) = finding.mend { p.mend { "→ " (mend) } }
                @if let [one] = finding.cells.as_slice() {
                    p.cells { (one) }
                } @else {
                    details {
                        summary { (finding.cells.len()) " cells" }
                        p.cells {
                            @for (number, cell) in finding.cells.iter().take(NAMED_CELLS_MAX).enumerate() {
                                @if number > 0 { br; }
                                (cell)
                            }
                            @if more > 0 { br; "… and " (more) " more" }
                        }
                    }
                }
            }
        }
    }
}

fn reading(results: &Results) -> Markup {
    html! {
        footer {
            h2 { "How to read this" }
            p {
                "“412 ±11” is a mean over the repeats and the half width of its "
                (percent(results.confidence))
                " confidence interval, the farther side where it is not symmetrical; whiskers in plots \
                 are the whole interval. One that reaches as far as nothing is told by its ends, “37 (0–200)”: it says little, and more \
                 repeats tell. A figure without either comes from one repeat, or \
                 its interval is narrower than its last digit. Means over several cells are geometric; their intervals join those of the cells and say nothing of \
                 levels that were not run. MB/s are 10⁶ bytes a second."
            }
            p {
                @if results.simulated {
                    "All figures were computed on simulated hardware, from data sheets: they say what \
                     such hardware would do, and must not be mixed with measured ones. An interval \
                     is the spread between repeats; the error of the model comes on top: a tenth \
                     to a fifth of a rate, and more in the slowest percent of the I/Os, where \
                     what firmware does is guessed. Held against drives that were measured, one \
                     request at a time, distributions of response times lie 2 to 6 % of the mean apart \
                     where a profile has measured parameters, and 5 to 9 % where it has a data sheet's: "
                    code { "docs/theory/fidelity.md" }
                    ". The same study, seed and version give the same figures. "
                } @else {
                    "All figures were measured on real hardware, with whatever else it was doing. "
                }
                "The same figures, for programs, are in results.json and results.csv beside this file."
            }
        }
    }
}
