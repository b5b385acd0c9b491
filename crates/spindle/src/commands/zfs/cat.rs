//! `spindle zfs cat`: files, written to standard output one after the other.
//!
//! A file's pieces are written as they lie in memory. A reader that has seen enough (`| head`) ends the command, and
//! is no failure. What can't be read ends a file: what follows it would stand at the wrong place.

use super::pieces::{Piece, Pieces};
use super::source::{Source, ViewArgs};
use crate::output::{Failure, say};
use attach::pools::PoolPlace;
use attach::pools::Session;
use clap::Args;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use zfs_format::zpl::directory::FileKind;

/// Zeros that are written at once for a hole.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

// What `cat` takes.
#[derive(Args)]
pub struct CatArgs {
    /// The files
    #[arg(required = true, value_name = "DATASET[@SNAPSHOT]:PATH")]
    files: Vec<OsString>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CatArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view.view())?;
    let failed = |error| Failure::failed(format!("writing to standard output: {error}"));
    // Not through std's buffer, which would look for the last line end of each piece.
    let out = std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    let mut out = File::from(out);
    let mut worst = None;
    for argument in &args.files {
        let source = Source::find(&session, argument)?;
        match write_out(&session, source, &mut out) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure) => {
                if let Some(before) = worst.replace(failure) {
                    let Failure { message, .. } = before;
                    say(&format!("spindle: {message}"));
                }
            }
        }
    }
    worst.map_or(Ok(()), Err)
}

/// Writes a file out; false where nobody reads any more.
fn write_out(session: &Session, source: Source, out: &mut File) -> Result<bool, Failure> {
    let node = source.node(session, true)?;
    match node.attributes.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(source.failed(&source.path, "it is a directory")),
        kind => {
            let text = format!("it is no file, but a {}", super::show::kind(kind));
            return Err(source.failed(&source.path, text));
        }
    }
    let rt = session.rt();
    let mut out =
        out.try_clone().map_err(|error| Failure::failed(format!("standard output: {error}")))?;
    session.wait(async move {
        let mut pieces = Pieces::new(&rt, node.dnode(), 0, node.attributes.size);
        while let Some((at, piece)) = pieces.next().await {
            let written = match piece {
                Piece::Data(data) => {
                    data.pieces().iter().try_for_each(|piece| out.write_all(piece.bytes()))
                }
                Piece::Hole(len) => write_zeros(&mut out, len),
                Piece::Damaged(_, error) => {
                    let text = format!("{error}; it was written up to byte {at}");
                    return Err(source.failed(&source.path, text));
                }
            };
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
                Err(error) => {
                    return Err(Failure::failed(format!("writing to standard output: {error}")));
                }
            }
        }
        Ok(true)
    })
}

/// Writes so many zeros.
pub(super) fn write_zeros(out: &mut impl Write, mut len: u64) -> std::io::Result<()> {
    while len > 0 {
        let part = len.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..part as usize])?;
        len -= part;
    }
    Ok(())
}
