//! What a top-level vdev's space is for.

use zfs_format::vdev::Vdev;

/// What a top-level vdev's space is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Everything.
    Normal,
    /// The intent log.
    Log,
    /// The intent log, on what vdevs for everything keep for it ([`top`](super::top)): no vdev is of this class.
    EmbeddedLog,
    /// Metadata and small blocks.
    Special,
    /// Deduplication tables.
    Dedup,
}

impl Class {
    /// The class of a top-level vdev.
    pub fn of(vdev: &Vdev) -> Class {
        if vdev.is_for_logs() {
            return Class::Log;
        }
        match vdev.allocation_bias.as_ref().and_then(|bias| bias.as_str()) {
            Some("special") => Class::Special,
            Some("dedup") => Class::Dedup,
            Some("log") => Class::Log,
            _ => Class::Normal,
        }
    }

    /// The classes whose vdevs take what is of this class, those first that are tried first.
    pub fn instead(self) -> &'static [Class] {
        match self {
            Class::Normal => &[Class::Normal],
            Class::Log => &[Class::Log, Class::EmbeddedLog, Class::Normal],
            Class::EmbeddedLog => &[Class::EmbeddedLog, Class::Normal],
            Class::Special => &[Class::Special, Class::Normal],
            Class::Dedup => &[Class::Dedup, Class::Special, Class::Normal],
        }
    }
}
