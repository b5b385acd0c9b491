//! Keys of encrypted datasets: from files, or typed on a terminal.
//!
//! Rules:
//! 1. `--key-file DATASET=FILE` is the key of that dataset's encryption root; `--key-file FILE` is tried wherever a key is
//!    needed. A file is read once, and overwritten in memory when the command ends.
//! 2. Without any, a passphrase or hexadecimal key is asked for on a terminal, for the dataset that was named. Raw
//!    keys can't be typed. Nobody is asked for keys of children: they stay locked, and that is said.
//! 3. While a key is typed the terminal does not show it. A signal that ends the program there sets it right first.

use crate::commands::Failure;
use crate::foreign;
use crate::pools::check_name;
use crate::signals;
use clap::Args;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use zeroize::Zeroizing;
use zfs_format::dsl::crypto_key::KeyFormat;

/// Bytes of a key that are read: the longest is a passphrase of 512 bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// Where keys come from.
#[derive(Args, Clone, Default)]
pub struct KeyArgs {
    /// The key of an encrypted dataset: a file with the passphrase, the hex digits or the raw bytes; - is
    /// standard input. May be given several times. Without it the key is asked for on a terminal
    #[arg(long, value_name = "[DATASET=]FILE|-")]
    key_file: Vec<PathBuf>,
}

/// The bytes of a key.
pub type KeyBytes = Rc<Zeroizing<Vec<u8>>>;

/// A key that was given.
struct Given {
    /// The dataset that it was given for.
    dataset: Option<String>,
    path: PathBuf,
    bytes: RefCell<Option<KeyBytes>>,
    fits: Cell<bool>,
}

/// See the [module](self).
pub struct Keys(Vec<Given>);

impl Given {
    fn of(argument: &Path) -> Given {
        let parts = argument.to_str().and_then(|text| text.split_once('='));
        let named = parts.filter(|(name, _)| check_name(name).is_ok() && !argument.exists());
        let (dataset, path) = match named {
            Some((dataset, path)) => (Some(dataset.to_owned()), PathBuf::from(path)),
            None => (None, argument.to_owned()),
        };
        let (bytes, fits) = Default::default();
        Given { dataset, path, bytes, fits }
    }

    fn bytes(&self) -> Result<KeyBytes, Failure> {
        if let Some(known) = &*self.bytes.borrow() {
            return Ok(Rc::clone(known));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES_MAX as usize + 1));
        let read = match self.path.as_os_str() == "-" {
            true => std::io::stdin().take(KEY_BYTES_MAX + 1).read_to_end(&mut bytes),
            false => File::open(&self.path)
                .and_then(|file| file.take(KEY_BYTES_MAX + 1).read_to_end(&mut bytes)),
        };
        let shown = self.path.display();
        read.map_err(|error| Failure::usage(format!("reading the key in {shown}: {error}")))?;
        if bytes.len() as u64 > KEY_BYTES_MAX {
            return Err(Failure::usage(format!(
                "{shown} is no key: it is longer than {KEY_BYTES_MAX} bytes"
            )));
        }
        let bytes = Rc::new(bytes);
        *self.bytes.borrow_mut() = Some(Rc::clone(&bytes));
        Ok(bytes)
    }
}

impl Keys {
    /// The keys of these options.
    pub fn new(args: &KeyArgs) -> Keys {
        Keys(args.key_file.iter().map(|argument| Given::of(argument)).collect())
    }

    /// Tries the keys that may be of a dataset: those that were given for it, then those that were given for none.
    /// Nothing where there are none; else whether one fits, or why the last doesn't.
    ///
    /// # Errors
    /// A key can't be read.
    pub fn try_on<E>(
        &self,
        dataset: &str,
        load: impl Fn(KeyBytes) -> Result<(), E>,
    ) -> Result<Option<Result<(), E>>, Failure> {
        let is_below = |root: &str| {
            dataset.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let own = self.0.iter().filter(|key| key.dataset.as_deref().is_some_and(is_below));
        let any = self.0.iter().filter(|key| key.dataset.is_none());
        let mut last = None;
        for key in own.chain(any) {
            let tried = load(key.bytes()?);
            if tried.is_ok() {
                key.fits.set(true);
                return Ok(Some(tried));
            }
            last = Some(tried);
        }
        Ok(last)
    }

    /// Refuses keys that fit nothing of what was named.
    ///
    /// # Errors
    /// There is one.
    pub fn refuse_unused(&self, top: &str) -> Result<(), Failure> {
        match self.0.iter().find(|key| !key.fits.get()) {
            None => Ok(()),
            Some(key) => Err(Failure::failed(format!(
                "the key in {} fits no encryption root at or below {top}{}",
                key.path.display(),
                key.dataset.as_ref().map_or(String::new(), |name| format!(" called {name}"))
            ))),
        }
    }
}

/// Asks for a key; nothing where nobody can be asked, or such a key can't be typed.
///
/// # Errors
/// The terminal fails.
pub fn ask(dataset: &str, format: KeyFormat) -> Result<Option<KeyBytes>, Failure> {
    let can_be_typed = matches!(format, KeyFormat::Passphrase | KeyFormat::Hex);
    if !can_be_typed || !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| {
        Failure::failed(format!("asking for the key of {dataset}: {error}"))
    };
    let terminal = File::open("/dev/tty").map_err(failed)?;
    let before = rustix::termios::tcgetattr(&terminal).map_err(|error| failed(error.into()))?;
    signals::on_signal(move || {
        use rustix::termios::{OptionalActions, tcsetattr};
        // Where it can't be set right, ending is all that is left.
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
        std::process::exit(signals::INTERRUPTED);
    })?;
    let typed = rpassword::prompt_password(format!("key of {}: ", foreign::word(dataset)));
    signals::on_signal(|| std::process::exit(signals::INTERRUPTED))?;
    Ok(Some(Rc::new(Zeroizing::new(typed.map_err(failed)?.into_bytes()))))
}
