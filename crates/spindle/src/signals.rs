//! What happens on SIGINT, SIGTERM and SIGHUP: one handler, whose action changes as the program goes on.
//!
//! Before the first action the signals do what they do by themselves: they end the program.

use crate::output::{self, Failure};
use attach::ending::Told;
use std::sync::{Arc, Mutex};

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

/// The wish to end, made by the first signal from now on; a second one ends the program at once.
///
/// # Errors
/// The system refuses.
pub fn told_by_signals() -> Result<Arc<Told>, Failure> {
    let told = Arc::new(Told::default());
    let handler = Arc::clone(&told);
    on_signal(move || {
        if !handler.signalled() {
            std::process::exit(1);
        }
    })?;
    Ok(told)
}
