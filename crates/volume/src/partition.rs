//! The partitions of a device, whichever table has them.
//!
//! Rules, in order:
//! 1. A GPT counts before an MBR, which may stand beside it.
//! 2. A device that begins with a file system has no MBR: the last two bytes of a boot sector are the same.
//!
//! A partition that the device's end cuts (a copy that broke off) is as long as what is there of it, and is only to be read.

use crate::absent::lengthened;
use crate::gpt::{self, GptError};
use crate::{content, mbr};
use async_recursion::async_recursion as boxed;
use rt::DeviceRef;
use stdx::{ByteCount, Offset};

/// A partition of a device.
#[derive(Clone)]
pub struct Partition {
    /// Linux's number.
    pub number: u32,
    /// Its name; empty where it has none.
    pub name: String,
    /// Where it begins.
    pub start: Offset,
    /// How long it is; of one that the device's end cuts, how much of it is there.
    pub len: ByteCount,
    /// How long the table has it, where the device's end cuts it.
    pub cut: Option<ByteCount>,
    /// It, as a device.
    pub device: DeviceRef,
}

impl Partition {
    /// It as long as the table has it: what was cut off can't be read.
    pub fn lengthened(&self) -> DeviceRef {
        let long = self.cut.and_then(|len| lengthened(&self.device, 0, len.bytes()));
        long.unwrap_or_else(|| self.device.clone())
    }
}

/// The partitions of a device, and which kind of table has them.
#[derive(Clone)]
pub struct Table {
    /// `GPT` or `MBR`.
    pub form: &'static str,
    /// In the order of their numbers.
    pub partitions: Vec<Partition>,
    /// What is to be said of it.
    pub remark: Option<String>,
}

/// The partitions of a device; nothing where it has no table.
///
/// # Errors
/// [`GptError`]
#[boxed(?Send)]
pub async fn read_table(device: &DeviceRef) -> Result<Option<Table>, GptError> {
    if let Some(table) = gpt::read_table(device).await? {
        let partition = |one: gpt::Partition| Partition {
            number: one.number,
            device: one.device(device),
            name: one.name,
            start: one.start,
            len: one.len,
            cut: one.cut,
        };
        let damaged = table.from_backup.then(|| {
            format!(
                "{}: its first partition table is damaged, the copy at the end counts",
                device.name()
            )
        });
        let short = cut_short(device, "GPT", &table.beyond, table.size.bytes());
        let remark =
            damaged.into_iter().chain(short).reduce(|one, other| format!("{one}; {other}"));
        let partitions = table.partitions.into_iter().map(partition).collect();
        return Ok(Some(Table { form: "GPT", partitions, remark }));
    }
    if content::identify(device).await?.is_some() {
        return Ok(None);
    }
    let Some(table) = mbr::read_table(device).await? else { return Ok(None) };
    let partition = |one: mbr::Partition| Partition {
        number: one.number,
        name: String::new(),
        start: one.start,
        len: one.len,
        cut: one.cut,
        device: one.device(device),
    };
    let remark = cut_short(device, "MBR", &table.beyond, table.beyond_to.bytes());
    let partitions = table.partitions.into_iter().map(partition).collect();
    Ok(Some(Table { form: "MBR", partitions, remark }))
}

/// What is said of a device that ends before partitions that its table has, which goes up to `needed` bytes; nothing where there
/// are none.
fn cut_short(device: &DeviceRef, form: &str, beyond: &[u32], needed: u64) -> Option<String> {
    let numbers: Vec<String> = beyond.iter().map(ToString::to_string).collect();
    let (are, reach, they) = match &numbers[..] {
        [] => return None,
        [_] => ("partition", "reaches", "it"),
        _ => ("partitions", "reach", "them"),
    };
    let (name, numbers, len) =
        (device.name(), numbers.join(", "), device.geometry().capacity.bytes());
    Some(format!(
        "{name}: its {are} {numbers} {reach} beyond the end: its {form} goes up to {needed} bytes, and it has {len}: cut short? What lies \
         before the end is read, and not written. The table is whole, make no other; a copy of it that is as long again (truncate -s \
         {needed} COPY, zeros at its end) has {they}"
    ))
}

/// What has all of a device that ends too soon, which should have so many bytes: a copy of it, or of its disk where it is called as a
/// partition is.
pub fn copy_as_long(device: &str, needed: u64) -> String {
    let number = device.rsplit_once(':').map(|(_, number)| number.parse::<u32>());
    match number {
        Some(Ok(_)) => "a copy of its disk that is as long again (scan says how long its table of partitions has it)".to_owned(),
        _ => format!("a copy of it that is as long again (truncate -s {needed} COPY, zeros at its end)"),
    }
}
