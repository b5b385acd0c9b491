//! How far a run is: a bar with the time left on a terminal, a line now and then elsewhere.

use crate::output::say;
use crate::printable;
use indicatif::{ProgressDrawTarget, ProgressStyle};
use lab::run::{Observer, Progress, Running};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines where there is no terminal. Shorter fills logs, longer looks dead.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Time between two looks of the bar at the clock.
const TICK: Duration = Duration::from_millis(250);

/// See the [module](self).
pub struct ProgressBar {
    bar: indicatif::ProgressBar,
    /// When the last line was written, where there is no terminal.
    lines: Option<Mutex<Instant>>,
    name: String,
    question: String,
    begun: AtomicBool,
}

impl ProgressBar {
    /// A bar for the run of this study, on standard error. Nothing is shown before the first cell runs.
    pub fn new(name: &str, question: &str) -> ProgressBar {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = indicatif::ProgressBar::with_draw_target(None, target);
        let style = "{bar:30} {pos}/{len} runs, {elapsed} so far, {prefix}  {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        bar.set_prefix("how long it takes is known after the first run");
        let lines = (!terminal).then(|| Mutex::new(Instant::now()));
        let (name, question) = (printable::line(name), printable::line(question));
        ProgressBar { bar, lines, name, question, begun: AtomicBool::new(false) }
    }

    /// Says a line above the bar.
    pub fn teller(&self) -> impl Fn(&str) + Send + 'static {
        let bar = self.bar.clone();
        move |line| bar.suspend(|| say(line))
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for ProgressBar {
    fn progress(&self, progress: Progress<'_>) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            self.bar.suspend(|| say(&format!("{}: {}", self.name, self.question)));
            self.bar.enable_steady_tick(TICK);
        }
        self.bar.set_length(progress.total as u64);
        self.bar.set_position(progress.done as u64);
        if let Some(left) = progress.left {
            self.bar.set_prefix(left.to_string());
        }
        let dearest = dearest(progress.running);
        if let Some(dearest) = &dearest {
            self.bar.set_message(dearest.clone());
        }
        if let Some(lines) = &self.lines {
            let mut last = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if last.elapsed() >= LINE_EVERY {
                *last = Instant::now();
                let left = progress.left.map_or_else(String::new, |left| format!(", {left}"));
                let runs = dearest.map_or_else(String::new, |cell| format!("; running {cell}"));
                let (name, done, total) = (&self.name, progress.done, progress.total);
                say(&format!("{name}: {done} of {total} runs done{left}{runs}"));
            }
        }
    }
}

/// Of the cells that run the one that takes longest, with how long; one of which that is not known before others.
fn dearest(running: &[Running<'_>]) -> Option<String> {
    let longest = |running: &&Running<'_>| (running.takes.is_none(), running.takes);
    let Running { cell, takes } = running.iter().max_by_key(longest)?;
    let takes = match takes {
        Some(takes) => format!("up to {} a run", lab::pace::whole(*takes)),
        None => "how long it takes is not known yet".to_owned(),
    };
    Some(format!("{} ({takes})", printable::line(cell)))
}

/// How far a job over bytes is: its rate and the time left.
pub struct BytesProgress {
    bar: indicatif::ProgressBar,
    /// When the last line was written, where there is no terminal.
    last: Option<Instant>,
    began: Instant,
    what: String,
    total: u64,
}

impl BytesProgress {
    /// A bar for a job over so many bytes, on standard error.
    pub fn new(what: &str, total: u64) -> BytesProgress {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = indicatif::ProgressBar::with_draw_target(Some(total), target);
        let style = "{bar:30} {bytes}/{total_bytes} at {bytes_per_sec}, {eta} left  {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        bar.set_message(printable::line(what));
        let (began, what) = (Instant::now(), printable::line(what));
        BytesProgress { bar, last: (!terminal).then_some(began), began, what, total }
    }

    /// So many bytes are done.
    pub fn at(&mut self, bytes: u64) {
        self.bar.set_position(bytes.min(self.total));
        let Some(last) = self.last.filter(|last| last.elapsed() >= LINE_EVERY) else { return };
        self.last = Some(last + last.elapsed());
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let rate = bytes as f64 / seconds;
        let left = self.total.saturating_sub(bytes) as f64 / rate.max(1.0);
        let [done, total, rate] = [bytes, self.total, rate as u64].map(zfs::show::bytes);
        say(&format!("{}: {done} of {total} done at {rate}/s, some {left:.0} s left", self.what));
    }

    /// Takes the bar away, and says how long it took.
    pub fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.began.elapsed()
    }
}
