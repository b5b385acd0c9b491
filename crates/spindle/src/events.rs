//! What happens to what is attached, printed: results on standard output, all else on standard error.

use crate::output::{Failure, print, say};
use attach::event::Tone;
use attach::{Context, Event, Events};

/// Prints what is told.
pub fn events() -> Events {
    Events::to(tell)
}

/// The same of a command that changes pools: where somebody else writes to one it is carried out there, or refused with who
/// that is.
pub fn events_of_a_change() -> Events {
    Events::to(|event: &Event| match event {
        Event::WrittenElsewhere { .. } => {}
        event => tell(event),
    })
}

fn tell(event: &Event) {
    match event.tone() {
        Tone::Result => {
            if let Err(failure) = print(&format!("spindle: {event}\n")) {
                say(&format!("spindle: {}", failure.message));
            }
        }
        Tone::Progress => say(&event.to_string()),
        Tone::Note => say(&format!("note: {event}")),
        Tone::Warning => say(&format!("spindle: {event}")),
    }
}

/// Ends a command that lists what is there, where something may not be read: that was told, and more may be there.
///
/// # Errors
/// Without a word.
pub fn refuse_denied(context: &Context) -> Result<(), Failure> {
    if context.denied().is_some() { Err(Failure::said()) } else { Ok(()) }
}

/// Where a command attaches what it works on.
///
/// # Errors
/// Where no executor can be made.
pub fn context() -> Result<Context, attach::Error> {
    Context::new(&events())
}
