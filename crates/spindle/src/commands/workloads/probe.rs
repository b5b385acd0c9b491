//! `spindle lab probe hdparm` and `probe dd`: the commands that everyone runs first, with repeats and
//! over block sizes and read-aheads.
//!
//! With several block sizes or read-aheads, each repeat goes through all of them, so that a drift of
//! the machine falls on all alike.

mod read_ahead;

use super::session::{self, Common, Session, ToolRun, directory_of, there};
use crate::output::{Failure, print, say};
use clap::{Args, Subcommand};
use lab::study::ToolKind;
use read_ahead::ReadAhead;
use std::path::{Path, PathBuf};
use stdx::ByteCount;
use tools::probe::dd::operands::{self, Input, Operands, Output};
use tools::probe::dd::{self, DdOptions};
use tools::probe::hdparm::{self, HdparmPlan};
use workload::content::ContentSpec;
use workload::outcome::Outcome;

/// The file that `hdparm` makes where none is named.
const PROBE_FILE: &str = "spindle-probe.tst";

/// What is said where `dd` reads no file and writes none.
const NOWHERE: &str = "dd: of= is missing, and without a file to read (if=) nothing is measured; as: spindle lab probe dd \
                       if=/dev/urandom of=FILE bs=1M count=1024 conv=fdatasync (writes), or if=FILE bs=1M --cold (reads)";

// The probes.
#[derive(Args)]
pub struct ProbeArgs {
    #[command(subcommand)]
    probe: Probe,
}

#[derive(Subcommand)]
#[command(defer = true)]
enum Probe {
    /// hdparm -t and -T: sequential reads without and with the cache
    Hdparm(HdparmArgs),
    /// dd: copies blocks, and says how fast
    Dd(DdArgs),
}

// hdparm's options for timings.
#[derive(Args)]
struct HdparmArgs {
    /// A file or block device to read [default: one is made in --dir, and removed]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Reads from the disk (the default)
    #[arg(short = 't')]
    disk: bool,
    /// Reads from the cache
    #[arg(short = 'T')]
    cached: bool,
    /// Go past the cache
    #[arg(long)]
    direct: bool,
    /// The directory for the file that is made
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "path")]
    dir: PathBuf,
    /// The size of the file that is made; it should take 3 s to read
    #[arg(long, value_name = "SIZE", default_value = "2g", conflicts_with = "path")]
    size: ByteCount,
    /// The system's read-ahead, one after another; needs root, and is put back
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    read_ahead: Vec<ByteCount>,
    #[command(flatten)]
    common: Common,
}

// dd's operands.
#[derive(Args)]
struct DdArgs {
    /// dd's operands: if, of, bs, count, skip, seek, conv, iflag, oflag
    #[arg(value_name = "OPERAND")]
    operands: Vec<String>,
    /// The directory that relative paths start from
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Block sizes, one after another, instead of bs=; the same bytes are copied with each
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    block_size: Vec<String>,
    /// The system's read-ahead, one after another; needs root, and is put back
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    read_ahead: Vec<ByteCount>,
    /// Drop the input's cache before each copy
    #[arg(long)]
    cold: bool,
    /// Let of= be a block device; what is on it is lost
    #[arg(long)]
    destructive: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs a probe.
///
/// # Errors
/// With the line to print.
pub fn run(args: ProbeArgs) -> Result<(), Failure> {
    match args.probe {
        Probe::Hdparm(args) => run_hdparm(&args),
        Probe::Dd(args) => run_dd(&args),
    }
}

fn run_hdparm(args: &HdparmArgs) -> Result<(), Failure> {
    let (root, path, shown) = match &args.path {
        Some(path) => {
            let full = absolute(path)?;
            (PathBuf::from("/"), below_root(&full), full)
        }
        None => {
            let path = PathBuf::from(PROBE_FILE);
            (args.dir.clone(), path.clone(), args.dir.join(path))
        }
    };
    let plan = HdparmPlan {
        path,
        make: args.path.is_none().then_some(args.size),
        cached: args.cached,
        disk: args.disk || !args.cached,
        direct: args.direct,
    };
    let session = Session::open_at(&args.common, &root, args.path.as_ref().unwrap_or(&args.dir))?;
    if args.path.is_none() {
        session.makes([plan.path.clone()]);
    }
    if args.cached {
        session.reads_cache();
    }
    let content = session.content(session.content_spec());
    let of = if args.path.is_some() { &shown } else { &args.dir };
    let levels = read_aheads(&args.read_ahead, of)?;
    let mut outcomes = Vec::new();
    'repeats: for _ in 0..session.repeats() {
        let mut merged = Outcome::default();
        for level in &levels {
            let _set = level.set()?;
            let (plan, content, stop) = (plan.clone(), content.clone(), session.stop());
            let ended = session.block_on(move |crew| async move {
                hdparm::run(&*crew, &plan, &content, &stop).await
            });
            if session.ends_early(&outcomes)? {
                break 'repeats;
            }
            let Some(outcome) = session.ended(ended, &outcomes)? else { break 'repeats };
            let name = format!("{}{}", shown.display(), level.label());
            session.told(print(&outcome.text(&name)))?;
            merge(&mut merged, &level.prefix(), outcome.outcome());
        }
        outcomes.push(merged);
    }
    conclude(&session, "hdparm", None, outcomes)
}

fn run_dd(args: &DdArgs) -> Result<(), Failure> {
    let is_given = |name: &str| args.operands.iter().any(|operand| operand.starts_with(name));
    // Where dd would copy from the terminal to the terminal.
    if !is_given("of=") && !is_given("if=") {
        return Err(Failure::usage(NOWHERE));
    }
    let mut read =
        operands::parse(args.operands.iter().map(String::as_str)).map_err(Failure::usage)?;
    if !is_given("of=") && !matches!(read.input, Input::File(_)) {
        return Err(Failure::usage(NOWHERE));
    }
    let shares = args.common.compressible.is_some() || args.common.duplicates.is_some();
    if shares && read.input != Input::Random {
        return Err(Failure::usage(
            "--compressible and --duplicates say how random content is; say if=/dev/urandom",
        ));
    }
    resolve(&mut read, &args.dir)?;
    let copies = copies(&read, &args.block_size)?;
    let of = match (&read.input, &read.output) {
        (Input::File(path), _) | (_, Output::File(path)) => Path::new("/").join(path),
        _ => args.dir.clone(),
    };
    let measured = match &read.input {
        Input::File(_) => there(&of),
        _ => directory_of(there(&of)),
    };
    let session = Session::open_at(&args.common, Path::new("/"), measured)?;
    if let Output::File(path) = &read.output {
        session.makes([path.clone()]);
    }
    // What is there may be written over.
    if let (Output::File(path), Some(count)) = (&read.output, read.count)
        && !Path::new("/").join(path).exists()
    {
        let bytes = ByteCount(read.block.bytes().saturating_mul(count));
        session::check_fits(there(&of), bytes, "count= can be less, or of= elsewhere")?;
    }
    let spec = session.content_spec();
    let content = session.content(spec);
    let levels = read_aheads(&args.read_ahead, &of)?;
    let options = DdOptions { cold: args.cold, destructive: args.destructive };
    let mut outcomes = Vec::new();
    'repeats: for repeat in 0..session.repeats() {
        let mut merged = Outcome::default();
        for level in &levels {
            let _set = level.set()?;
            for (prefix, operands) in &copies {
                let (operands, content, stop) = (operands.clone(), content.clone(), session.stop());
                let ended = session.block_on(move |crew| async move {
                    dd::run(&*crew, &operands, options, &content, &stop).await
                });
                let Some(outcome) = session.ended(ended, &outcomes)? else { break 'repeats };
                if levels.len() * copies.len() > 1 {
                    session.told(print(&format!("{prefix}{}:\n", level.label())))?;
                }
                session.told(print(&outcome.text()))?;
                if session.ends_early(&outcomes)? {
                    break 'repeats;
                }
                if repeat == 0 {
                    outcome.warnings.iter().for_each(|warning| say(&format!("note: {warning}")));
                }
                let prefix = match copies.len() {
                    1 => level.prefix(),
                    _ => format!("{}{}_", level.prefix(), prefix.replace('=', "")),
                };
                merge(&mut merged, &prefix, outcome.outcome());
            }
        }
        outcomes.push(merged);
    }
    let content = match (&read.input, &read.output) {
        (Input::Random, Output::File(_)) => Some(spec),
        (Input::Zeros, Output::File(_)) => Some(ContentSpec { zeros: true, ..spec }),
        _ => None,
    };
    conclude(&session, "dd", content, outcomes)
}

fn conclude(
    session: &Session,
    workload: &str,
    content: Option<ContentSpec>,
    outcomes: Vec<Outcome>,
) -> Result<(), Failure> {
    let title = format!("{workload} probe");
    let tool = ToolRun {
        tool: ToolKind::Probe,
        title: &title,
        workload,
        content,
        // The command line says all of it: operands are few, and their defaults are dd's and hdparm's.
        settings: Vec::new(),
        text: None,
        table: true,
    };
    session.conclude(&tool, outcomes)
}

/// The copies that are made: one, or one for each block size, with its name.
fn copies(read: &Operands, sizes: &[String]) -> Result<Vec<(String, Operands)>, Failure> {
    if sizes.is_empty() {
        return Ok(vec![("bs".to_owned(), read.clone())]);
    }
    let all = |blocks: u64| ByteCount(blocks.saturating_mul(read.block.bytes()));
    let with = |size: &String| {
        let block = operands::block(size).map_err(Failure::usage)?;
        let blocks = |count: u64| match all(count).is_multiple_of(block) {
            true => Ok(all(count).bytes() / block.bytes()),
            false => Err(Failure::usage(format!(
                "{} are no whole number of blocks of {block}; change bs= or count=",
                all(count)
            ))),
        };
        let operands = Operands {
            block,
            count: read.count.map(blocks).transpose()?,
            skip: blocks(read.skip)?,
            seek: blocks(read.seek)?,
            ..read.clone()
        };
        Ok((format!("bs={size}"), operands))
    };
    sizes.iter().map(with).collect()
}

/// Makes the paths of the operands those of a tree over the root.
fn resolve(read: &mut Operands, dir: &Path) -> Result<(), Failure> {
    if let Input::File(path) = &mut read.input {
        *path = below_root(&absolute(&dir.join(&*path))?);
    }
    if let Output::File(path) = &mut read.output {
        let full = dir.join(&*path);
        // It need not be there, but its directory must.
        let resolved = match (full.canonicalize(), full.parent(), full.file_name()) {
            (Ok(full), ..) => full,
            (Err(_), Some(parent), Some(name)) => absolute(parent)?.join(name),
            _ => return Err(Failure::usage(format!("{}: no file", full.display()))),
        };
        *path = below_root(&resolved);
    }
    Ok(())
}

/// The whole path of something that is there and can be opened without waiting for ever.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    use std::os::unix::fs::FileTypeExt;
    let full = path.canonicalize().map_err(|error| {
        Failure::usage(format!("{}: {error}; name one that is there", path.display()))
    })?;
    let kind =
        full.metadata().map_err(|error| Failure::failed(format!("{}: {error}", full.display())))?;
    match kind.file_type().is_fifo() || kind.file_type().is_socket() {
        true => Err(Failure::usage(format!(
            "{}: a pipe or a socket; name a file or a block device",
            path.display()
        ))),
        false => Ok(full),
    }
}

fn below_root(path: &Path) -> PathBuf {
    path.strip_prefix("/").map_or_else(|_| path.to_owned(), Path::to_owned)
}

/// Read-aheads to go through, of the device on which `path` lies; one that changes nothing where none
/// are said.
fn read_aheads(sizes: &[ByteCount], path: &Path) -> Result<Vec<ReadAhead>, Failure> {
    match sizes {
        [] => Ok(vec![ReadAhead::unchanged()]),
        sizes => sizes.iter().map(|size| ReadAhead::of(path, *size)).collect(),
    }
}

/// Adds figures with a prefix.
fn merge(merged: &mut Outcome, prefix: &str, outcome: Outcome) {
    merged.warnings.extend(outcome.warnings);
    merged.warnings.sort_unstable();
    merged.warnings.dedup();
    let metrics = outcome.metrics.into_iter();
    merged.metrics.extend(metrics.map(|(name, value)| (format!("{prefix}{name}"), value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_copied_with_each_block_size() {
        let read = operands::parse(["of=x", "bs=1M", "count=4", "seek=1"]).expect("they are right");
        let sizes = ["64k".to_owned(), "2M".to_owned()];
        let Err(error) = copies(&read, &sizes) else {
            panic!("1 MiB is no whole number of 2 MiB");
        };
        assert!(error.message.contains("no whole number of blocks of 2 MiB"), "{}", error.message);
        let Ok(made) = copies(&read, &sizes[..1]) else {
            panic!("it fits");
        };
        assert_eq!(made[0].0, "bs=64k");
        assert_eq!((made[0].1.count, made[0].1.seek), (Some(64), 16));
    }
}
