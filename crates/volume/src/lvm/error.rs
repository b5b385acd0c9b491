//! Why something of LVM can't be had.

use crate::lvm::label::Id;
use crate::lvm::metadata::MetadataError;
use crate::partition::copy_as_long;
use md::SpecError;
use rt::IoError;
use stdx::ByteCount;
use stdx::bytes::FormatError;

/// Why a group, or a volume of it, can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum LvmError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("{device}: {error}")]
    Format { device: String, error: FormatError },
    #[error("{device}: the text of its volume group: {error}")]
    Metadata { device: String, error: MetadataError },
    #[error("{device}: the text of its volume group does not have its checksum")]
    TextChecksum { device: String },
    #[error("volume group {group} has no logical volume {volume}")]
    NoVolume { group: String, volume: String },
    #[error(
        "{group}/{volume}: a segment of type {kind} is not supported: only linear and striped volumes are"
    )]
    Kind { group: String, volume: String, kind: String },
    #[error("{group}/{volume}: the physical volume {id} is missing: bring its device")]
    Missing { group: String, volume: String, id: Id },
    #[error(
        "{group}/{volume}: {device} has {has} bytes, and the volume's extents reach beyond: cut short? Then {} has them; what was cut off is \
         lost", copy_as_long(.device, *.needed)
    )]
    DeviceTooSmall { group: String, volume: String, device: String, has: u64, needed: u64 },
    #[error("{group}/{volume}: its extents are more bytes than a device can have")]
    TooLarge { group: String, volume: String },
    #[error("{group}/{volume}: {error}")]
    Stripes { group: String, volume: String, error: SpecError },
    #[error(
        "volume group {group}: the physical volume {id} is missing: nothing is changed without it"
    )]
    MissingForChange { group: String, id: Id },
    #[error(
        "volume group {group}: {device} ends before its extents do: nothing is changed before it is as long again"
    )]
    ShortForChange { group: String, device: String },
    #[error(
        "volume group {group}: its newest text is damaged, and it is read as an older one has it, of seqno {seqno}: what was changed since is not \
         known, and nothing of it is written"
    )]
    Older { group: String, seqno: u64 },
    #[error(
        "volume group {group}: the text on {device} is damaged: nothing is changed before LVM's vgck --updatemetadata mended it"
    )]
    Damaged { group: String, device: String },
    #[error(
        "volume group {group}: {} {} bear one physical volume ({id}), and nothing tells which of them has what was written last: name with -d \
         the devices of the group, and of these only the one that counts",
        devices.join(" and "), if devices.len() == 2 { "both" } else { "all" }
    )]
    Alike { group: String, id: Id, devices: Vec<String> },
    #[error(
        "volume group {group}: {device} has an older text than the others (seqno {seqno}, not {newest}): it was away when the group was changed, \
         or is an old copy, and what lies on it may be as old{}",
        if newest.saturating_sub(*seqno) > 1 {
            ": nothing is changed before LVM's vgck --updatemetadata mended it"
        } else {
            "; or the power went while the group was changed"
        }
    )]
    Outdated { group: String, device: String, seqno: u64, newest: u64 },
    #[error(
        "volume group {group}: {} and {} have texts of one age (seqno {seqno}) that say different things, so they are of two copies of the group: \
         name with -d the devices of one of them alone", devices.join(" and "), others.join(" and ")
    )]
    TwoTexts { group: String, seqno: u64, devices: Vec<String>, others: Vec<String> },
    #[error("volume group {group} is exported or read-only, so nothing of it is changed")]
    ReadOnly { group: String },
    #[error("{name}: a name has letters, digits and + _ . -, and does not begin with -")]
    BadName { name: String },
    #[error("{group} has a logical volume {volume} already: choose another name")]
    Exists { group: String, volume: String },
    #[error(
        "volume group {group}: {} are wanted ({wanted} extents of {extent}), {}; {} are free{}",
        size_of(*.wanted, *.extent), divided(*.stripes), size_of(*.free, *.extent),
        if .free >= .wanted { ", and not so divided" } else { "" }
    )]
    NoSpace { group: String, wanted: u64, stripes: usize, free: u64, extent: ByteCount },
    #[error("a stripe of {0}: give a power of two from 4 KiB to the extent size")]
    StripeSize(ByteCount),
    #[error("an extent of {0}: give a power of two from 4 KiB to 4 GiB")]
    ExtentSize(ByteCount),
    #[error("{device}: {capacity} hold no extent beside the first MiB: use a larger one")]
    TooSmall { device: String, capacity: ByteCount },
    #[error("volume group {group}: its text has outgrown the metadata area of {device}")]
    TextTooLong { group: String, device: String },
    #[error(
        "no volume group that is here lacks the physical volume {id}{}",
        match .missing.is_empty() {
            true => ": none lacks any, and a group of which no other device is here is not known".to_owned(),
            false => format!("; missing are {}", of_groups(missing)),
        }
    )]
    NotMissing { id: Id, missing: Vec<(String, Id)> },
    #[error("volume groups {} name the physical volume {id}: name with -d the devices of one of them alone", groups.join(" and "))]
    SeveralName { id: Id, groups: Vec<String> },
    #[error("volume group {group}: its physical volume {id} is there: {device}")]
    IsThere { group: String, id: Id, device: String },
    #[error("{device} is another physical volume of volume group {group}: {id}")]
    IsAnother { group: String, id: Id, device: String },
    #[error(
        "{device} has {has} bytes, and the extents of the physical volume {id} of volume group {group} reach to {needed}: is it another one? \
         If it was cut short, {} has them; what was cut off is lost", copy_as_long(.device, *.needed)
    )]
    TooShort { group: String, id: Id, device: String, has: u64, needed: u64 },
    #[error(
        "volume group {group}: the data of its physical volume {id} begin at byte {start}, which leaves no room for a metadata area before them: \
         LVM made it without one"
    )]
    NoRoom { group: String, id: Id, start: u64 },
    #[error(
        "volume group {group}: its physical volume {id} has a boot loader area, which is not written here: LVM's pvcreate --uuid does"
    )]
    BootArea { group: String, id: Id },
}

/// So many extents.
fn size_of(extents: u64, extent: ByteCount) -> ByteCount {
    ByteCount(extents.saturating_mul(extent.bytes()))
}

/// `vg0: ID, vg1: ID`.
fn of_groups(missing: &[(String, Id)]) -> String {
    let named = missing.iter().map(|(group, id)| format!("{group}: {id}"));
    named.collect::<Vec<_>>().join(", ")
}

fn divided(stripes: usize) -> String {
    match stripes {
        1 => "on any physical volumes".to_owned(),
        many => format!("divided over {many} physical volumes"),
    }
}
