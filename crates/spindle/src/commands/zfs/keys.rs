//! Keys of encrypted datasets, as options have them, and typed on a terminal.
//!
//! While a key is typed the terminal does not show it. A signal that ends the program there sets it right first.

use crate::output::Failure;
use crate::printable;
use crate::signals;
use attach::pools::keys::KeyBytes;
use clap::Args;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::rc::Rc;
use zeroize::Zeroizing;
use zfs_format::dsl::crypto_key::KeyFormat;

// Where keys come from.
#[derive(Args, Clone, Default)]
pub struct KeyArgs {
    /// The key of an encrypted dataset: a file with the passphrase, the hex digits or the raw bytes; - is
    /// standard input. May be given several times. Without it the key is asked for on a terminal
    #[arg(long, value_name = "[DATASET=]FILE|-")]
    pub key_file: Vec<PathBuf>,
}

/// Asks for a key; nothing where nobody can be asked, or such a key can't be typed.
///
/// # Errors
/// The terminal fails.
pub fn ask(dataset: &str, format: KeyFormat) -> io::Result<Option<KeyBytes>> {
    let can_be_typed = matches!(format, KeyFormat::Passphrase | KeyFormat::Hex);
    if !can_be_typed || !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let wrapped = |failure: Failure| io::Error::other(failure.message);
    let terminal = File::open("/dev/tty")?;
    let before = rustix::termios::tcgetattr(&terminal)?;
    signals::on_signal(move || {
        use rustix::termios::{OptionalActions, tcsetattr};
        // Where it can't be set right, ending is all that is left.
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
        std::process::exit(signals::INTERRUPTED);
    })
    .map_err(wrapped)?;
    let typed = rpassword::prompt_password(format!("key of {}: ", printable::word(dataset)));
    signals::on_signal(|| std::process::exit(signals::INTERRUPTED)).map_err(wrapped)?;
    Ok(Some(Rc::new(Zeroizing::new(typed?.into_bytes()))))
}
