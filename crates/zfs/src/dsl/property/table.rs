//! The properties of datasets that ZFS itself knows: their words, defaults, and of what they are.
//!
//! The order is that of `zfs get all`. A property of users' own has a colon in its name, and isn't here.
//!
//! Rules:
//! 1. [`Attribute::ReadOnly`] is worked out, never stored. [`Attribute::OneTime`] is set when the dataset is made.
//! 2. Only [`Attribute::Inherit`] comes from the dataset above where it isn't set; all others fall to their default.
//! 3. The column's name, in small letters, names the property too (`avail`, `refer`, `compress`).
//!
//! Source: OpenZFS 2.3, `zfs_prop.c`, `zprop_common.c`.

use super::words::*;

/// Who may set a property, and whether it is inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Nobody sets it.
    ReadOnly,
    /// Set here, or the default.
    Default,
    /// Set here, or as the dataset above has it.
    Inherit,
    /// Set when the dataset is made.
    OneTime,
    /// The same, and otherwise the default is shown as such.
    OneTimeDefault,
}

/// What values a property has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number, with its default.
    Number(u64),
    /// One of some words, stored as their numbers, with the default's number.
    Word(&'static [(&'static str, u64)], u64),
    /// Text, with its default if there is one.
    Text(Option<&'static str>),
}

/// Kinds of datasets, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// None at all.
    pub const NONE: Kinds = Kinds(0);
    /// File systems.
    pub const FILE_SYSTEM: Kinds = Kinds(1);
    /// Volumes.
    pub const VOLUME: Kinds = Kinds(2);
    /// Snapshots.
    pub const SNAPSHOT: Kinds = Kinds(4);
    /// Bookmarks.
    pub const BOOKMARK: Kinds = Kinds(8);
    /// File systems, volumes and snapshots.
    pub const DATASET: Kinds = Kinds(7);
    /// All of them.
    pub const ALL: Kinds = Kinds(15);

    /// These and those.
    pub const fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// These without those.
    pub const fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    /// Whether any of those is among these.
    pub const fn has(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }
}

/// A property.
#[derive(Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// The head of its column.
    pub column: &'static str,
    /// Its values.
    pub form: Form,
    /// Who may set it.
    pub attribute: Attribute,
    /// What has it.
    pub kinds: Kinds,
    /// Whether `all` includes it.
    pub visible: bool,
    /// Whether its column is aligned to the right, as numbers are.
    pub right: bool,
    /// Whether its column grows with its values.
    pub flexible: bool,
}

impl Property {
    /// The property of this very name.
    pub fn named(name: &str) -> Option<&'static Property> {
        PROPERTIES.iter().find(|property| property.name == name)
    }

    /// The property of this name, or with this column.
    pub fn find(name: &str) -> Option<&'static Property> {
        let by_column = || PROPERTIES.iter().find(|one| one.column.to_lowercase() == name);
        Property::named(name).or_else(by_column)
    }

    /// Whether it is worked out or was set when the dataset was made: `zfs set` refuses it.
    pub fn is_read_only(&self) -> bool {
        !matches!(self.attribute, Attribute::Default | Attribute::Inherit)
    }

    /// Its default, where that is a number.
    pub fn default_number(&self) -> u64 {
        match self.form {
            Form::Number(number) | Form::Word(_, number) => number,
            Form::Text(_) => 0,
        }
    }

    /// Whether it comes from the dataset above where it isn't set.
    pub fn is_inherited(&self) -> bool {
        self.attribute == Attribute::Inherit
    }

    /// The width of its column before any value is known, in characters.
    pub fn width(&self) -> usize {
        let head = self.column.len();
        match self.form {
            Form::Number(_) => head.max(5),
            Form::Word(words, _) => words.iter().map(|(word, _)| word.len()).fold(head, usize::max),
            Form::Text(_) => head,
        }
    }
}

const F: Kinds = Kinds::FILE_SYSTEM;
const V: Kinds = Kinds::VOLUME;
const S: Kinds = Kinds::SNAPSHOT;
const FV: Kinds = F.with(V);
const FS: Kinds = F.with(S);
const VS: Kinds = V.with(S);
const FVS: Kinds = Kinds::DATASET;
const FVSB: Kinds = Kinds::ALL;

use Attribute::{Default as Own, Inherit, OneTime, OneTimeDefault, ReadOnly};

const fn number(
    name: &'static str,
    column: &'static str,
    default: u64,
    attribute: Attribute,
    kinds: Kinds,
) -> Property {
    let (visible, right) = (true, true);
    let form = Form::Number(default);
    Property { name, column, form, attribute, kinds, visible, right, flexible: false }
}

/// A number whose column grows: what is no size.
const fn identity(
    name: &'static str,
    column: &'static str,
    attribute: Attribute,
    kinds: Kinds,
) -> Property {
    Property { flexible: true, ..number(name, column, 0, attribute, kinds) }
}

const fn time(name: &'static str, column: &'static str, kinds: Kinds) -> Property {
    Property { right: false, flexible: true, ..number(name, column, 0, ReadOnly, kinds) }
}

const fn word(
    name: &'static str,
    column: &'static str,
    words: &'static [(&'static str, u64)],
    default: u64,
    attribute: Attribute,
    kinds: Kinds,
) -> Property {
    let (visible, right) = (true, false);
    let form = Form::Word(words, default);
    Property { name, column, form, attribute, kinds, visible, right, flexible: false }
}

const fn text(
    name: &'static str,
    column: &'static str,
    default: Option<&'static str>,
    attribute: Attribute,
    kinds: Kinds,
) -> Property {
    let (visible, right) = (true, false);
    let form = Form::Text(default);
    Property { name, column, form, attribute, kinds, visible, right, flexible: true }
}

const fn hidden(property: Property) -> Property {
    Property { visible: false, ..property }
}

/// All of them, in the order of `zfs get all`.
pub static PROPERTIES: &[Property] = &[
    text("type", "TYPE", None, ReadOnly, FVSB),
    time("creation", "CREATION", FVSB),
    number("used", "USED", 0, ReadOnly, FVS),
    number("available", "AVAIL", 0, ReadOnly, FV),
    number("referenced", "REFER", 0, ReadOnly, FVSB),
    number("compressratio", "RATIO", 0, ReadOnly, FVSB),
    word("mounted", "MOUNTED", SWITCH, 0, ReadOnly, F),
    text("origin", "ORIGIN", None, ReadOnly, FV),
    number("quota", "QUOTA", 0, Own, F),
    number("reservation", "RESERV", 0, Own, FV),
    number("volsize", "VOLSIZE", 0, Own, VS),
    number("volblocksize", "VOLBLOCK", 16 << 10, OneTime, V),
    number("recordsize", "RECSIZE", 128 << 10, Inherit, F),
    text("mountpoint", "MOUNTPOINT", Some("/"), Inherit, F),
    text("sharenfs", "SHARENFS", Some("off"), Inherit, F),
    word("checksum", "CHECKSUM", CHECKSUM, 1, Inherit, FV),
    word("compression", "COMPRESS", COMPRESSION, 1, Inherit, FV),
    word("atime", "ATIME", SWITCH, 1, Inherit, F),
    word("devices", "DEVICES", SWITCH, 1, Inherit, FS),
    word("exec", "EXEC", SWITCH, 1, Inherit, FS),
    word("setuid", "SETUID", SWITCH, 1, Inherit, FS),
    word("readonly", "RDONLY", SWITCH, 0, Inherit, FV),
    word("zoned", "ZONED", SWITCH, 0, Inherit, F),
    word("snapdir", "SNAPDIR", SNAPDIR, 0, Inherit, F),
    word("aclmode", "ACLMODE", ACL_MODE, 0, Inherit, F),
    word("aclinherit", "ACLINHERIT", ACL_INHERIT, 4, Inherit, F),
    identity("createtxg", "CREATETXG", ReadOnly, FVSB),
    hidden(text("name", "NAME", None, ReadOnly, FVSB)),
    word("canmount", "CANMOUNT", CAN_MOUNT, 1, Own, F),
    word("xattr", "XATTR", XATTR, 2, Inherit, FS),
    hidden(number("numclones", "NUMCLONES", 0, ReadOnly, S)),
    word("copies", "COPIES", COPIES, 1, Inherit, FV),
    word("version", "VERSION", VERSION, 0, Own, FS),
    word("utf8only", "UTF8ONLY", SWITCH, 0, OneTime, FS),
    word("normalization", "NORMALIZATION", NORMALIZATION, 0, OneTime, FS),
    word("casesensitivity", "CASE", CASE, 0, OneTime, FS),
    word("vscan", "VSCAN", SWITCH, 0, Inherit, F),
    word("nbmand", "NBMAND", SWITCH, 0, Inherit, FS),
    text("sharesmb", "SHARESMB", Some("off"), Inherit, F),
    number("refquota", "REFQUOTA", 0, Own, F),
    number("refreservation", "REFRESERV", 0, Own, FV),
    identity("guid", "GUID", ReadOnly, FVSB),
    word("primarycache", "PRIMARYCACHE", CACHE, 2, Inherit, FVS),
    word("secondarycache", "SECONDARYCACHE", CACHE, 2, Inherit, FVS),
    number("usedbysnapshots", "USEDSNAP", 0, ReadOnly, FV),
    number("usedbydataset", "USEDDS", 0, ReadOnly, FV),
    number("usedbychildren", "USEDCHILD", 0, ReadOnly, FV),
    number("usedbyrefreservation", "USEDREFRESERV", 0, ReadOnly, FV),
    word("defer_destroy", "DEFER_DESTROY", SWITCH, 0, ReadOnly, S),
    number("userrefs", "USERREFS", 0, ReadOnly, S),
    word("logbias", "LOGBIAS", LOG_BIAS, 0, Inherit, FV),
    hidden(number("unique", "UNIQUE", 0, ReadOnly, FVS)),
    identity("objsetid", "OBJSETID", ReadOnly, FVS),
    word("dedup", "DEDUP", DEDUP, 2, Inherit, FV),
    text("mlslabel", "MLSLABEL", Some("none"), Inherit, FVS),
    word("sync", "SYNC", SYNC, 0, Inherit, FV),
    word("dnodesize", "DNSIZE", DNODE_SIZE, 0, Inherit, F),
    number("refcompressratio", "REFRATIO", 0, ReadOnly, FVS),
    number("written", "WRITTEN", 0, ReadOnly, FVS),
    text("clones", "CLONES", None, ReadOnly, S),
    number("logicalused", "LUSED", 0, ReadOnly, FV),
    number("logicalreferenced", "LREFER", 0, ReadOnly, FVSB),
    hidden(number("inconsistent", "INCONSISTENT", 0, ReadOnly, FVS)),
    word("volmode", "VOLMODE", VOLUME_MODE, 0, Inherit, FV),
    number("filesystem_limit", "FSLIMIT", u64::MAX, Own, F),
    number("snapshot_limit", "SSLIMIT", u64::MAX, Own, FV),
    number("filesystem_count", "FSCOUNT", u64::MAX, ReadOnly, F),
    number("snapshot_count", "SSCOUNT", u64::MAX, ReadOnly, FV),
    word("snapdev", "SNAPDEV", SNAPDEV, 0, Inherit, FV),
    word("acltype", "ACLTYPE", ACL_TYPE, 0, Inherit, FS),
    text("context", "CONTEXT", Some("none"), Own, FVS),
    text("fscontext", "FSCONTEXT", Some("none"), Own, FVS),
    text("defcontext", "DEFCONTEXT", Some("none"), Own, FVS),
    text("rootcontext", "ROOTCONTEXT", Some("none"), Own, FVS),
    word("relatime", "RELATIME", SWITCH, 1, Inherit, F),
    word("redundant_metadata", "REDUND_MD", REDUNDANT_METADATA, 0, Inherit, FV),
    word("overlay", "OVERLAY", SWITCH, 1, Inherit, F),
    hidden(text("prevsnap", "PREVSNAP", None, ReadOnly, FV)),
    text("receive_resume_token", "RESUMETOK", None, ReadOnly, FV),
    word("encryption", "ENCRYPTION", ENCRYPTION, 2, OneTime, FVS),
    text("keylocation", "KEYLOCATION", Some("none"), Own, FV),
    word("keyformat", "KEYFORMAT", KEY_FORMAT, 0, OneTimeDefault, FV),
    hidden(number("pbkdf2salt", "PBKDF2SALT", 0, OneTimeDefault, FV)),
    identity("pbkdf2iters", "PBKDF2ITERS", OneTimeDefault, FV),
    text("encryptionroot", "ENCROOT", None, ReadOnly, FVS),
    hidden(identity("keyguid", "KEYGUID", ReadOnly, FVS)),
    word("keystatus", "KEYSTATUS", KEY_STATUS, 0, ReadOnly, FVS),
    number("special_small_blocks", "SPECIAL_SMALL_BLOCKS", 0, Inherit, F),
    hidden(identity("ivsetguid", "IVSETGUID", ReadOnly, FVSB)),
    hidden(number("redacted", "REDACTED", 0, ReadOnly, FVS)),
    text("redact_snaps", "RSNAPS", None, ReadOnly, FVSB),
    time("snapshots_changed", "SNAPSHOTS_CHANGED", FV),
    word("prefetch", "PREFETCH", CACHE, 2, Inherit, FVS),
    word("volthreading", "zvol threading", SWITCH, 1, Own, V),
    word("direct", "DIRECT", DIRECT, 1, Inherit, F),
    word("longname", "LONGNAME", SWITCH, 0, Inherit, F),
];
