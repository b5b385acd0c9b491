//! A volume of a pool that is open for writing in this process, and what writing to it takes.

use super::rig::{Layout, Order, POOL};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use host::{Clock, FileDevice, FileOptions, HostRuntime, ReactorKind};
use rt::filter::delay::{Delay, Slowness};
use rt::{BufMut, Device, DeviceRef, Request, Rt};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stdx::{Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::spa::{self, OpenOptions, Spa};
use zfs::zvol::live::LiveVolume;

/// Requests under way at a time: what a client of a served volume has.
const DEPTH: usize = 32;
/// Writes of each writer in `group-commit`.
const WRITES_EACH: u64 = 200;
/// What each request of a slow device takes.
const LATENCY: Duration = Duration::from_millis(1);
const SLOW: Slowness = Slowness { latency: LATENCY, bytes_per_second: None };
/// Bytes of a block of the log that has one write.
pub(super) const LOG_BLOCK_BYTES: u64 = 12 << 10;
/// The same of the longest.
const LOG_BLOCK_BYTES_MAX: u64 = 128 << 10;

/// Seconds of the clock and of processors.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub(super) wall: f64,
    pub(super) processor: f64,
}

/// Numbers by a seed, and the calendar's clock.
struct Seeded(Cell<Prng>);

impl Fresh for Seeded {
    fn number(&self) -> u64 {
        let mut random = self.0.replace(Prng::new(0));
        let number = random.next_u64() | 1;
        self.0.set(random);
        number
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// See the [module](self).
pub(super) struct OpenVolume {
    runtime: HostRuntime,
    live: Rc<Live>,
    volume: LiveVolume,
}

impl OpenVolume {
    /// Opens what was made in a folder.
    pub(super) fn open(folder: &Path, disks: u64) -> Result<OpenVolume, String> {
        Self::open_over(folder, disks, |_, device| device)
    }

    /// The same on devices whose requests take a millisecond each.
    pub(super) fn open_slow(folder: &Path, disks: u64) -> Result<OpenVolume, String> {
        Self::open_over(folder, disks, |rt, device| Delay::new(device, rt, SLOW))
    }

    fn open_over(
        folder: &Path,
        disks: u64,
        cover: impl Fn(&Rt, DeviceRef) -> DeviceRef,
    ) -> Result<OpenVolume, String> {
        let runtime = HostRuntime::with_clock(ReactorKind::Auto, Clock::start())
            .map_err(|error| error.to_string())?;
        let rt = runtime.rt();
        let devices = devices(&runtime, folder, disks)?;
        let devices: Vec<DeviceRef> = devices.into_iter().map(|one| cover(&rt, one)).collect();
        let opened = runtime.runtime().block_on(async move { open(&rt, &devices).await });
        let (live, volume) = opened.map_err(|error| error.to_string())??;
        Ok(OpenVolume { runtime, live, volume })
    }

    /// Runs work while groups are committed as they fill, then commits what is left; says what all of it took.
    fn measured<F: Future<Output = Result<(), String>> + 'static>(
        &self,
        work: F,
    ) -> Result<Spent, String> {
        let (live, rt) = (Rc::clone(&self.live), self.runtime.rt());
        let done = self.runtime.runtime().block_on(async move {
            let (end, ended) = rt::sync::oneshot::channel::<()>();
            let kept = Rc::clone(&live);
            let (start, processor) = (Instant::now(), rt.processor_time());
            let keeping = rt.spawn(async move {
                let until = async {
                    // Whoever ends it drops the other end.
                    let _ = ended.await;
                };
                kept.keep_synced(until).await
            });
            work.await?;
            live.make_durable().await.map_err(|error| error.to_string())?;
            let processor = (rt.processor_time() - processor).as_secs_f64();
            let wall = start.elapsed().as_secs_f64();
            drop(end);
            keeping.await.map_err(|error| error.to_string())?;
            live.close(LabelState::Exported).await.map_err(|error| error.to_string())?;
            Ok(Spent { wall, processor })
        });
        done.map_err(|error| error.to_string())?
    }

    /// Writes blocks of the volume as the peer does, and waits until they are in the pool.
    pub(super) fn write(self, order: Order, count: u64) -> Result<Spent, String> {
        let volume = self.volume.clone();
        self.measured(async move { write(&volume, order, count).await })
    }

    /// So many writers, each of which waits for its own writes, on devices whose requests take [`LATENCY`]: how many seconds
    /// [`WRITES_EACH`] writes of each took.
    pub(super) fn group_commit(self, writers: u64) -> Result<f64, String> {
        let volume = self.volume.clone();
        let took = Rc::new(Cell::new(0.0));
        let told = Rc::clone(&took);
        self.measured(async move {
            let block = volume.volume().block().bytes();
            let source = source(block);
            // A log that is not there yet begins with a group; that is not measured.
            volume
                .submit(Request::write(Offset(0), BufMut::copy_of(&source).freeze()))
                .await
                .map_err(|error| error.to_string())?;
            volume.make_durable().await.map_err(|kind| format!("{kind:?}"))?;
            let start = Instant::now();
            let all = (0..writers).map(|writer| {
                let (volume, source) = (volume.clone(), source.clone());
                async move {
                    for n in 0..WRITES_EACH {
                        let at = (writer * WRITES_EACH + n) * block;
                        let write = Request::write(Offset(at), BufMut::copy_of(&source).freeze());
                        volume.submit(write).await.map_err(|error| error.to_string())?;
                        volume.make_durable().await.map_err(|kind| format!("{kind:?}"))?;
                    }
                    Ok::<_, String>(())
                }
            });
            for done in join_all(all).await {
                done?;
            }
            told.set(start.elapsed().as_secs_f64());
            Ok(())
        })?;
        Ok(took.get())
    }
}

/// Opens the volume of the pool on these devices.
pub(super) async fn open(rt: &Rt, devices: &[DeviceRef]) -> Result<(Rc<Live>, LiveVolume), String> {
    let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(1))));
    let found = spa::find(devices).await.pools.pop().ok_or("no pool was found")?;
    let spa = Spa::open(rt, &found, OpenOptions::default()).await;
    let spa = Rc::new(spa.map_err(|error| error.to_string())?);
    let live = Live::open(spa, &fresh).await.map_err(|error| error.to_string())?;
    let live = Rc::new(live);
    let name = format!("{POOL}/v");
    let catalog = live.spa().catalog(0).await.map_err(|error| error.to_string())?;
    let node = catalog.find(&name).await.map_err(|error| error.to_string())?;
    let node = node.ok_or("the volume is not there")?;
    let volume = LiveVolume::open(&live, &node).await.map_err(|error| error.to_string())?;
    Ok((live, volume))
}

/// Writes blocks of a volume as the peer does, and waits until they are answered.
pub(super) async fn write(volume: &LiveVolume, order: Order, count: u64) -> Result<(), String> {
    let block = volume.volume().block().bytes();
    let (blocks, source) = (volume.volume().size().bytes() / block, source(block));
    let mut state = 1_u64;
    let mut under_way = FuturesUnordered::new();
    for n in 0..count {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = if order == Order::Stream { n } else { state >> 33 };
        let at = number % blocks * block;
        let mut bytes = BufMut::copy_of(&source);
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        under_way.push(volume.submit(Request::write(Offset(at), bytes.freeze())));
        if order == Order::Durable {
            let written = under_way.next().await.transpose();
            written.map_err(|error| error.to_string())?;
            volume.make_durable().await.map_err(|kind| format!("{kind:?}"))?;
        } else if under_way.len() == DEPTH {
            let written = under_way.next().await.transpose();
            written.map_err(|error| error.to_string())?;
        }
    }
    while let Some(written) = under_way.next().await {
        written.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Seconds in which devices whose requests take [`LATENCY`] take as many bytes as often as each writer has writes, one after
/// another, with a flush after each: what a log on them can't be faster than. Their contents are lost.
pub(super) fn flushes(folder: &Path, disks: u64, bytes: u64) -> Result<f64, String> {
    let runtime = HostRuntime::with_clock(ReactorKind::Auto, Clock::start())
        .map_err(|error| error.to_string())?;
    let rt = runtime.rt();
    let slow = |device| -> DeviceRef { Delay::new(device, &rt, SLOW) };
    let devices: Vec<_> = devices(&runtime, folder, disks)?.into_iter().map(slow).collect();
    let done = runtime.runtime().block_on(async move {
        let start = Instant::now();
        for n in 0..WRITES_EACH {
            let mut writes = Vec::new();
            let mut from = 0;
            while from < bytes {
                let len = (bytes - from).min(LOG_BLOCK_BYTES_MAX);
                let piece = BufMut::zeroed(len as usize).freeze();
                writes.push(Request::write(Offset((1 << 20) + n * bytes + from), piece));
                from += len;
            }
            for requests in [writes, vec![Request::flush()]] {
                let each = requests.iter().flat_map(|request| {
                    devices.iter().map(|device| device.submit(request.clone()))
                });
                for done in join_all(each).await {
                    done.map_err(|error| error.to_string())?;
                }
            }
        }
        Ok::<_, String>(start.elapsed().as_secs_f64())
    });
    done.map_err(|error| error.to_string())?
}

fn devices(runtime: &HostRuntime, folder: &Path, disks: u64) -> Result<Vec<DeviceRef>, String> {
    let mut devices: Vec<DeviceRef> = Vec::new();
    for n in 0..disks {
        let path = folder.join(format!("disk{n}.raw"));
        let device = FileDevice::open(&runtime.host(), &path, FileOptions::default());
        devices.push(Rc::new(device.map_err(|error| error.to_string())?));
    }
    Ok(devices)
}

/// Bytes that don't compress.
pub(super) fn source(len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Prng::new(7).fill(&mut bytes);
    bytes
}

/// The same blocks written in order to the files by the same devices, to each what it has of a block: what the disks take.
pub(super) fn bare(folder: &Path, layout: &Layout, count: u64) -> Result<Spent, String> {
    let disks = layout.disks;
    let piece = match layout.parity {
        0 => layout.block_bytes,
        parity => layout.block_bytes / (disks - parity),
    };
    let runtime = HostRuntime::with_clock(ReactorKind::Auto, Clock::start())
        .map_err(|error| error.to_string())?;
    let devices = devices(&runtime, folder, disks)?;
    let rt = runtime.rt();
    let done = runtime.runtime().block_on(async move {
        let source = source(piece);
        let (start, processor) = (Instant::now(), rt.processor_time());
        let mut under_way = FuturesUnordered::new();
        for n in 0..count {
            let bytes = BufMut::copy_of(&source).freeze();
            for device in &devices {
                let write = Request::write(Offset(n * piece), bytes.clone());
                under_way.push(device.submit(write));
            }
            while under_way.len() >= DEPTH {
                let written = under_way.next().await.transpose();
                written.map_err(|error| error.to_string())?;
            }
        }
        while let Some(written) = under_way.next().await {
            written.map_err(|error| error.to_string())?;
        }
        let processor = (rt.processor_time() - processor).as_secs_f64();
        Ok(Spent { wall: start.elapsed().as_secs_f64(), processor })
    });
    done.map_err(|error| error.to_string())?
}
