//! What becomes of results: a report in a folder, a text on the terminal; and the wish to end before there are any.

use crate::output::{Failure, say};
use crate::signals::{INTERRUPTED, Wish, Wishes};
use lab::output::write_results;
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
pub(super) fn write_report(dir: &Path, results: &Results, force: bool) -> Result<String, Failure> {
    let (csv, html) = (report::csv(results), report::html(results));
    let mut files = vec![("results.csv", csv.as_bytes()), ("report.html", html.as_bytes())];
    if results.run.command.is_none() && !results.run.text.is_empty() {
        files.push(("study.toml", results.run.text.as_bytes()));
    }
    write_results(dir, results, &files, force).map_err(Failure::failed)?;
    let page = dir.join("report.html").display().to_string();
    Ok(format!("report: {}", report::printable(&page).replace('\n', " ")))
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
