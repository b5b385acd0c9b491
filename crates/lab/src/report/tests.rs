//! What could go wrong with a report: a cell lost or doubled, a name that becomes markup, a plot
//! that draws outside itself, a page that needs a network, a terminal that wraps or obeys a name.

use super::sample;
use super::{TextOptions, csv, html, text};
use crate::results::Results;
use std::collections::BTreeMap;

fn plain(width: usize) -> TextOptions {
    TextOptions { width, colour: false, full: false }
}

/// Pages and terminal reports to look at, in `target/reports`.
#[test]
#[ignore = "writes files for a person to look at"]
fn samples_can_be_looked_at() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/reports");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, results) in sample::all() {
        std::fs::write(folder.join(format!("{name}.html")), html(&results)).unwrap();
        std::fs::write(folder.join(format!("{name}.txt")), text(&results, plain(110))).unwrap();
        std::fs::write(folder.join(format!("{name}-60.txt")), text(&results, plain(60))).unwrap();
        let full = TextOptions { full: true, ..plain(140) };
        std::fs::write(folder.join(format!("{name}-full.txt")), text(&results, full)).unwrap();
        std::fs::write(folder.join(format!("{name}.csv")), csv(&results)).unwrap();
    }
}

/// A spreadsheet that lacks a cell, or has one twice, gives a wrong mean and no error.
#[test]
fn every_cell_and_metric_is_in_the_csv_once() {
    for (name, results) in sample::all() {
        let csv = csv(&results);
        let mut reader = ::csv::Reader::from_reader(csv.as_bytes());
        let header = reader.headers().unwrap().clone();
        let column = |wanted: &str| header.iter().position(|name| name == wanted).unwrap();
        let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for row in reader.records() {
            let row = row.unwrap();
            let key = (row[column("cell")].to_owned(), row[column("metric")].to_owned());
            let values = row.iter().map(str::to_owned).collect();
            assert!(found.insert(key.clone(), values).is_none(), "{name}: {key:?} twice");
        }
        for cell in &results.cells {
            let metrics: Vec<&str> = match cell.metrics.is_empty() {
                true => vec![""],
                false => cell.metrics.keys().map(String::as_str).collect(),
            };
            for metric in metrics {
                let row = found.remove(&(cell.id.clone(), metric.to_owned())).expect("in the file");
                for (factor, level) in &cell.factors {
                    assert_eq!(&row[column(factor)], level);
                }
                let mean = cell.metrics.get(metric).map(|m| m.mean).filter(|m| m.is_finite());
                assert_eq!(row[column("mean")].parse().ok(), mean, "in full precision");
                assert_eq!(row[column("simulated")], results.simulated.to_string());
            }
        }
        assert!(found.is_empty(), "{name}: rows of no cell: {found:?}");
    }
}

/// A factor may be called like a column of ours.
#[test]
fn a_factor_named_like_a_column_does_not_hide_it() {
    let mut results = sample::this_host();
    for cell in &mut results.cells {
        cell.factors.insert("metric".into(), "own".into());
    }
    let csv = csv(&results);
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert!(header.contains(&"factor_metric"));
    assert_eq!(header.iter().filter(|name| **name == "metric").count(), 1);
}

/// Names come from files that others wrote; as markup they could run in the reader's browser.
#[test]
fn nothing_from_the_results_becomes_markup() {
    let page = html(&sample::awkward());
    assert!(page.contains("&lt;script&gt;alert("), "the name is shown");
    assert_eq!(page.matches("<script>").count(), 1, "only our own script");
    assert_eq!(page.matches("<title>A title with &lt;em&gt;").count(), 1);
    assert!(!page.contains("<em>") && !page.contains("<b>"));
    // The link's address ends before the quote that would have ended its attribute.
    assert!(page.contains(r#"<a href="https://example.org/" rel="noreferrer">"#));
}

/// The page is mailed and archived; whatever it would load is missing then, and tells on the reader.
#[test]
fn the_page_loads_nothing() {
    for (name, results) in sample::all() {
        let page = html(&results);
        for loads in ["<link", "<img", "<iframe", "<object", "src=", "@import", "url(", "xlink"] {
            assert!(!page.contains(loads), "{name}: {loads}");
        }
        for (at, _) in page.match_indices("href=\"") {
            let before = &page[..at];
            let address = &page[at + 6..];
            let inside = address.starts_with('#') || address.starts_with("http");
            let tag = &before[before.rfind('<').unwrap()..];
            assert!(tag.starts_with("<a ") && inside, "{name}: {}", &address[..40]);
        }
        assert!(page.len() < 3_000_000, "{name}: {} bytes", page.len());
    }
}

/// Links of the contents that lead nowhere.
#[test]
fn every_link_within_the_page_has_its_target_once() {
    for (name, results) in sample::all() {
        let page = html(&results);
        for link in attributes(&page, "href") {
            if let Some(target) = link.strip_prefix('#') {
                let count = page.matches(&format!("id=\"{target}\"")).count();
                assert_eq!(count, 1, "{name}: {link}");
            }
        }
    }
}

fn attributes<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let begin = format!(" {name}=\"");
    page.match_indices(&begin)
        .map(|(at, _)| page[at + begin.len()..].split('"').next().unwrap())
        .collect()
}

/// A mark outside its plot lies over the neighbour's, or is cut off.
#[test]
fn every_mark_lies_within_its_plot() {
    for (name, results) in sample::all() {
        let page = html(&results);
        let mut plots = 0;
        for svg in page.split("<svg class=\"plot\"").skip(1) {
            plots += 1;
            let svg = &svg[..svg.find("</svg>").unwrap()];
            let view: Vec<f64> = svg
                .split("viewBox=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
                .split(' ')
                .map(|n| n.parse().unwrap())
                .collect();
            let within = |value: &str, limit: f64| {
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{name}: {value:?}"));
                assert!((0.0..=limit).contains(&value), "{name}: {value} beyond {limit}");
                value
            };
            for (attribute, limit) in [
                ("x", view[2]),
                ("x1", view[2]),
                ("x2", view[2]),
                ("cx", view[2]),
                ("y", view[3]),
                ("y1", view[3]),
                ("y2", view[3]),
                ("cy", view[3]),
                ("width", view[2]),
                ("height", view[3]),
            ] {
                for value in attributes(svg, attribute) {
                    within(value, limit);
                }
            }
            for path in svg.split("class=\"line").skip(1) {
                let path = attributes(path.split("</path>").next().unwrap(), "d")[0];
                for point in path.split(['M', 'L']).filter(|point| !point.is_empty()) {
                    let (x, y) = point.split_once(' ').unwrap();
                    within(x, view[2]);
                    within(y, view[3]);
                }
            }
        }
        assert_eq!(plots == 0, name == "nothing", "{name} has {plots} plots");
    }
}

/// `NaN` in a plot is a blank page in some browsers, and in a table it is our fault shown to a user.
#[test]
fn what_is_no_number_is_never_shown() {
    for (name, results) in sample::all() {
        let options = TextOptions { full: true, ..plain(200) };
        for (form, out) in [
            ("html", html(&results).split("<script>").next().unwrap().to_owned()),
            ("text", text(&results, plain(80))),
            ("full", text(&results, options)),
            ("csv", csv(&results)),
        ] {
            for wrong in ["NaN", "inf ", "inf<", "±inf", "-0 "] {
                assert!(!out.contains(wrong), "{name}.{form} contains {wrong}");
            }
        }
    }
}

/// Reports are compared and archived: a difference must be one of the results.
#[test]
fn the_same_results_give_the_same_bytes() {
    for (_, results) in sample::all() {
        let again = results.clone();
        assert!(html(&results) == html(&again));
        assert!(csv(&results) == csv(&again));
        assert!(text(&results, plain(100)) == text(&again, plain(100)));
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, results) in sample::all() {
        for width in [40, 60, 80, 132] {
            for full in [false, true] {
                let out = text(&results, TextOptions { full, ..plain(width) });
                for line in out.lines() {
                    let used = line.chars().count();
                    assert!(used <= width, "{name} at {width}: {used}: {line}");
                }
            }
        }
    }
}

/// A name with control characters could move the cursor and write over the verdict.
#[test]
fn control_characters_of_a_name_do_not_reach_the_terminal() {
    let out = text(&sample::awkward(), plain(100));
    assert!(!out.contains('\u{1b}'));
    let coloured = text(&sample::awkward(), TextOptions { colour: true, ..plain(100) });
    assert!(!coloured.contains("\u{1b}[31mred"));
    assert!(coloured.contains("\u{1b}[31m  ✗"), "what failed is red");
}

/// 432 cells, yet a person can read it; and `full` leaves none out.
#[test]
fn a_big_study_is_a_page_in_the_terminal_and_full_prints_every_cell() {
    let results = sample::raid_layouts();
    let page = text(&results, plain(110));
    assert!(page.lines().count() < 125, "{} lines", page.lines().count());
    for layout in ["single", "raid10-4", "raid50-4x3"] {
        assert!(page.contains(layout));
    }
    let full = text(&results, TextOptions { full: true, ..plain(200) });
    let rows = full.lines().filter(|line| line.contains("raid5-6")).count();
    let cells = results.cells.iter().filter(|cell| cell.id.contains("raid5-6")).count();
    assert_eq!(rows, cells);
}

/// Simulated figures taken for real ones, and a first look taken for a result, are the worst misuse.
#[test]
fn simulated_and_shortened_runs_say_so_at_the_top() {
    let simulated = sample::raid_layouts();
    let top = |results: &Results| -> String {
        text(results, plain(100)).lines().take(8).collect::<Vec<_>>().join(" ")
    };
    assert!(top(&simulated).contains("SIMULATED"));
    let page = html(&simulated);
    assert!(page.find("Simulated").unwrap() < page.find("</h1>").unwrap());
    let real = sample::this_host();
    assert!(top(&real).contains("MEASURED") && top(&real).contains("QUICK RUN"));
    assert!(!html(&real).contains("simulated hardware, from data sheets"));
}

/// A claim that didn't hold must not vanish.
#[test]
fn a_claim_that_does_not_hold_is_shown_with_its_explanation() {
    let results = sample::rebuild_times();
    for out in [text(&results, plain(100)), html(&results)] {
        assert!(out.contains("2 of 3"));
        assert!(out.contains("✗") && out.contains("8 h 36 min"));
    }
    assert!(html(&results).contains("default priority, which is not published"));
}

/// A miss without what it would take to mend it, and a conjecture among the findings, mislead alike.
#[test]
fn a_claim_tells_its_suspect_its_tolerance_and_why_it_is_not_counted() {
    let results = sample::rebuild_times();
    for out in [text(&results, plain(300)), html(&results)] {
        assert!(out.contains("2 of 3") && out.contains("1 more is not counted"), "{out}");
        assert!(out.contains("rebuild priority is high and would have to be low. Plausible:"));
        assert!(out.contains("within 10 %: a made-up spread"));
        assert_eq!(out.matches("a conjecture of its author").count(), 1);
    }
}

/// Eighty cells that say the same are one warning with a count.
#[test]
fn equal_warnings_are_gathered_with_their_count() {
    let results = sample::raid_layouts();
    let out = text(&results, plain(100));
    assert_eq!(out.matches("Throughput still rose").count(), 1);
    assert!(out.contains("12 cells: Throughput still rose"));
}

/// A pitfall told without its mend, far from the figures, or once for each of its cells, is not heeded.
#[test]
fn a_pitfall_is_told_once_with_its_mend_and_named_beside_the_verdict() {
    let results = sample::raid_layouts();
    let with: Vec<_> = results.cells.iter().filter(|cell| !cell.pitfalls.is_empty()).collect();
    let (count, mend) = (with.len(), with[0].pitfalls[0].mend.as_str());
    let brief = format!("answered from a cache ({count} of {} cells)", results.cells.len());
    let out = text(&results, plain(200)).replace("\n      ", " ");
    assert!(
        out.contains(&format!("{count} cells: answered from a cache: the disks read")),
        "{out}"
    );
    assert_eq!(out.matches(mend).count(), 1, "{out}");
    let verdict = out.split("Verdict").nth(1).expect("a verdict").replace("\n    ", " ");
    assert!(verdict.contains(&brief), "{verdict}");
    let page = html(&results);
    assert_eq!(page.matches(mend).count(), 1);
    let after_verdict = page.split("<div class=\"verdict\">").nth(1).expect("a verdict");
    let near = after_verdict.split("</header>").next().expect("the head");
    assert!(near.contains(&brief), "{near}");
    assert!(page.contains("Pitfalls here: answered from a cache"));
    assert!(page.contains("<td>cached</td>"), "in the table of all cells");
}

/// `results.json` of before there were pitfalls has the warnings alone.
#[test]
fn old_results_without_pitfalls_are_read_and_show_their_warnings() {
    let results = sample::this_host();
    let mut json = serde_json::to_value(&results).unwrap();
    for cell in json["cells"].as_array_mut().unwrap() {
        cell.as_object_mut().unwrap().remove("pitfalls");
    }
    let old: Results = serde_json::from_value(json).unwrap();
    assert!(old.cells.iter().all(|cell| cell.pitfalls.is_empty()));
    for out in [text(&old, plain(100)), html(&old)] {
        assert!(out.contains("one repeat only"), "{out}");
        assert!(!out.contains("Pitfalls here"), "{out}");
    }
}

#[test]
fn a_failed_cell_is_named_and_has_no_figure() {
    let results = sample::awkward();
    let out = text(&results, plain(120));
    assert!(out.contains("2 of 24 cells failed"), "{out}");
    assert!(out.contains("no such device"));
    assert!(html(&results).contains("could not open &lt;script"));
}

/// The declarations of the page's style for a selector, on paper or elsewhere; later ones win.
fn style_of(page: &str, paper: bool, selector: &str) -> BTreeMap<String, String> {
    let css = page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
    let mut css = css.to_owned();
    while let Some(start) = css.find("/*") {
        let end = start + css[start..].find("*/").expect("comments end") + 2;
        css.replace_range(start..end, "");
    }
    // The last block of the style is that of paper.
    let (screen, print) = css.split_once("@media print {").expect("a style for paper");
    let part = if paper { print } else { screen };
    let mut found = BTreeMap::new();
    for rule in part.split('}') {
        let Some((selectors, declarations)) = rule.rsplit_once('{') else { continue };
        // What stands before is the opening of an @media block.
        let selectors = selectors.rsplit_once('{').map_or(selectors, |(_, inner)| inner);
        if selectors.split(',').any(|one| one.trim() == selector) {
            for declaration in declarations.split(';').filter_map(|text| text.split_once(':')) {
                let (name, value) = declaration;
                found.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }
    found
}

/// A table wider than a narrow window is cut where nothing scrolls, and one of limited height hides its rows.
#[test]
fn every_table_scrolls_in_a_frame_of_its_own() {
    for (name, results) in sample::all() {
        let page = html(&results);
        for (at, _) in page.match_indices("<table") {
            let frame = &page[page[..at].rfind('<').unwrap()..at];
            assert!(frame.starts_with("<div class=\"scroll\" tabindex=\"0\""), "{name}: {frame}");
        }
        let scroll = style_of(&page, false, ".scroll");
        assert_eq!(scroll["overflow-x"], "auto");
        assert_eq!(scroll["max-width"], "100%");
        assert!(!scroll.contains_key("max-height") && !page.contains("vh;"));
    }
}

/// On paper nothing scrolls, and what is kept whole though it may be larger than half a page leaves pages half-empty.
#[test]
fn paper_shows_all_and_breaks_between_plots_and_rows() {
    let page = html(&sample::raid_layouts());
    let paper = |selector: &str, name: &str| style_of(&page, true, selector).get(name).cloned();
    assert_eq!(paper(".scroll", "overflow").as_deref(), Some("visible"));
    assert_eq!(paper(".figures td.n", "white-space").as_deref(), Some("normal"));
    for whole in [".panel", "tr", ".legend"] {
        assert_eq!(paper(whole, "break-inside").as_deref(), Some("avoid"), "{whole}");
    }
    for broken in
        [".plate", "section", ".panels", ".tables", ".tables .scroll", ".figures", "table"]
    {
        assert_eq!(paper(broken, "break-inside"), None, "{broken}");
        assert_eq!(paper(broken, "break-before"), None, "{broken}");
    }
    for lines in [".panels", ".tables"] {
        assert_eq!(paper(lines, "display").as_deref(), Some("block"), "{lines}");
    }
    assert_eq!(paper("h3", "break-after").as_deref(), Some("avoid"));
    assert_eq!(paper("thead", "display").as_deref(), Some("table-header-group"));
    // No plot is taller than a page.
    assert_eq!(paper("svg.plot", "max-height").as_deref(), Some("23cm"));
    for class in ["plate", "panels", "panel", "tables", "scroll", "figures", "legend"] {
        assert!(page.contains(&format!("class=\"{class}")), "the page has no {class} any more");
    }
}
