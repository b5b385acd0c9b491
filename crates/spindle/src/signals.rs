//! What happens on SIGINT, SIGTERM and SIGHUP: one handler, whose action changes as the program goes on.
//!
//! Before the first action the signals do what they do by themselves: they end the program.

use crate::output::{self, Failure};
use attach::ending::Told;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The exit status of a program that a signal ended, as shells have it: 128 and SIGINT's number.
pub const INTERRUPTED: i32 = output::INTERRUPTED as i32;

type Action = Box<dyn FnMut() + Send>;

static ACTION: Mutex<Option<Action>> = Mutex::new(None);

/// Does this on the signals from now on, and nothing else.
///
/// # Errors
/// The system refuses.
pub fn on_signal(action: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let held = "nobody panics while holding it";
    let is_first = ACTION.lock().expect(held).replace(Box::new(action)).is_none();
    if !is_first {
        return Ok(());
    }
    let handler = || {
        if let Some(action) = &mut *ACTION.lock().expect("nobody panics while holding it") {
            action();
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::failed(format!("waiting for signals: {error}")))
}

/// Signals that lie no further apart are one wish: a terminal sends them to a whole group, and who started this program (`sudo`,
/// `timeout`, a script) may pass on what it got itself, on a busy host much later. A signal does not tell from whom it is, and what
/// the second one ends at once may be lost.
const ONE_WISH: Duration = Duration::from_secs(1);

/// What the first wish's text says of the second.
pub const AGAIN: &str = "Ctrl-C again, a second later or more, ends it at once";

/// What a signal means.
pub enum Wish {
    /// To end.
    First,
    /// The same once more, of the same moment.
    Same,
    /// To end at once.
    Again,
}

/// What signals mean, one after another.
#[derive(Default)]
pub struct Wishes(Option<Instant>);

impl Wishes {
    /// What the next one means, which came now.
    pub fn next(&mut self) -> Wish {
        match self.0 {
            None => {
                self.0 = Some(Instant::now());
                Wish::First
            }
            Some(first) if first.elapsed() < ONE_WISH => Wish::Same,
            Some(_) => Wish::Again,
        }
    }
}

/// The wish to end, made by the first signal from now on; a later one ends the program at once, with what it has mounted taken away.
///
/// # Errors
/// The system refuses.
pub fn told_by_signals() -> Result<Arc<Told>, Failure> {
    let told = Arc::new(Told::default());
    let handler = Arc::clone(&told);
    let mut wishes = Wishes::default();
    on_signal(move || match wishes.next() {
        Wish::First => _ = handler.signalled(),
        Wish::Same => {}
        Wish::Again => {
            output::say("spindle: told to end twice: ended at once; what was not durable is lost");
            host::fuse::detach_all();
            std::process::exit(1);
        }
    })?;
    Ok(told)
}
