//! `spindle zfs dump`: a volume's whole content, written to a file or to standard output.
//!
//! What the pool does not store becomes holes in a file. As `md dump` has it, a file that is there is not overwritten
//! without being told, and one that was begun and not ended is removed. A block that can't be read ends it, or with
//! `--skip-damaged` is left as zeros and told of.

use super::cat::write_zeros;
use super::pieces::{Piece, Pieces};
use super::source::{Session, ViewArgs};
use crate::commands::md::{Progress, Sink};
use crate::commands::{Failure, say};
use clap::Args;
use std::path::{Path, PathBuf};
use zfs_format::objset::ObjsetKind;

/// What `dump` takes.
#[derive(Args)]
pub struct DumpArgs {
    /// The volume
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    volume: String,
    /// Where to write it; - is standard output
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Overwrite a file or block device that is there
    #[arg(long, visible_alias = "overwrite")]
    force: bool,
    /// Go on past what can't be read, with zeros in its place; it is listed at the end
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &DumpArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let session = Session::open(paths, &args.view)?;
    let of = session.dataset(&args.volume)?;
    if of.objset.root().kind != ObjsetKind::Volume {
        let text = "it is a file system: spindle zfs cp -r copies its files";
        return Err(Failure::usage(format!("{}: {text}", of.name())));
    }
    let (_, volume) = session.volume(&args.volume)?;
    let is_device = |path: &Path| {
        let files = &session.pools.disks().files;
        let same = std::fs::canonicalize(path).ok();
        same.is_some() && files.iter().any(|file| std::fs::canonicalize(&*file.name()).ok() == same)
    };
    if is_device(&args.file) {
        let text = format!("{} is one of the devices: name another file", args.file.display());
        return Err(Failure::usage(text));
    }
    let is_stream = args.file.as_os_str() == "-";
    let was_there = args.file.exists();
    let mut sink = match is_stream {
        true => Sink::Stream(std::io::stdout()),
        false => Sink::open(&args.file, args.force)?,
    };
    let (path, rt, name) = (args.file.clone(), session.rt(), of.name().to_owned());
    let skips = args.skip_damaged;
    let done = session.wait(async move {
        let size = volume.size().bytes();
        let wrong = |error| Failure::failed(format!("writing {}: {error}", path.display()));
        let progress = Progress::new(size);
        let mut pieces = Pieces::new(&rt, volume.data(), 0, size);
        let mut lost = 0;
        while let Some((at, piece)) = pieces.next().await {
            let len = piece.len();
            match piece {
                Piece::Data(data) => sink.write(&data).map_err(wrong)?,
                Piece::Hole(len) => skip(&mut sink, len).map_err(wrong)?,
                Piece::Damaged(_, error) if !skips => {
                    let text = "--skip-damaged goes on with zeros in its place";
                    return Err(Failure::failed(format!("{name}: {error}; {text}")));
                }
                Piece::Damaged(len, error) => {
                    lost += len;
                    say(&format!(
                        "spindle: {name}: bytes {at} to {} can't be read: {error}",
                        at + len
                    ));
                    skip(&mut sink, len).map_err(wrong)?;
                }
            }
            progress.advance(len);
        }
        sink.finish(size).map_err(wrong)?;
        progress.finish();
        Ok(lost)
    });
    match done {
        Ok(0) => Ok(()),
        Ok(lost) => Err(Failure::failed(format!(
            "{}: {lost} bytes are zeros for what can't be read",
            of.name()
        ))),
        Err(failure) => {
            if !is_stream && !was_there {
                // What can't be removed stays; the error says that it is not whole.
                let _ = std::fs::remove_file(&args.file);
            }
            Err(failure)
        }
    }
}

/// Leaves so many bytes as zeros.
fn skip(sink: &mut Sink, len: u64) -> std::io::Result<()> {
    use std::io::Seek;
    match sink {
        Sink::Stream(out) => write_zeros(out, len),
        Sink::Place { file, sparse: false } => write_zeros(file, len),
        Sink::Place { file, sparse: true } => {
            file.seek(std::io::SeekFrom::Current(i64::try_from(len).unwrap_or(i64::MAX))).map(drop)
        }
    }
}
