//! How a copy goes on and how it went, out of a pool or into one: the bar, what was told, the line at the end.

use crate::output::{Failure, say};
use crate::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use stdx::ByteCount;

/// Why a name is not copied that the target takes for another one of the same directory.
const ONE_NAME_THERE: &str = "the target takes its name for another one that was copied there (upper and lower case, or accents, are \
     one to it): copy it to another place";
/// Why one of several sources is not copied over another one of the same command.
const JUST_COPIED: &str =
    "the target has another one of this command's under its name: copy it to another place";
/// Directories in directories that are copied: a descriptor each.
pub(super) const DEPTH_MAX: usize = 400;
/// Files with several names whose first name is remembered. Beyond, further names become files of their own.
pub(super) const LINKS_MAX: usize = 1 << 20;
/// Files of which nothing could be read that are named in the end.
const NOTHING_MAX: usize = 1000;
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How a command is carried out.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) force: bool,
    pub(super) skip_damaged: bool,
    pub(super) verbose: bool,
    pub(super) children: bool,
    pub(super) no_devices: bool,
    pub(super) no_setuid: bool,
}

/// Why the command ends.
pub(super) enum Stop {
    /// There is no room at the target.
    Full(String),
    /// The pool is not written any more.
    Ended(String),
    /// Somebody wants it to.
    Interrupted,
}

/// Why a file is not copied.
pub(super) enum Trouble {
    /// This is to be told, and the next file is copied.
    Failed(String),
    /// It was told.
    Told,
    /// The command ends.
    Stop(Stop),
}

/// Refuses a name that the target takes for another one of the same directory: what it leads to there was copied already (it is among what
/// is `done`), and is not what the `first` name of the same file led to, as far as that `is_known`.
pub(super) fn refuse_one_name<I: Ord>(
    there: Option<I>,
    first: Option<I>,
    is_known: bool,
    done: &BTreeSet<I>,
) -> Result<(), Trouble> {
    match there.filter(|there| is_known && done.contains(there)) {
        Some(there) if first.as_ref() != Some(&there) => {
            Err(Trouble::Failed(ONE_NAME_THERE.into()))
        }
        _ => Ok(()),
    }
}

/// What sources of one command led to in the target, each with which it was: `I` tells what is there apart, `S` the sources.
pub(super) struct Given<I, S>(RefCell<BTreeMap<I, (S, Vec<u8>)>>);

impl<I, S> Default for Given<I, S> {
    fn default() -> Given<I, S> {
        Given(RefCell::default())
    }
}

impl<I: Ord, S: PartialEq> Given<I, S> {
    /// Refuses a source of this name where what it leads to `there` is another one of the same command. Directories of one name are
    /// laid together.
    pub(super) fn refuse(
        &self,
        there: Option<&I>,
        (source, name): (&S, &[u8]),
        is_directory: bool,
    ) -> Result<(), Trouble> {
        let given = self.0.borrow();
        match there.and_then(|there| given.get(there)) {
            Some((other, called)) if *called != name && other != source => {
                Err(Trouble::Failed(ONE_NAME_THERE.into()))
            }
            Some((other, _)) if other != source && !is_directory => {
                Err(Trouble::Failed(JUST_COPIED.into()))
            }
            _ => Ok(()),
        }
    }

    /// A source was copied.
    pub(super) fn add(&self, there: Option<I>, source: S, name: &[u8]) {
        let there = there.map(|there| (there, (source, name.to_vec())));
        self.0.borrow_mut().extend(there);
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

/// See the [module](self).
pub(super) struct Tally {
    bar: ProgressBar,
    line: Option<Cell<Instant>>,
    verbose: bool,
    failed: Cell<u64>,
    copied: Cell<u64>,
    kept: Cell<u64>,
    /// Files of which a part could not be read.
    in_part: Cell<u64>,
    /// Files of which nothing could be read: how many, and the first of them.
    nothing: Cell<u64>,
    named: RefCell<Vec<String>>,
    /// Bytes that were copied. The bar is full at its end, whatever was.
    bytes: Cell<u64>,
}

impl Tally {
    /// Nothing yet; with `verbose` each file's name is printed.
    pub(super) fn new(verbose: bool) -> Tally {
        let terminal = io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = "{bar:30} {bytes}/{total_bytes} at {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        Tally {
            bar,
            line: (!terminal).then(|| Cell::new(Instant::now())),
            verbose,
            failed: Cell::new(0),
            copied: Cell::new(0),
            kept: Cell::new(0),
            in_part: Cell::new(0),
            nothing: Cell::new(0),
            named: RefCell::default(),
            bytes: Cell::new(0),
        }
    }

    /// The bar, for who counts what there is to copy.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// One file more was copied.
    pub(super) fn count_copied(&self) {
        self.copied.set(self.copied.get() + 1);
    }

    /// One file more was there, with so many bytes that need not be copied.
    pub(super) fn count_kept(&self, bytes: u64) {
        self.kept.set(self.kept.get() + 1);
        self.advance(bytes);
    }

    /// One file more was copied, with zeros for what could not be read of it.
    pub(super) fn count_in_part(&self) {
        self.in_part.set(self.in_part.get() + 1);
    }

    /// One file more was not made, since nothing of it could be read.
    pub(super) fn count_nothing(&self, name: String) {
        self.failed.set(self.failed.get() + 1);
        self.nothing.set(self.nothing.get() + 1);
        let mut named = self.named.borrow_mut();
        if named.len() < NOTHING_MAX {
            named.push(name);
        }
    }

    /// Tells which files were not made, and how many.
    pub(super) fn say_nothing(&self) {
        let (count, named) = (self.nothing.get(), self.named.take());
        if count == 0 {
            return;
        }
        let (were, them) = if count == 1 { ("was", "it") } else { ("were", "them") };
        say(&format!("{} {were} not made, since nothing of {them} can be read:", files(count)));
        named.iter().for_each(|name| say(&format!("  {}", printable::line(name))));
        match count - named.len() as u64 {
            0 => {}
            more => say(&format!("  and {more} more")),
        }
    }

    /// Whether anything went wrong.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.get() > 0
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// So many bytes more were copied.
    pub(super) fn progress(&self, bytes_more: u64) {
        self.bytes.set(self.bytes.get() + bytes_more);
        self.advance(bytes_more);
    }

    /// So many bytes more are there.
    fn advance(&self, bytes_more: u64) {
        self.bar.inc(bytes_more);
        let Some(last) = self.line.as_ref().filter(|last| last.get().elapsed() >= LINE_EVERY)
        else {
            return;
        };
        last.set(Instant::now());
        let (done, all, left) =
            (self.bar.position(), self.bar.length().unwrap_or(0), self.bar.eta().as_secs());
        say(&format!("{} of {} copied, some {left} s left", bytes(done), bytes(all)));
    }

    /// Tells what went wrong with a file.
    pub(super) fn complain(&self, text: &str) {
        self.failed.set(self.failed.get() + 1);
        let shown = Failure::failed(text).message;
        self.bar.suspend(|| say(&format!("spindle: {shown}")));
    }

    /// What is said when there is no room.
    pub(super) fn full(&self, error: &dyn std::fmt::Display) -> String {
        let copied = files(self.copied.get());
        format!(
            "the target is full ({error}) after {copied}; make room, and the same command goes on"
        )
    }

    /// Says that a file is copied, where that is wanted.
    pub(super) fn say_name(&self, name: &[u8]) {
        if !self.verbose {
            return;
        }
        let mut line = printable::name(name, io::stdout().is_terminal()).into_owned();
        line.push(b'\n');
        // Who reads the names may go away; the copy goes on.
        let _ = self.bar.suspend(|| io::stdout().lock().write_all(&line));
    }

    /// How it went.
    pub(super) fn end(&self) -> Result<(), Failure> {
        let mut copied = format!("{} copied", files(self.copied.get()));
        if self.in_part.get() > 0 {
            copied += &format!(", {} in part", self.in_part.get());
        }
        if self.nothing.get() > 0 {
            copied += &format!(", {} not made", self.nothing.get());
        }
        let kept = match self.kept.get() {
            0 => String::new(),
            kept => format!(", {kept} were there already"),
        };
        match self.failed.get() {
            0 => {
                say(&format!("{copied}, {}{kept}", bytes(self.bytes.get())));
                Ok(())
            }
            1 => {
                Err(Failure::failed(format!("{copied}{kept}; one thing went wrong, as told above")))
            }
            failed => {
                let text = format!("{copied}{kept}; {failed} things went wrong, as told above");
                Err(Failure::failed(text))
            }
        }
    }
}

/// A number of files, in words.
pub(super) fn files(count: u64) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// Bytes, in words.
fn bytes(count: u64) -> String {
    ByteCount(count).to_string()
}
