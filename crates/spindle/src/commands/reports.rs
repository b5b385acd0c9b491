//! What becomes of results: a report in a folder, a text on the terminal; and the wish to end before there are any.

use crate::output::{Failure, print, say};
use crate::signals::{INTERRUPTED, Wish, Wishes};
use lab::output::{RESULTS_FILE, write_results};
use lab::report::{self, TextOptions};
use lab::results::Results;
use lab::target::StopFlag;
use std::io::IsTerminal;
use std::path::Path;

/// The first Ctrl-C asks the run to end, after `first`; a second one, later, ends the program, and says so, and what becomes of
/// what was made.
pub(super) fn raise_on_interrupt(
    stop: &StopFlag,
    first: impl Fn() + Send + 'static,
    left: impl Fn() -> String + Send + 'static,
) -> Result<(), Failure> {
    let stop = stop.clone();
    let mut wishes = Wishes::default();
    ctrlc::set_handler(move || match wishes.next() {
        Wish::First => {
            stop.raise();
            first();
        }
        Wish::Same => {}
        Wish::Again => {
            say(&format!(
                "spindle: interrupted twice: ended at once, without what was under way, and {}",
                left()
            ));
            std::process::exit(INTERRUPTED);
        }
    })
    .map_err(|error| Failure::failed(format!("listening for Ctrl-C: {error}")))
}

/// Writes results and report into a folder. Returns the line that says where.
///
/// # Errors
/// They can't be written there. They are kept elsewhere then, or printed where they are not yet (`is_told`), and the failure says
/// where.
pub(super) fn write_report(
    dir: &Path,
    results: &Results,
    force: bool,
    is_told: bool,
) -> Result<String, Failure> {
    let (csv, html) = (report::csv(results), report::html(results));
    let mut files = vec![("results.csv", csv.as_bytes()), ("report.html", html.as_bytes())];
    if results.run.command.is_none() && !results.run.text.is_empty() {
        files.push(("study.toml", results.run.text.as_bytes()));
    }
    match write_results(dir, results, &files, force) {
        Ok(()) => {
            let page = dir.join("report.html").display().to_string();
            Ok(format!("report: {}", report::printable(&page).replace('\n', " ")))
        }
        Err(error) => {
            let kept = kept_elsewhere(dir, results, &files);
            if kept.is_none() && !is_told {
                print(&text(results, true))?;
            }
            let kept = kept.as_deref().unwrap_or("the results were printed, and lie nowhere");
            Err(Failure::failed(format!("{error}; {kept}")))
        }
    }
}

/// Keeps results that can't be written where they should be: there by themselves, which is less, or in a folder for temporary files.
/// Says where they lie then.
fn kept_elsewhere(dir: &Path, results: &Results, files: &[(&str, &[u8])]) -> Option<String> {
    // Beside what an earlier result left they would be told as one with it.
    let is_alone = !files.iter().any(|(name, _)| dir.join(name).exists());
    if is_alone && write_results(dir, results, &[], false).is_ok() {
        return Some(format!(
            "of the results {RESULTS_FILE} alone lies there: spindle lab report {} shows them",
            dir.display()
        ));
    }
    let spare = std::env::temp_dir().join(format!("spindle-results-{}", std::process::id()));
    // What is there already is somebody else's.
    std::fs::create_dir(&spare).ok()?;
    if write_results(&spare, results, files, false).is_ok() {
        return Some(format!("the results lie in {} instead", spare.display()));
    }
    let _ = std::fs::remove_dir(&spare);
    None
}

/// Results as a text for the terminal.
pub(super) fn text(results: &Results, full: bool) -> String {
    let terminal = std::io::stdout().is_terminal();
    let width = width();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none();
    report::text(results, TextOptions { width, colour, full })
}

/// Columns that a text may have.
pub(super) fn width() -> usize {
    if std::io::stdout().is_terminal() { terminal_width() } else { 100 }
}

fn terminal_width() -> usize {
    let (columns, _) = terminal_size::terminal_size()
        .unwrap_or((terminal_size::Width(100), terminal_size::Height(24)));
    usize::from(columns.0)
}
