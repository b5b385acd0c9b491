//! `spindle zfs diff`: what differs between a snapshot and what came after it, as `zfs diff` prints it.
//!
//! `M` modified, `+` added, `-` removed, `R` renamed; behind a path the names that a file has more or fewer. Paths begin
//! with the mountpoint. Bytes that are no printable ASCII, spaces and backslashes are written as `\0ooo`, unless
//! `-h` says otherwise: then only what would make another line of a path is [escaped](printable::name).

use super::keys::KeyArgs;
use super::source::{ViewArgs, failed};
use crate::output::{Failure, print};
use crate::printable;
use ::zfs::dsl::Directory;
use ::zfs::spa::Spa;
use ::zfs::zpl::difference::{Change, Difference, Differences};
use attach::pools::Session;
use attach::pools::{PoolPlace, check_name, pool_of};
use clap::Args;
use std::io::{IsTerminal, Write};
use std::rc::Rc;
use zfs_format::dsl::property::{PropertyValue, Source};
use zfs_format::zpl::directory::FileKind;

/// Clones that lie between a snapshot and what it is compared with.
const CLONES_MAX: usize = 1024;

// What `diff` takes.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct DiffArgs {
    /// The earlier snapshot
    #[arg(value_name = "DATASET@SNAPSHOT")]
    from: String,
    /// The later snapshot, or the dataset as it is now; without it the dataset as it is now
    #[arg(value_name = "DATASET[@SNAPSHOT]")]
    to: Option<String>,
    /// With the kind of each file, as ls -F has it
    #[arg(short = 'F')]
    kinds: bool,
    /// For programs: divided by tabs, without arrows
    #[arg(short = 'H')]
    scripted: bool,
    /// With the time of each file's last change
    #[arg(short = 't')]
    times: bool,
    /// Paths as they are, but for control characters
    #[arg(short = 'h')]
    raw: bool,
    #[command(flatten)]
    keys: KeyArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &DiffArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    check_name(&args.from)?;
    let Some((earlier, _)) = args.from.split_once('@') else {
        return Err(Failure::failed(format!(
            "'{}': the first must be a snapshot, DATASET@SNAPSHOT",
            args.from
        )));
    };
    // As OpenZFS has it, `@later` is a snapshot of the same dataset.
    let later = match &args.to {
        None => earlier.to_owned(),
        Some(to) if to.starts_with('@') => format!("{earlier}{to}"),
        Some(to) => to.clone(),
    };
    if pool_of(&later) != pool_of(earlier) {
        return Err(Failure::failed(format!("{} and {later} are of different pools", args.from)));
    }
    let session = Session::open(place, &ViewArgs::from(args.keys.clone()).view())?;
    let (from, to) = (session.dataset(&args.from)?, session.dataset(&later)?);
    let (spa, wanted, of) = (Rc::clone(&to.spa), from.dataset.number, Rc::clone(&to.directory));
    let (later_txg, head) = (to.dataset.head.creation_txg, from.directory.number);
    let is_head = to.dataset.snapshot_name().is_none();
    let earlier_txg = from.dataset.head.creation_txg;
    let follows = session.wait(async move {
        let same = of.number == head && (is_head || earlier_txg < later_txg);
        if same { Ok(true) } else { descends(&spa, &of, wanted, head, earlier_txg).await }
    });
    if !follows.map_err(|error| failed(&to, error))? {
        let text = "is not an earlier snapshot of it, nor of what it is a clone of";
        return Err(Failure::failed(format!("cannot diff {later}: {} {text}", from.name())));
    }
    let (spa, directory) = (Rc::clone(&to.spa), Rc::clone(&to.directory));
    let mountpoint = session.wait(async move { mountpoint(&spa, &directory).await });
    let mountpoint = mountpoint.map_err(|error| failed(&to, error))?;
    let (earlier, later) = (session.files(&from)?, session.files(&to)?);
    let line = Line {
        kinds: args.kinds,
        scripted: args.scripted,
        times: args.times,
        raw: args.raw,
        terminal: std::io::stdout().is_terminal(),
        mountpoint,
    };
    let done: Result<_, ::zfs::ZfsError> = session.wait(async move {
        let mut differences = Differences::new(earlier, later).await?;
        while let Some(found) = differences.next().await? {
            let mut text = Vec::new();
            found.iter().for_each(|one| line.write(one, &mut text));
            let mut out = std::io::stdout().lock();
            match out.write_all(&text).and_then(|()| out.flush()) {
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
                other => {
                    if let Err(error) = other {
                        return Ok(Some(error));
                    }
                }
            }
        }
        Ok(None)
    });
    match done {
        Ok(None) => print(""),
        Ok(Some(error)) => Err(Failure::failed(format!("writing to standard output: {error}"))),
        Err(error) => Err(failed(&to, error)),
    }
}

/// Whether a dataset is a clone, at some remove, of a snapshot or of one after it.
async fn descends(
    spa: &Spa,
    directory: &Directory,
    wanted: u64,
    head: u64,
    wanted_txg: u64,
) -> Result<bool, ::zfs::ZfsError> {
    let dsl = spa.dsl();
    let mut origin = directory.head.origin;
    for _ in 0..CLONES_MAX {
        if origin == 0 {
            return Ok(false);
        }
        let snapshot = dsl.dataset(origin, String::new()).await?;
        let is_later = snapshot.head.dir == head && snapshot.head.creation_txg >= wanted_txg;
        if origin == wanted || is_later {
            return Ok(true);
        }
        origin = dsl.directory(snapshot.head.dir, String::new()).await?.head.origin;
    }
    Ok(false)
}

/// Where a dataset would be mounted, by what is set for it and above it.
async fn mountpoint(spa: &Spa, directory: &Directory) -> Result<Vec<u8>, ::zfs::ZfsError> {
    let dsl = spa.dsl();
    let mut at = directory.name.as_str();
    loop {
        let Some(above) = dsl.find_directory(at).await? else { break };
        for stored in dsl.stored(&above).await? {
            let is_set = matches!(stored.source, Source::Local | Source::Received);
            if stored.name == "mountpoint"
                && is_set
                && let PropertyValue::Text(text) = &stored.value
                && text.as_bytes().starts_with(b"/")
            {
                let base = text.as_bytes().strip_suffix(b"/").unwrap_or(text.as_bytes());
                return Ok([base, &directory.name.as_bytes()[at.len()..]].concat());
            }
        }
        match at.rsplit_once('/') {
            Some((parent, _)) => at = parent,
            None => break,
        }
    }
    Ok([b"/", directory.name.as_bytes()].concat())
}

/// How differences are written.
struct Line {
    kinds: bool,
    scripted: bool,
    times: bool,
    raw: bool,
    terminal: bool,
    mountpoint: Vec<u8>,
}

impl Line {
    fn write(&self, of: &Difference, to: &mut Vec<u8>) {
        if self.times {
            let (seconds, nanoseconds) = (of.changed.seconds, of.changed.nanoseconds);
            to.extend(format!("{seconds:10}.{nanoseconds:09}\t").as_bytes());
        }
        let letter = match of.change {
            Change::Added => b'+',
            Change::Removed => b'-',
            Change::Modified | Change::Links(_) => b'M',
            Change::Renamed(_) => b'R',
        };
        to.extend([letter, b'\t']);
        if self.kinds {
            to.extend([kind(of.kind), b'\t']);
        }
        self.path(&of.path, to);
        match &of.change {
            Change::Renamed(new) => {
                to.extend(if self.scripted { &b"\t"[..] } else { b" -> " });
                self.path(new, to);
            }
            Change::Links(change) => to.extend(format!("\t({change:+})").as_bytes()),
            _ => {}
        }
        to.push(b'\n');
    }

    fn path(&self, path: &[u8], to: &mut Vec<u8>) {
        if self.raw {
            let whole = [&self.mountpoint, path].concat();
            return to.extend(&*printable::name(&whole, self.terminal));
        }
        for byte in self.mountpoint.iter().chain(path) {
            match byte {
                byte if (b'!'..=b'~').contains(byte) && *byte != b'\\' => to.push(*byte),
                byte => to.extend(format!("\\{byte:04o}").as_bytes()),
            }
        }
    }
}

fn kind(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => b'F',
        FileKind::Directory => b'/',
        FileKind::SymbolicLink => b'@',
        FileKind::Fifo => b'|',
        FileKind::Socket => b'=',
        FileKind::CharacterDevice => b'C',
        FileKind::BlockDevice => b'B',
        FileKind::Other(_) => b'?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::zfs::zpl::attributes::Moment;

    fn line(scripted: bool, raw: bool) -> Line {
        let mountpoint = b"/t".to_vec();
        Line { kinds: true, scripted, times: true, raw, terminal: false, mountpoint }
    }

    fn written(line: &Line, change: Change) -> String {
        let changed = Moment { seconds: 12, nanoseconds: 5 };
        let path = b"/a b\\\xff".to_vec();
        let mut text = Vec::new();
        line.write(&Difference { change, kind: FileKind::File, changed, path }, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    #[test]
    fn lines_are_those_of_zfs_diff() {
        let head = "        12.000000005\t";
        let plain = line(false, false);
        assert_eq!(
            written(&plain, Change::Added),
            format!("{head}+\tF\t/t/a\\0040b\\0134\\0377\n")
        );
        assert_eq!(
            written(&plain, Change::Links(-1)),
            format!("{head}M\tF\t/t/a\\0040b\\0134\\0377\t(-1)\n")
        );
        let renamed = Change::Renamed(b"/c".to_vec());
        assert!(written(&plain, renamed.clone()).ends_with("\\0377 -> /t/c\n"));
        assert!(written(&line(true, false), renamed).ends_with("\\0377\t/t/c\n"));
        assert!(written(&line(false, true), Change::Removed).contains("-\tF\t/t/a b\\"));
    }
}
