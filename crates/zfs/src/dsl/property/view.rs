//! A dataset with all that is known of it: each property as a number, as text, and where it comes from.
//!
//! What is worked out ([`View::numbers`], [`View::texts`]) goes before what is set. A number that is worked out, could
//! be set, and is the default says so: that is how `encryption off` is a default and `encryption aes-256-gcm` is not.
//!
//! Source: OpenZFS 2.3, `libzfs_dataset.c`, `dsl_prop.c`.

use super::Stored;
use super::effective::{self, Effective, Origin, value_text};
use super::mountpoint;
use super::table::{Attribute, Form, Kinds, Property};
use super::words;
use crate::show::{self, Clock};
use std::collections::BTreeMap;
use zfs_format::dsl::property::PropertyValue;

/// Among the texts that are worked out what the pool's mountpoints are below, where that is not the root of all.
pub const ALTROOT: &str = "altroot";

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file system.
    FileSystem,
    /// A volume.
    Volume,
    /// A snapshot of either.
    Snapshot,
    /// A bookmark.
    Bookmark,
}

impl Kind {
    /// As a set.
    pub fn kinds(self) -> Kinds {
        match self {
            Kind::FileSystem => Kinds::FILE_SYSTEM,
            Kind::Volume => Kinds::VOLUME,
            Kind::Snapshot => Kinds::SNAPSHOT,
            Kind::Bookmark => Kinds::BOOKMARK,
        }
    }

    /// Its name, as the property `type` has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FileSystem => "filesystem",
            Kind::Volume => "volume",
            Kind::Snapshot => "snapshot",
            Kind::Bookmark => "bookmark",
        }
    }
}

/// How values are written.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Numbers in full, for programs.
    pub literal: bool,
    /// What the clock on the wall says.
    pub clock: Clock<'a>,
}

/// A dataset. See the [module](self).
#[derive(Clone, Debug)]
pub struct View {
    /// The whole name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What the dataset is that a snapshot or bookmark is of; else the same as `kind`.
    pub head_kind: Kind,
    /// What is set for it.
    pub set: Vec<Effective>,
    /// What stands in its own table.
    pub stored: Vec<Stored>,
    /// Numbers that are worked out, by the property's name.
    pub numbers: BTreeMap<&'static str, u64>,
    /// Text that is worked out, by the property's name.
    pub texts: BTreeMap<&'static str, String>,
    /// What the file system itself says: version, normalisation, case.
    pub file_system: BTreeMap<&'static str, u64>,
}

impl View {
    fn found(&self, name: &str) -> Option<&Effective> {
        self.set.iter().find(|set| set.name == name)
    }

    /// Users' own properties, in order.
    pub fn user_properties(&self) -> impl Iterator<Item = (&Effective, String)> {
        let user = self.set.iter().filter(|set| effective::is_user(&set.name));
        user.map(|set| (set, value_text(&set.value)))
    }

    /// A property as a number, with where it comes from; nothing where it doesn't apply.
    pub fn numeric(&self, property: &Property) -> Option<(u64, Origin)> {
        // What a snapshot of a volume says of file systems means nothing.
        if self.kind == Kind::Snapshot
            && property.kinds != Kinds::SNAPSHOT
            && !property.kinds.has(self.head_kind.kinds())
        {
            return None;
        }
        let name = property.name;
        match name {
            "version" | "normalization" | "utf8only" | "casesensitivity" => {
                return self.file_system.get(name).map(|number| (*number, Origin::None));
            }
            // Who holds the pool knows what is; a command that opens a pool and closes it again mounts nothing.
            "mounted" => return Some((self.numbers.get(name).copied().unwrap_or(0), Origin::None)),
            _ => {}
        }
        let (number, origin) = self.looked_up(property)?;
        let origin = match name {
            "canmount" | "volsize" | "quota" | "refquota" | "reservation" | "refreservation"
            | "filesystem_limit" | "snapshot_limit" | "filesystem_count" | "snapshot_count"
                if origin == Origin::None =>
            {
                Origin::Local
            }
            _ => origin,
        };
        Some((number, origin))
    }

    fn looked_up(&self, property: &Property) -> Option<(u64, Origin)> {
        if let Some(number) = self.numbers.get(property.name) {
            let could_be_default = property.attribute != Attribute::ReadOnly;
            let is_default = could_be_default && *number == property.default_number();
            return Some((*number, if is_default { Origin::Default } else { Origin::None }));
        }
        if let Some(set) = self.found(property.name)
            && let PropertyValue::Number(number) = &set.value
        {
            return Some((*number, set.origin.clone()));
        }
        // How many there are is known only where somebody asked for a limit.
        let is_count = matches!(property.name, "filesystem_count" | "snapshot_count");
        let there = property.attribute != Attribute::ReadOnly || is_count;
        there.then(|| (property.default_number(), Origin::Default))
    }

    fn text(&self, property: &Property, default: Option<&str>) -> Option<(String, Origin)> {
        if let Some(text) = self.texts.get(property.name) {
            return Some((text.clone(), Origin::None));
        }
        match self.found(property.name) {
            Some(set) => Some((value_text(&set.value), set.origin.clone())),
            None => default.map(|text| (text.to_owned(), Origin::Default)),
        }
    }

    /// A property as it is shown, with where it comes from; nothing where it doesn't apply.
    pub fn get(&self, property: &Property, style: Style<'_>) -> Option<(String, Origin)> {
        if !property.kinds.has(self.kind.kinds()) {
            return None;
        }
        match (property.name, property.form) {
            ("name", _) => Some((self.name.clone(), Origin::None)),
            ("type", _) => Some((self.kind.name().to_owned(), Origin::None)),
            ("mountpoint", Form::Text(default)) => {
                let (text, origin) = self.text(property, default)?;
                let text = mountpoint::continued(&self.name, &text, &origin);
                Some((mountpoint::below(self.texts.get(ALTROOT).map(String::as_str), text), origin))
            }
            (_, Form::Text(default)) => self.text(property, default),
            _ => {
                let (number, origin) = self.numeric(property)?;
                Some((number_text(property, number, style)?, origin))
            }
        }
    }

    /// The value that a stream brought, as it is shown.
    pub fn received(&self, name: &str, style: Style<'_>) -> Option<String> {
        let value = effective::received(&self.stored, name)?;
        match (Property::named(name), value) {
            (Some(property), PropertyValue::Number(number)) => {
                number_text(property, *number, style)
            }
            _ => Some(value_text(value)),
        }
    }
}

/// The text of a property's number; nothing where it stands for none of its words.
fn number_text(property: &Property, number: u64, style: Style<'_>) -> Option<String> {
    let literal = style.literal;
    if let Form::Word(words, _) = property.form {
        return match property.name {
            "mounted" => Some(if number == 0 { "no" } else { "yes" }.to_owned()),
            _ => words::word(words, number).map(str::to_owned),
        };
    }
    Some(match property.name {
        "creation" if !literal => show::minute(number, style.clock),
        "snapshots_changed" if number == 0 => return None,
        "snapshots_changed" if !literal => show::second(number, style.clock),
        "quota" | "refquota" | "reservation" | "refreservation" if number == 0 => {
            if literal { "0" } else { "none" }.to_owned()
        }
        "filesystem_limit" | "snapshot_limit" | "filesystem_count" | "snapshot_count"
            if number == u64::MAX =>
        {
            "none".to_owned()
        }
        "refcompressratio" | "compressratio" => show::ratio(number, literal),
        _ if literal => number.to_string(),
        "guid" | "keyguid" | "ivsetguid" | "createtxg" | "objsetid" | "pbkdf2iters" => {
            number.to_string()
        }
        "quota"
        | "refquota"
        | "reservation"
        | "refreservation"
        | "referenced"
        | "available"
        | "used"
        | "usedbysnapshots"
        | "usedbydataset"
        | "usedbyrefreservation"
        | "usedbychildren" => show::bytes(number),
        _ => show::count(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(kind: Kind, set: Vec<Effective>) -> View {
        View {
            name: "t/a/b".to_owned(),
            kind,
            head_kind: kind,
            set,
            stored: Vec::new(),
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            file_system: BTreeMap::new(),
        }
    }

    fn shown(view: &View, name: &str) -> Option<(String, Origin)> {
        let style = Style { literal: false, clock: &show::UTC };
        view.get(Property::find(name).expect("a property"), style)
    }

    #[test]
    fn a_mountpoint_goes_on_where_it_is_inherited() {
        let inherited = Origin::Inherited("t".to_owned());
        for (text, origin, shown_as) in [
            ("/m", Origin::Local, "/m"),
            ("/m", inherited.clone(), "/m/a/b"),
            ("/", inherited.clone(), "/a/b"),
            ("legacy", inherited, "legacy"),
            ("/m", Origin::Received, "/m"),
        ] {
            let value = PropertyValue::Text(text.into());
            let set = Effective { name: "mountpoint".to_owned(), value, origin: origin.clone() };
            let view = view(Kind::FileSystem, vec![set]);
            assert_eq!(shown(&view, "mountpoint"), Some((shown_as.to_owned(), origin)));
        }
        let view = view(Kind::FileSystem, Vec::new());
        assert_eq!(shown(&view, "mountpoint"), Some(("/t/a/b".to_owned(), Origin::Default)));
    }

    #[test]
    fn what_is_worked_out_is_a_default_only_where_it_could_be_set() {
        let mut view = view(Kind::Volume, Vec::new());
        let at = |view: &View, name| shown(view, name).expect("it applies");
        view.numbers.extend([("encryption", 2), ("used", 0), ("volsize", 4096), ("quota", 0)]);
        assert_eq!(at(&view, "encryption"), ("off".to_owned(), Origin::Default));
        assert_eq!(at(&view, "used"), ("0B".to_owned(), Origin::None));
        assert_eq!(at(&view, "volsize"), ("4K".to_owned(), Origin::Local));
        assert_eq!(shown(&view, "quota"), None);
        assert_eq!(shown(&view, "written"), None);
        view.numbers.insert("encryption", 8);
        assert_eq!(at(&view, "encryption"), ("aes-256-gcm".to_owned(), Origin::None));
    }

    #[test]
    fn a_number_that_is_no_word_shows_nothing() {
        let value = PropertyValue::Number(99);
        let set = Effective { name: "sync".to_owned(), value, origin: Origin::Local };
        assert_eq!(shown(&view(Kind::FileSystem, vec![set]), "sync"), None);
    }
}
