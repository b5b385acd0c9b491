//! `spindle zfs dump`: a volume's whole content, written to a file or to standard output.
//!
//! What the pool does not store becomes holes in a file. As `md dump` has it, a file that is there is not overwritten
//! without being told, and a file gets its name when it is whole. A block that can't be read ends it, or with
//! `--skip-damaged` is left as zeros and told of.

use super::cat::write_zeros;
use super::pieces::{DamagedRun, Piece, Pieces};
use super::source::ViewArgs;
use crate::commands::md::{Progress, Sink, told};
use crate::output::{Failure, say};
use attach::pools::PoolPlace;
use attach::pools::Session;
use clap::Args;
use std::path::PathBuf;
use stdx::ByteCount;
use zfs_format::objset::ObjsetKind;

// What `dump` takes.
#[derive(Args)]
pub struct DumpArgs {
    /// The volume
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    volume: String,
    /// Where to write it; - is standard output
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Overwrite a file or block device that is there
    #[arg(long, visible_alias = "force")]
    overwrite: bool,
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
pub fn run(args: &DumpArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view.view())?;
    let of = session.dataset(&args.volume)?;
    if of.objset.root().kind != ObjsetKind::Volume {
        let text = "it is a file system: spindle zfs cp -r copies its files";
        return Err(Failure::usage(format!("{}: {text}", of.name())));
    }
    let (_, volume) = session.volume(&args.volume)?;
    if session.pools.disks().lies_under(&args.file) {
        let text = format!("{} is one of the devices: name another file", args.file.display());
        return Err(Failure::usage(text));
    }
    let mut sink = match args.file.as_os_str() == "-" {
        true => Sink::stream()?,
        false => Sink::open(&args.file, args.overwrite)?,
    };
    let (path, rt, name) = (args.file.clone(), session.rt(), of.name().to_owned());
    let skips = args.skip_damaged;
    let done = session.wait(async move {
        let size = volume.size().bytes();
        let wrong = |error: std::io::Error| Sink::wrong(&path, &error);
        if let Some(room) = sink.check_room(ByteCount(size)).map_err(wrong)? {
            say(&format!("{}: {room}", path.display()));
        }
        let progress = Progress::new(size);
        let mut pieces = Pieces::new(&rt, volume.data(), 0, size);
        let mut damaged = DamagedRun::default();
        let tell = |run: Option<String>| {
            run.iter().for_each(|run| say(&format!("spindle: {name}: {run}")));
        };
        while let Some((at, piece)) = pieces.next().await {
            let len = piece.len();
            match piece {
                Piece::Data(data) => sink.write(&data).map_err(wrong)?,
                Piece::Hole(len) => sink.skip(len, write_zeros).map_err(wrong)?,
                Piece::Damaged(_, error) if !skips => {
                    let text = "--skip-damaged goes on with zeros in its place";
                    return Err(Failure::failed(format!("{name}: {error}; {text}")));
                }
                Piece::Damaged(len, error) => {
                    tell(damaged.add(at, len, error));
                    sink.skip(len, write_zeros).map_err(wrong)?;
                }
            }
            progress.advance(len);
        }
        tell(damaged.end());
        sink.finish(size).map_err(wrong)?;
        progress.finish();
        say(&format!("{name}: {}", told(size, &path)));
        Ok(damaged.lost())
    });
    match done {
        Ok(0) => Ok(()),
        Ok(lost) => Err(Failure::failed(format!(
            "{}: {lost} bytes are zeros for what can't be read",
            of.name()
        ))),
        Err(failure) => Err(failure),
    }
}
