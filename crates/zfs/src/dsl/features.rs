//! Features that come into use and go out of it: how often each is used, by the pool and by its datasets.
//!
//! A dataset that uses a feature says so by a name in its own table; each such dataset is one use. A dataset's or directory's
//! object gets a table when it first needs one, and keeps its bonus.
//!
//! **Blocks ask for features** by their length, checksum and compression, dnodes by their slots. A dataset uses what is asked for from
//! the group on in which the first such block was born, or dnode written, and until the dataset goes or is taken back: that none is
//! left is not looked for.
//!
//! Source: OpenZFS, `zfeature.c`, `dsl_dataset.c` (`dsl_dataset_activate_feature`, `dsl_dataset_block_born`), `dmu_object.c`
//! (`dmu_object_zapify`), `zio_checksum.c` (`zio_checksum_to_feature`).

use super::ZAP_METADATA;
use super::make::Maker;
use crate::dmu::{Block, Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::change::empty;
use crate::zap::{Zap, table};
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::checksum::ChecksumFunction;
use zfs_format::compression::Compression;
use zfs_format::dnode::SLOT_BYTES;
use zfs_format::features::Feature;
use zfs_format::pool_directory as names;
use zfs_format::zap::leaf::LeafValue;

/// Bytes of the longest block that every pool takes.
pub const BLOCK_BYTES_PLAIN: u64 = 128 << 10;
/// The feature of longer ones.
pub const LARGE_BLOCKS: &str = "large_blocks";
/// The feature of dnodes that take more than one slot.
pub const LARGE_DNODES: &str = "large_dnode";
/// What blocks and dnodes of a dataset can ask for; `lz4_compress` is a feature of the whole pool.
const ASKED: [&str; 7] =
    [LARGE_BLOCKS, "sha512", "skein", "edonr", "blake3", "zstd_compress", LARGE_DNODES];

/// The feature of a checksum.
pub fn of_checksum(function: ChecksumFunction) -> Option<&'static str> {
    match function {
        ChecksumFunction::Sha512 => Some("sha512"),
        ChecksumFunction::Skein => Some("skein"),
        ChecksumFunction::Edonr => Some("edonr"),
        ChecksumFunction::Blake3 => Some("blake3"),
        _ => None,
    }
}

/// The feature of a compression.
pub fn of_compression(function: Compression) -> Option<&'static str> {
    match function {
        Compression::Lz4 => Some("lz4_compress"),
        Compression::Zstd => Some("zstd_compress"),
        _ => None,
    }
}

/// The feature that a property's value asks for, by the number that stands for it.
pub fn of_property(name: &str, number: u64) -> Option<&'static str> {
    match name {
        "recordsize" | "volblocksize" => (number > BLOCK_BYTES_PLAIN).then_some(LARGE_BLOCKS),
        "checksum" => ChecksumFunction::from_code(number as u8).and_then(of_checksum),
        // A level stands above the function's number.
        "compression" => Compression::from_code((number & 0x7f) as u8).and_then(of_compression),
        "dnodesize" => (number != 0).then_some(LARGE_DNODES),
        _ => None,
    }
}

/// Bytes of the dnodes that the number which stands for a value of `dnodesize` asks for: `auto` is OpenZFS's choice.
pub fn dnode_bytes(number: u64) -> u64 {
    match number {
        0 => SLOT_BYTES as u64,
        1 => 2 * SLOT_BYTES as u64,
        bytes => bytes,
    }
}

/// A set of features that blocks and dnodes ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked(u8);

impl Asked {
    /// With those that a block asks for.
    pub(super) fn and(self, pointer: &BlockPointer) -> Asked {
        let length = (pointer.logical_size() > BLOCK_BYTES_PLAIN).then_some(LARGE_BLOCKS);
        // What stands in its pointer has no checksum.
        let function = pointer.checksum_function().filter(|_| !pointer.is_embedded());
        let features = [
            length,
            function.and_then(of_checksum),
            pointer.compression().and_then(of_compression),
        ];
        features.into_iter().flatten().fold(self, Asked::and_feature)
    }

    /// With that of a dnode that takes more than one slot.
    pub(super) fn and_large_dnode(self) -> Asked {
        self.and_feature(LARGE_DNODES)
    }

    fn and_feature(self, name: &'static str) -> Asked {
        let bit = ASKED.iter().position(|known| *known == name).map_or(0, |bit| 1 << bit);
        Asked(self.0 | bit)
    }

    /// Their short names.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let is_in = move |bit: &usize| self.0 & 1 << bit != 0;
        (0..ASKED.len()).filter(is_in).map(|bit| ASKED[bit])
    }
}

async fn feature_table(mos: &Objset, feature: &Feature) -> Result<Option<Dnode>, ZfsError> {
    let directory = Zap::open(mos.dnode(names::OBJECT).await?).await?;
    let name = match feature.is_read_only_compatible() {
        true => names::FEATURES_FOR_WRITE,
        false => names::FEATURES_FOR_READ,
    };
    match directory.number(name).await? {
        Some(number) => mos.dnode(number).await.map(Some),
        None => Ok(None),
    }
}

/// How often a feature is in use; nothing where it is not enabled.
///
/// # Errors
/// A table can't be had.
pub(crate) async fn uses(mos: &Objset, name: &str) -> Result<Option<u64>, ZfsError> {
    let Some(feature) = Feature::named(name) else { return Ok(None) };
    let Some(of) = feature_table(mos, feature).await? else { return Ok(None) };
    let value = Zap::open(of).await?.get(feature.guid.as_bytes()).await?;
    Ok(value.and_then(|value| value.number()))
}

/// A feature is used so much more often, or less.
///
/// # Errors
/// It is not enabled, or a table can't be had.
pub(crate) async fn count_use(mos: &Objset, name: &str, change: i64) -> Result<(), ZfsError> {
    let missing = || mos.wrong(names::OBJECT, Problem::NoEntry("of a feature"));
    let feature = Feature::named(name).ok_or_else(missing)?;
    let of = feature_table(mos, feature).await?.ok_or_else(missing)?;
    let before = uses(mos, name).await?.ok_or_else(missing)?;
    let uses = before.saturating_add_signed(change);
    table::set(mos, &of, feature.guid, table::number(uses)).await
}

impl Maker<'_> {
    /// How often a feature is in use; nothing where it is not enabled.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn uses(&self, name: &str) -> Result<Option<u64>, ZfsError> {
        uses(self.mos, name).await
    }

    /// A feature is used so much more often, or less.
    ///
    /// # Errors
    /// It is not enabled, or a table can't be had.
    pub async fn count_use(&self, name: &str, change: i64) -> Result<(), ZfsError> {
        count_use(self.mos, name, change).await
    }

    /// The features that a dataset uses, with what it says of each.
    ///
    /// # Errors
    /// Its table can't be had.
    pub async fn features_of(
        &self,
        dataset: &Dnode,
    ) -> Result<Vec<(&'static Feature, LeafValue)>, ZfsError> {
        if dataset.phys().object_type != ZAP_METADATA {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in Zap::open(dataset.clone()).await?.entries().await? {
            let feature = Feature::find(&entry.text()).filter(|feature| feature.is_per_dataset());
            found.extend(feature.map(|feature| (feature, entry.value)));
        }
        Ok(found)
    }

    /// A dataset uses these features from here on, by their short names. One that the pool has not enabled is passed over: a pool
    /// with such blocks was damaged or forged, and goes on as it is.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn use_features(
        &self,
        dataset: &Dnode,
        names: impl Iterator<Item = &'static str>,
    ) -> Result<(), ZfsError> {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return Ok(());
        }
        let used = self.features_of(dataset).await?;
        for feature in names.filter_map(Feature::named) {
            let is_used = used.iter().any(|(known, _)| known.guid == feature.guid);
            if is_used || self.uses(feature.name).await?.is_none() {
                continue;
            }
            self.zapify(dataset).await?;
            table::set(self.mos, dataset, feature.guid, table::number(0)).await?;
            if !planted::is(Bug::FeatureNotCounted) {
                self.count_use(feature.name, 1).await?;
            }
        }
        Ok(())
    }

    /// A dataset uses what another one does, whose blocks it has.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn copy_features(&self, from: &Dnode, to: &Dnode) -> Result<(), ZfsError> {
        for (feature, value) in self.features_of(from).await? {
            self.zapify(to).await?;
            table::set(self.mos, to, feature.guid, value).await?;
            self.count_use(feature.name, 1).await?;
        }
        Ok(())
    }

    /// A dataset uses nothing any more: it is about to go.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn drop_features(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        for (feature, _) in self.features_of(dataset).await? {
            if planted::is(Bug::FeatureNotDropped) {
                continue;
            }
            self.count_use(feature.name, -1).await?;
        }
        Ok(())
    }

    /// Makes an object a table beside what its bonus is, where it is none yet.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn zapify(&self, object: &Dnode) -> Result<(), ZfsError> {
        if object.phys().object_type == ZAP_METADATA {
            return Ok(());
        }
        let (salt, endian) = (self.fresh.number() | 1, object.endian());
        let bytes = empty(salt, 0, endian);
        self.mos
            .change(|tx| {
                object.plan_block_bytes(bytes.len() as u64)?;
                object.become_table(tx, ZAP_METADATA, Block { bytes: bytes.clone(), endian });
                Ok(())
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_ask_for_what_they_are_stored_as() {
        let names =
            |pointer: &BlockPointer| Asked::default().and(pointer).names().collect::<Vec<_>>();
        let mut pointer = BlockPointer::HOLE;
        pointer.set_sizes(BLOCK_BYTES_PLAIN, 4096);
        pointer.set_checksum_function(ChecksumFunction::Sha256);
        pointer.set_compression(Compression::Lz4);
        assert!(names(&pointer).is_empty());
        pointer.set_sizes(BLOCK_BYTES_PLAIN + 512, 4096);
        pointer.set_checksum_function(ChecksumFunction::Blake3);
        pointer.set_compression(Compression::Zstd);
        assert_eq!(names(&pointer), [LARGE_BLOCKS, "blake3", "zstd_compress"]);
        let embedded = BlockPointer::embed(&[7; 20], 4096, Compression::Zstd);
        assert_eq!(names(&embedded), ["zstd_compress"]);
        assert_eq!(Asked::default().and_large_dnode().names().collect::<Vec<_>>(), [LARGE_DNODES]);
        let both = Asked::default().and(&embedded).and(&pointer);
        assert_eq!(both, Asked::default().and(&pointer));
        assert!(ASKED.iter().all(|name| Feature::named(name).is_some_and(Feature::is_per_dataset)));
    }

    #[test]
    fn properties_ask_for_what_blocks_will() {
        assert_eq!(of_property("recordsize", 128 << 10), None);
        assert_eq!(of_property("volblocksize", 256 << 10), Some(LARGE_BLOCKS));
        assert_eq!(of_property("checksum", 12), Some("skein"));
        assert_eq!(of_property("compression", 16 | 103 << 7), Some("zstd_compress"));
        assert_eq!(of_property("compression", 15), Some("lz4_compress"));
        assert_eq!(of_property("compression", 3), None);
        assert_eq!(of_property("dnodesize", 1), Some(LARGE_DNODES));
        assert_eq!(of_property("dnodesize", 0), None);
        assert_eq!(of_property("quota", 1 << 40), None);
    }
}
