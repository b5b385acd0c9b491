//! `spindle zfs load`: a volume filled from a file or from standard input, as `zfs dump` writes one out.
//!
//! Holes of the file, and stretches of zeros, are freed in the volume; what lies behind the file's end too. So the
//! volume holds what the file does, and zeros after it. A file that is larger than the volume is refused before anything is
//! written; of standard input that is seen only at its end. Groups of the pool are committed as for any other writer, so a
//! load that is cut off leaves a part of it there.
//!
//! Who [holds](attach::pools::running) the pool lends the volume, by NBD: what is read is this process's.

use crate::commands::md::Progress;
use crate::output::{Failure, say};
use ::zfs::dsl::property::view::Kind;
use ::zfs::spa::config::LabelState;
use ::zfs::spa::live::Live;
use ::zfs::zvol::live::LiveVolume;
use attach::Error;
use attach::pools::running::client;
use attach::pools::{LivePool, PoolPlace, Pools, pool_of};
use clap::Args;
use futures_util::future::join;
use host::identity::overlap;
use rt::sync::oneshot;
use rt::{BufMut, Device, DeviceRef, Request};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Bytes that are read and written at once.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of a sector: the end of a file is filled up to it.
const SECTOR: u64 = 512;

// What `load` takes.
#[derive(Args)]
pub struct LoadArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The volume
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// What to fill it with; - is standard input. What it doesn't reach becomes zeros
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
}

/// Where the bytes come from.
struct Source {
    from: Box<dyn Read>,
    /// The file, where it is one that can have holes.
    file: Option<File>,
    /// Its length, where that is known.
    len: Option<u64>,
    name: String,
}

impl Source {
    fn open(path: &Path) -> Result<Source, Failure> {
        if path.as_os_str() == "-" {
            let from = Box::new(std::io::stdin());
            return Ok(Source { from, file: None, len: None, name: "standard input".into() });
        }
        let name = path.display().to_string();
        let failed = |error: std::io::Error| Failure::usage(format!("reading {name}: {error}"));
        let file = File::open(path).map_err(failed)?;
        let kind = file.metadata().map_err(failed)?;
        if kind.is_dir() {
            return Err(Failure::usage(format!("{name} is a folder: name a file")));
        }
        let from = Box::new(file.try_clone().map_err(failed)?);
        let (len, file) = match kind.is_file() {
            true => (Some(kind.len()), Some(file)),
            // A disk tells its length by its end, a pipe not at all.
            false => match rustix::fs::seek(&file, SeekFrom::End(0)) {
                Ok(len) => {
                    let back = rustix::fs::seek(&file, SeekFrom::Start(0));
                    back.map_err(|error| failed(error.into()))?;
                    (Some(len), None)
                }
                Err(_) => (None, None),
            },
        };
        Ok(Source { from, file, len, name })
    }

    fn failed(&self, error: impl std::fmt::Display) -> Failure {
        Failure::failed(format!("reading {}: {error}", self.name))
    }

    /// Where the next data begins from a place on; the place itself where that is not known. The file is read on from there.
    fn next_data(&self, at: u64) -> Result<u64, Failure> {
        let (Some(file), Some(len)) = (&self.file, self.len) else { return Ok(at) };
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data - data % SECTOR,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => len,
            Err(_) => at,
        };
        let data = data.max(at).min(len);
        rustix::fs::seek(file, SeekFrom::Start(data)).map_err(|error| self.failed(error))?;
        Ok(data)
    }

    /// As many bytes as there are, up to the buffer's length.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        while done < into.len() {
            match self.from.read(&mut into[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(done)
    }
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &LoadArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let name = args.volume.clone();
    if name.contains('@') {
        return Err(Failure::usage(format!("{name}: a snapshot never changes")));
    }
    let source = Source::open(&args.file)?;
    let pool = match LivePool::of_dataset(place, &name, args.force) {
        Err(Error::PoolHeld { .. }) => return load_lent(args, place, source),
        other => other?,
    };
    check_apart(args, &source, &pool.pools)?;
    let absent = || Failure::failed(format!("cannot open '{name}': dataset does not exist"));
    let node = pool.node(&name)?.ok_or_else(absent)?;
    if node.kind != Kind::Volume {
        let text = format!("{name}: it is a file system: zfs cp copies files");
        return Err(Failure::usage(text));
    }
    let live = Rc::clone(&pool.live);
    pool.begin()?;
    let done = pool.pools.wait(async move {
        let volume = LiveVolume::open(&live, &node).await.map_err(Failure::failed)?;
        check_fits(&source, &name, &volume)?;
        beside_groups(&live, fill(&volume, source)).await
    });
    let closed = pool.close(LabelState::Exported).map_err(Failure::from);
    let done = done?;
    closed?;
    tell(args, done);
    Ok(())
}

/// The same with a volume of a pool that another process holds, which lends it.
fn load_lent(args: &LoadArgs, place: &PoolPlace<'_>, source: Source) -> Result<(), Failure> {
    let name = args.volume.clone();
    let pools = Pools::find(place)?;
    check_apart(args, &source, &pools)?;
    let absent = || Error::NoPool { name: name.clone() };
    let found = pools.named(pool_of(&name))?.ok_or_else(absent)?;
    let lent = client::volume(&pools, found, &name)?;
    let lent = lent.ok_or_else(|| Error::HolderEnds { name: name.clone() })?;
    let done = pools.wait(async move {
        check_fits(&source, &name, &lent)?;
        let done = fill(&lent, source).await;
        lent.disconnect().await;
        done
    });
    tell(args, done?);
    Ok(())
}

fn tell(args: &LoadArgs, (bytes, from): (u64, String)) {
    say(&format!("{}: {} loaded from {from}", args.volume, ByteCount(bytes)));
}

/// Refuses a device of the pool as what it is filled with.
fn check_apart(args: &LoadArgs, source: &Source, pools: &Pools) -> Result<(), Failure> {
    let is_it = |file: &DeviceRef| overlap(Path::new(&*file.name()), &args.file);
    if source.len.is_some() && pools.disks().files.iter().any(is_it) {
        let text = format!("{} is one of the devices: name another file", args.file.display());
        return Err(Failure::usage(text));
    }
    Ok(())
}

fn check_fits(source: &Source, name: &str, volume: &dyn Device) -> Result<(), Failure> {
    let size = volume.geometry().capacity;
    if let Some(len) = source.len.map(ByteCount).filter(|len| *len > size) {
        let text = format!("{}: its {len} don't fit {name}, which has {size}", source.name);
        return Err(Failure::usage(format!("{text}; zfs set volsize= gives it more")));
    }
    Ok(())
}

/// Does work while groups are committed.
async fn beside_groups<T>(
    live: &Live,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let (ends, end) = oneshot::channel::<()>();
    let work = async {
        let done = work.await;
        drop(ends);
        done
    };
    let until = async {
        // Whoever ends it drops the other end.
        let _ = end.await;
    };
    let (done, kept) = join(work, live.keep_synced(until)).await;
    kept.map_err(Failure::failed)?;
    done
}

/// Fills the volume; says how many bytes came from where.
async fn fill(volume: &dyn Device, mut source: Source) -> Result<(u64, String), Failure> {
    let size = volume.geometry().capacity.bytes();
    let progress = Progress::new(source.len.unwrap_or(size));
    let wrong = |error: rt::IoError| Failure::failed(error.to_string());
    let mut at = 0;
    loop {
        let data = source.next_data(at)?;
        free(volume, at..data).await?;
        progress.advance(data - at);
        at = data;
        let mut piece = BufMut::zeroed(PIECE_BYTES);
        let count = source.read(&mut piece)?;
        if count as u64 > size - at {
            let text = format!("{} holds more than the volume's {}", source.name, ByteCount(size));
            return Err(Failure::failed(text));
        }
        // Behind its end the sector is zeros.
        let len = (count as u64).next_multiple_of(SECTOR) as usize;
        if len > 0 {
            piece.truncate(len);
            let end = at + len as u64;
            match piece.iter().all(|byte| *byte == 0) {
                true => free(volume, at..end).await?,
                false => {
                    let request = Request::write(Offset(at), piece.freeze());
                    volume.submit(request).await.map_err(wrong)?;
                }
            }
        }
        progress.advance(count as u64);
        if count < PIECE_BYTES {
            let end = at + count as u64;
            free(volume, at + len as u64..size).await?;
            volume.submit(Request::flush()).await.map_err(wrong)?;
            progress.finish();
            return Ok((end, source.name));
        }
        at += count as u64;
    }
}

/// A stretch is zeros, and takes no space.
async fn free(volume: &dyn Device, range: std::ops::Range<u64>) -> Result<(), Failure> {
    if range.is_empty() {
        return Ok(());
    }
    let len = ByteCount(range.end - range.start);
    let done = volume.submit(Request::write_zeroes(Offset(range.start), len)).await;
    done.map(|_| ()).map_err(|error| Failure::failed(error.to_string()))
}
