//! Properties of a pool: the table, and each one as text.
//!
//! The order is that of `zpool get all`: ZFS's own, users' own, features. A feature is `disabled`, `enabled`, or
//! `active` where something uses it; one that is not known and in use is `unsupported@…`.
//!
//! What is set stands in a table of the MOS; the comment and the compatibility in the configuration; all else is
//! worked out. `load_guid` tells one import from another: of a pool that a command opens and closes it is 0.
//!
//! Source: OpenZFS 2.3, `zpool_prop.c`, `libzfs_pool.c`, `spa.c`.

use super::space::Space;
use crate::dsl::catalog::Catalog;
use crate::dsl::property::effective::{Origin, is_user};
use crate::dsl::property::words::{Words, word};
use crate::error::ZfsError;
use crate::show;
use crate::spa::Spa;
use crate::spa::features;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use zfs_format::dsl::dir::RESERVED;
use zfs_format::dsl::property::PropertyValue;
use zfs_format::features::{FEATURES, Feature};
use zfs_format::pool_directory;
use zfs_format::uberblock::VERSION_FEATURES;

/// How a property's column looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number, with its default.
    Number(u64),
    /// A word, with its default's number.
    Word(Words, u64),
    /// Text, with its default.
    Text(Option<&'static str>),
}

/// A property of pools.
#[derive(Debug, PartialEq, Eq)]
pub struct PoolProperty {
    /// Its name.
    pub name: &'static str,
    /// The head of its column.
    pub column: &'static str,
    /// Its values.
    pub form: Form,
    /// Whether nobody sets it.
    pub read_only: bool,
    /// Whether `all` includes it.
    pub visible: bool,
}

const SWITCH: Words = &[("off", 0), ("on", 1)];
const FAILURE_MODE: Words = &[("wait", 0), ("continue", 1), ("panic", 2)];

const fn worked_out(name: &'static str, column: &'static str) -> PoolProperty {
    PoolProperty { name, column, form: Form::Number(0), read_only: true, visible: true }
}

const fn own(name: &'static str, column: &'static str, form: Form) -> PoolProperty {
    PoolProperty { name, column, form, read_only: false, visible: true }
}

/// All of them, in the order of `zpool get all`.
pub static POOL_PROPERTIES: &[PoolProperty] = &[
    PoolProperty { visible: false, ..own("name", "NAME", Form::Text(None)) },
    worked_out("size", "SIZE"),
    worked_out("capacity", "CAP"),
    own("altroot", "ALTROOT", Form::Text(None)),
    worked_out("health", "HEALTH"),
    worked_out("guid", "GUID"),
    own("version", "VERSION", Form::Number(VERSION_FEATURES)),
    own("bootfs", "BOOTFS", Form::Text(None)),
    own("delegation", "DELEGATION", Form::Word(SWITCH, 1)),
    own("autoreplace", "REPLACE", Form::Word(SWITCH, 0)),
    own("cachefile", "CACHEFILE", Form::Text(None)),
    own("failmode", "FAILMODE", Form::Word(FAILURE_MODE, 0)),
    own("listsnapshots", "LISTSNAPS", Form::Word(SWITCH, 0)),
    own("autoexpand", "EXPAND", Form::Word(SWITCH, 0)),
    worked_out("dedupratio", "DEDUP"),
    worked_out("free", "FREE"),
    worked_out("allocated", "ALLOC"),
    own("readonly", "RDONLY", Form::Word(SWITCH, 0)),
    own("ashift", "ASHIFT", Form::Number(0)),
    own("comment", "COMMENT", Form::Text(None)),
    worked_out("expandsize", "EXPANDSZ"),
    worked_out("freeing", "FREEING"),
    worked_out("fragmentation", "FRAG"),
    worked_out("leaked", "LEAKED"),
    own("multihost", "MULTIHOST", Form::Word(SWITCH, 0)),
    worked_out("checkpoint", "CKPOINT"),
    worked_out("load_guid", "LOAD_GUID"),
    own("autotrim", "AUTOTRIM", Form::Word(SWITCH, 0)),
    own("compatibility", "COMPATIBILITY", Form::Text(Some("off"))),
    worked_out("bcloneused", "BCLONE_USED"),
    worked_out("bclonesaved", "BCLONE_SAVED"),
    worked_out("bcloneratio", "BCLONE_RATIO"),
    worked_out("dedup_table_size", "DDTSIZE"),
    own("dedup_table_quota", "DDTQUOTA", Form::Number(u64::MAX)),
    worked_out("last_scrubbed_txg", "LAST_SCRUBBED_TXG"),
];

/// The order in which `zpool get all` lists features, by their short names.
pub const FEATURE_ORDER: [&str; FEATURES.len()] = [
    "async_destroy",
    "empty_bpobj",
    "lz4_compress",
    "multi_vdev_crash_dump",
    "spacemap_histogram",
    "enabled_txg",
    "hole_birth",
    "extensible_dataset",
    "embedded_data",
    "bookmarks",
    "filesystem_limits",
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "userobj_accounting",
    "encryption",
    "project_quota",
    "device_removal",
    "obsolete_counts",
    "zpool_checkpoint",
    "spacemap_v2",
    "allocation_classes",
    "resilver_defer",
    "bookmark_v2",
    "redaction_bookmarks",
    "redacted_datasets",
    "bookmark_written",
    "log_spacemap",
    "livelist",
    "device_rebuild",
    "zstd_compress",
    "draid",
    "zilsaxattr",
    "head_errlog",
    "blake3",
    "block_cloning",
    "vdev_zaps_v2",
    "redaction_list_spill",
    "raidz_expansion",
    "fast_dedup",
    "longname",
    "large_microzap",
];

impl PoolProperty {
    /// The property of this name, or with this column.
    pub fn find(name: &str) -> Option<&'static PoolProperty> {
        let named = POOL_PROPERTIES.iter().find(|property| property.name == name);
        named.or_else(|| POOL_PROPERTIES.iter().find(|one| one.column.to_lowercase() == name))
    }

    /// Whether its column is aligned to the right.
    pub fn right(&self) -> bool {
        matches!(self.form, Form::Number(_))
    }

    /// The width of its column before any value is known, in characters.
    pub fn width(&self) -> usize {
        let head = self.column.len();
        match self.form {
            Form::Number(_) if self.name == "health" => 8,
            Form::Number(_) => head.max(5),
            Form::Word(words, _) => words.iter().map(|(word, _)| word.len()).fold(head, usize::max),
            Form::Text(_) => head,
        }
    }

    /// Whether its column grows with its values.
    pub fn flexible(&self) -> bool {
        matches!(self.form, Form::Text(_)) || self.name.ends_with("guid")
    }
}

/// Whether a name is one that a command may ask for.
pub fn is_known_name(name: &str) -> bool {
    let feature = name.strip_prefix("feature@").is_some_and(|name| Feature::named(name).is_some());
    feature
        || name.starts_with("unsupported@")
        || is_user(name)
        || PoolProperty::find(name).is_some()
}

/// A pool with its properties.
#[derive(Clone, Debug)]
pub struct PoolView {
    /// Its name.
    pub name: String,
    /// Its GUID.
    pub guid: u64,
    /// Its version.
    pub version: u64,
    /// Its state.
    pub health: String,
    /// Space.
    pub space: Space,
    /// Users' own properties, in order.
    pub user: Vec<(String, String)>,
    numbers: BTreeMap<&'static str, u64>,
    set: BTreeMap<String, PropertyValue>,
    texts: BTreeMap<&'static str, String>,
    features: Vec<features::InUse>,
}

impl Spa {
    /// The pool with its properties. `health` is its state, `expandable` the bytes that it could grow by.
    ///
    /// # Errors
    /// Something that they are worked out from can't be had.
    #[boxed(?Send)]
    pub async fn view(&self, health: String, expandable: u64) -> Result<PoolView, ZfsError> {
        let space = self.space().await?;
        let (dedup, cloned) = (self.dedup().await?, self.cloned().await?);
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let (mut set, mut user) = (BTreeMap::new(), Vec::new());
        let mut texts = BTreeMap::new();
        if let Some(table) = directory.number(pool_directory::PROPERTIES).await? {
            let zap = Zap::open(self.mos().dnode(table).await?).await?;
            for entry in zap.entries().await? {
                let value = PropertyValue::from_value(&entry.value);
                let value = value.map_err(|error| zap.dnode().wrong(error))?;
                if is_user(&entry.text()) {
                    let text = crate::dsl::property::effective::value_text(&value);
                    user.push((entry.text(), text));
                } else {
                    set.insert(entry.text(), value);
                }
            }
        }
        if let Some(PropertyValue::Number(dataset @ 1..)) = set.get("bootfs") {
            let catalog = self.catalog(space.capacity).await?;
            texts.insert("bootfs", catalog.dataset_name(*dataset).await?);
        }
        for name in ["comment", "compatibility"] {
            let config = self.config();
            let text = config.text(name).ok().flatten();
            texts.extend(text.map(|text| (name, text.to_string())));
        }
        let (mut freeing, mut leaked) = (0, 0);
        let root = self.dsl().root().await?;
        for (name, number) in self.dsl().names(root.head.children).await? {
            let used = async || -> Result<u64, ZfsError> {
                let directory = self.dsl().directory(number, name.clone()).await?;
                Ok(directory.head.used_bytes)
            };
            if name == RESERVED[2] {
                freeing = used().await?;
            } else if name == RESERVED[3] {
                leaked = used().await?;
            }
        }
        let scrubbed = directory.number(pool_directory::LAST_SCRUBBED_TXG).await?.unwrap_or(0);
        let share = (u128::from(space.allocated) * 100).checked_div(space.size.into());
        let numbers = BTreeMap::from([
            ("size", space.size),
            ("capacity", share.unwrap_or(0) as u64),
            ("guid", self.guid()),
            ("version", self.uberblock().version),
            ("dedupratio", dedup.ratio()),
            ("free", space.size.saturating_sub(space.allocated)),
            ("allocated", space.allocated),
            ("readonly", 1),
            ("expandsize", expandable),
            ("freeing", freeing),
            ("fragmentation", space.fragmentation.unwrap_or(u64::MAX)),
            ("leaked", leaked),
            ("checkpoint", space.checkpoint),
            ("load_guid", 0),
            ("bcloneused", cloned.used),
            ("bclonesaved", cloned.saved),
            ("bcloneratio", cloned.ratio()),
            ("dedup_table_size", dedup.table),
            ("last_scrubbed_txg", scrubbed),
        ]);
        let (name, guid, version) = (self.name().to_owned(), self.guid(), self.uberblock().version);
        let features = self.features().to_vec();
        Ok(PoolView { name, guid, version, health, space, user, numbers, set, texts, features })
    }

    /// All that is shown of its datasets; `capacity` is what the pool can give to them.
    ///
    /// # Errors
    /// The root can't be had.
    #[boxed(?Send)]
    pub async fn catalog(&self, capacity: u64) -> Result<Catalog, ZfsError> {
        Catalog::open(self.rt(), self.dsl(), self.blocks(), capacity).await
    }
}

impl PoolView {
    fn number(&self, property: &PoolProperty, default: u64) -> (u64, Origin) {
        let name = property.name;
        match (self.numbers.get(name), self.set.get(name)) {
            (Some(number), _) if name == "version" => {
                (*number, if *number == default { Origin::Default } else { Origin::Local })
            }
            (Some(number), _) => (*number, Origin::None),
            (None, Some(PropertyValue::Number(number))) if *number != default => {
                (*number, Origin::Local)
            }
            _ => (default, Origin::Default),
        }
    }

    /// What its mountpoints are below, as long as somebody holds it.
    pub fn set_altroot(&mut self, directory: String) {
        self.texts.insert("altroot", directory);
    }

    /// Whether a switch is on.
    pub fn is_on(&self, property: &PoolProperty) -> bool {
        self.number(property, 0).0 == 1
    }

    /// A property as it is shown, with where it comes from; `literal` for numbers in full.
    pub fn get(&self, property: &PoolProperty, literal: bool) -> (String, Origin) {
        match (property.name, property.form) {
            ("name", _) => (self.name.clone(), Origin::None),
            ("health", _) => (self.health.clone(), Origin::None),
            (name, Form::Text(default)) => match (self.texts.get(name), self.set.get(name)) {
                (Some(text), _) => (text.clone(), Origin::Local),
                (None, Some(PropertyValue::Text(text))) => (text.to_string(), Origin::Local),
                _ => (default.unwrap_or("-").to_owned(), Origin::Default),
            },
            (_, Form::Word(words, default)) => {
                let (number, origin) = self.number(property, default);
                (word(words, number).unwrap_or("-").to_owned(), origin)
            }
            (name, Form::Number(default)) => {
                let (number, origin) = self.number(property, default);
                (number_text(name, number, literal), origin)
            }
        }
    }

    /// A feature's state, by `feature@NAME` or `unsupported@GUID`; nothing where there is none.
    pub fn feature(&self, name: &str) -> Option<&'static str> {
        let count = |guid: &str| {
            self.features.iter().find(|one| one.guid == guid).map(|feature| feature.count)
        };
        if let Some(short) = name.strip_prefix("feature@") {
            return Some(match count(Feature::named(short)?.guid) {
                None => "disabled",
                Some(0) => "enabled",
                Some(_) => "active",
            });
        }
        match count(name.strip_prefix("unsupported@")?)? {
            0 => Some("inactive"),
            _ => Some("readonly"),
        }
    }

    /// The names of its features, in order: those that are known, then others that it has.
    pub fn feature_names(&self) -> Vec<String> {
        let known = FEATURE_ORDER.iter().map(|name| format!("feature@{name}"));
        let other = self.features.iter().filter(|feature| Feature::find(&feature.guid).is_none());
        known.chain(other.map(|feature| format!("unsupported@{}", feature.guid))).collect()
    }

    /// Whether one of these features is not enabled.
    pub fn lacks_one_of<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        let has = |guid: &str| self.features.iter().any(|feature| *feature.guid == *guid);
        names.into_iter().any(|name| !Feature::named(name).is_some_and(|known| has(known.guid)))
    }
}

fn number_text(name: &str, number: u64, literal: bool) -> String {
    match name {
        "dedup_table_quota" if number == 0 && !literal => "none".to_owned(),
        "dedup_table_quota" if number == u64::MAX => "auto".to_owned(),
        "expandsize" | "checkpoint" if number == 0 => "-".to_owned(),
        "expandsize" | "checkpoint" if !literal => show::bytes(number),
        "capacity" => show::percent(number, literal),
        "fragmentation" if number == u64::MAX => "-".to_owned(),
        "fragmentation" => show::percent(number, literal),
        "bcloneratio" | "dedupratio" => show::ratio(number, literal),
        "version" if number >= VERSION_FEATURES => "-".to_owned(),
        "size" | "allocated" | "free" | "freeing" | "leaked" | "ashift" | "bclonesaved"
        | "bcloneused" | "dedup_table_size" | "dedup_table_quota"
            if !literal =>
        {
            show::count(number)
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_its_place_in_the_list() {
        let mut listed = FEATURE_ORDER.to_vec();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len(), FEATURES.len());
        assert!(listed.iter().all(|name| Feature::named(name).is_some()));
    }

    #[test]
    fn numbers_have_their_own_ways() {
        for (name, number, literal, text) in [
            ("dedup_table_quota", u64::MAX, true, "auto"),
            ("dedup_table_quota", 0, false, "none"),
            ("checkpoint", 0, true, "-"),
            ("capacity", 7, false, "7%"),
            ("version", 5000, true, "-"),
            ("version", 28, false, "28"),
            ("size", 80 << 20, false, "80M"),
            ("fragmentation", u64::MAX, true, "-"),
        ] {
            assert_eq!(number_text(name, number, literal), text, "{name}");
        }
    }
}
