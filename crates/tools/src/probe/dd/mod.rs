//! `dd`: reads a block, writes it, and so on; then it says how long that took.
//!
//! **Rules**, as GNU `dd` has them.
//!
//! 1. One block at a time: it is read whole, then written. The time runs from the first read to the end
//!    of the last write, and of the sync that `conv=fsync` or `conv=fdatasync` ask for.
//! 2. The output is cut where writing begins, unless `conv=notrunc`.
//! 3. A last block that is shorter than the others counts as partial; past the cache it is written
//!    through the cache, as it fits no alignment.
//! 4. `/dev/zero`, `/dev/urandom` and `/dev/null` are not opened: zeros are made for each block, as the
//!    kernel would; random bytes are the load's [content](workload::content), which costs less than the
//!    kernel's, and is what to take where something below compresses.

pub mod operands;

use super::figures::{binary, decimal, seconds};
use super::{ProbeError, opening};
use operands::{Conversions, Input, Operands, Output};
use rt::{FileKind, FileRef, OpenHow, Request, SgList};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Offset};
use workload::blocks::Blocks;
use workload::content::Content;
use workload::crew::{Calls, Crew, Place, start};
use workload::io_failure::IoFailure;
use workload::outcome::Outcome;

/// Tells its content from that of other loads.
const WRITER: u64 = (1 << 24) - 4;

/// What is asked beside the operands.
#[derive(Clone, Copy, Debug, Default)]
pub struct DdOptions {
    /// Drop the input's cache before.
    pub cold: bool,
    /// The output may be a block device.
    pub destructive: bool,
}

/// What a copy gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DdOutcome {
    /// Whole blocks and partial ones that were read.
    pub records_in: (u64, u64),
    /// Whole blocks and partial ones that were written.
    pub records_out: (u64, u64),
    /// Bytes written.
    pub bytes: ByteCount,
    /// In this time.
    pub time: Duration,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

/// Copies. A raised `stop` ends it as an interrupt ends `dd`: with what was done until then.
///
/// # Errors
/// [`ProbeError`]
pub async fn run(
    crew: &dyn Crew,
    operands: &Operands,
    options: DdOptions,
    content: &Content,
    stop: &Arc<AtomicBool>,
) -> Result<DdOutcome, ProbeError> {
    let (operands, content, stop) = (operands.clone(), content.clone(), Arc::clone(stop));
    start(crew, "probe dd", Calls::Blocking, move |place| {
        copy(operands, options, content, stop, place)
    })?
    .await?
}

/// Where blocks come from.
enum From {
    Zeros,
    Random(Blocks),
    File(FileRef),
}

/// Where they go.
enum To {
    Nowhere,
    File {
        file: FileRef,
        /// Through the cache, for a block that fits no alignment; made when it is needed.
        tail: Option<FileRef>,
    },
}

async fn copy(
    operands: Operands,
    options: DdOptions,
    content: Content,
    stop: Arc<AtomicBool>,
    place: Place,
) -> Result<DdOutcome, ProbeError> {
    let block = operands.block;
    let mut outcome = DdOutcome::default();
    let mut from = match &operands.input {
        Input::Zeros => {
            if matches!(operands.output, Output::File(_)) {
                let warning = "zeros are written; what compresses or stores sparsely below makes that \
                               too fast: if=/dev/urandom writes random bytes";
                outcome.warnings.push(warning.to_owned());
            }
            From::Zeros
        }
        Input::Random => From::Random(Blocks::new(&content, WRITER, block.as_usize())),
        Input::File(path) => {
            let how = OpenHow::read().with_direct(operands.direct_in);
            let opened = place.tree.open(path, how).await;
            let file = opened.map_err(|error| opening(error, "iflag=direct"))?;
            fits(&file, block)?;
            if options.cold {
                file.drop_cache().await.map_err(IoFailure::from)?;
            }
            From::File(file)
        }
    };
    let mut to = open_output(&operands, options, &place).await?;
    let rt = place.rt.clone();
    let began = rt.now();
    let limit = operands.count.unwrap_or(u64::MAX);
    let mut number = 0;
    while number < limit && !stop.load(Ordering::Relaxed) {
        let data: SgList = match &mut from {
            From::Zeros => rt::Buf::zeros(block.as_usize()).into(),
            From::Random(blocks) => blocks.next().into(),
            From::File(file) => {
                let Some(offset) = place_of(operands.skip, number, block) else { break };
                let data = file.submit(Request::read(offset, block)).await;
                data.map_err(IoFailure::from)?
            }
        };
        let len = ByteCount(data.len() as u64);
        if len.is_zero() {
            break;
        }
        let is_whole = len == block;
        count(&mut outcome.records_in, is_whole);
        let Some(offset) = place_of(operands.seek, number, block) else { break };
        write(&mut to, &operands, &place, offset, data).await?;
        count(&mut outcome.records_out, is_whole);
        outcome.bytes += len;
        number += 1;
        if !is_whole {
            // Of a file that is read whole blocks at a time, only the last is partial.
            break;
        }
    }
    if let To::File { file, .. } = &to {
        match operands.conversions {
            Conversions { fsync: true, .. } => file.sync().await.map_err(IoFailure::from)?,
            Conversions { fdatasync: true, .. } => {
                file.submit(Request::flush()).await.map_err(IoFailure::from)?;
            }
            _ => {}
        }
    }
    outcome.time = rt.now().since(began);
    if stop.load(Ordering::Relaxed) {
        outcome.warnings.push("stopped before its end".to_owned());
    }
    Ok(outcome)
}

fn count(records: &mut (u64, u64), is_whole: bool) {
    match is_whole {
        true => records.0 += 1,
        false => records.1 += 1,
    }
}

/// Where block `number` lies, `skipped` blocks from the start; `None` beyond what a file can have.
fn place_of(skipped: u64, number: u64, block: ByteCount) -> Option<Offset> {
    let place = skipped.checked_add(number)?.checked_mul(block.bytes())?;
    (place <= i64::MAX as u64 - block.bytes()).then_some(Offset(place))
}

fn fits(file: &FileRef, block: ByteCount) -> Result<(), ProbeError> {
    match block.is_multiple_of(file.alignment()) {
        true => Ok(()),
        false => Err(ProbeError::Misaligned {
            file: file.name().to_string(),
            alignment: file.alignment().bytes(),
            block: block.bytes(),
        }),
    }
}

async fn open_output(
    operands: &Operands,
    options: DdOptions,
    place: &Place,
) -> Result<To, ProbeError> {
    let Output::File(path) = &operands.output else {
        return Ok(To::Nowhere);
    };
    let is_device = match place.tree.status(path).await {
        Ok(status) => status.kind == FileKind::BlockDevice,
        // Not there yet, or opening it says better what is wrong.
        Err(_) => false,
    };
    if is_device && !options.destructive {
        return Err(ProbeError::Device(path.clone()));
    }
    let Conversions { notrunc, nocreat, excl, .. } = operands.conversions;
    let how = OpenHow {
        write: true,
        create: !nocreat && !is_device,
        exclusive: excl,
        truncate: !notrunc && !is_device && operands.seek == 0,
        direct: operands.direct_out,
        durable_writes: operands.dsync_out,
        random: false,
    };
    let opened = place.tree.open(path, how).await;
    let file = opened.map_err(|error| opening(error, "oflag=direct"))?;
    fits(&file, operands.block)?;
    if !notrunc
        && !is_device
        && operands.seek > 0
        && let Some(end) = place_of(operands.seek, 0, operands.block)
    {
        file.set_size(end.from_start()).await.map_err(IoFailure::from)?;
    }
    Ok(To::File { file, tail: None })
}

async fn write(
    to: &mut To,
    operands: &Operands,
    place: &Place,
    offset: Offset,
    data: SgList,
) -> Result<(), ProbeError> {
    let To::File { file, tail } = to else {
        return Ok(());
    };
    let aligned = ByteCount(data.len() as u64).is_multiple_of(file.alignment());
    let target = match (aligned, &operands.output) {
        (false, Output::File(path)) if tail.is_none() => {
            let how = OpenHow::write().with_durable_writes(operands.dsync_out);
            tail.insert(place.tree.open(path, how).await.map_err(IoFailure::from)?)
        }
        (false, _) => tail.as_ref().unwrap_or(file),
        (true, _) => file,
    };
    target.submit(Request::write(offset, data)).await.map_err(IoFailure::from)?;
    Ok(())
}

impl DdOutcome {
    /// Bytes a second; 0 where no time passed.
    pub fn bytes_per_s(&self) -> f64 {
        match self.time.is_zero() {
            true => 0.0,
            false => self.bytes.bytes() as f64 / self.time.as_secs_f64(),
        }
    }

    /// As `dd` prints it.
    pub fn text(&self) -> String {
        let (bytes, time) = (self.bytes.bytes(), self.time.as_secs_f64());
        let (si, iec) = (decimal(bytes as f64), binary(bytes as f64));
        let bare = |text: &str| text.ends_with(" B");
        let size = match (bare(&si), bare(&iec)) {
            (true, _) if bytes == 1 => format!("{bytes} byte"),
            (true, _) => format!("{bytes} bytes"),
            (false, true) => format!("{bytes} bytes ({si})"),
            (false, false) => format!("{bytes} bytes ({si}, {iec})"),
        };
        let rate = match self.time.is_zero() {
            true => "Infinity B/s".to_owned(),
            false => format!("{}/s", decimal(self.bytes_per_s())),
        };
        let ((a, b), (c, d)) = (self.records_in, self.records_out);
        format!(
            "{a}+{b} records in\n{c}+{d} records out\n{size} copied, {} s, {rate}\n",
            seconds(time)
        )
    }

    /// In the lab's terms.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome { warnings: self.warnings.clone(), ..Outcome::default() };
        let mut put = |name: &str, value: f64| outcome.metrics.insert(name.to_owned(), value);
        put("throughput_mb_s", self.bytes_per_s() / 1e6);
        put("duration_s", self.time.as_secs_f64());
        outcome
    }
}
