//! A property of a dataset, whatever kind of property it is: ZFS's own, a user's, an account of space, or what was
//! written since a snapshot.

use crate::output::Failure;
use std::collections::BTreeMap;
use zfs::ZfsError;
use zfs::dsl::account::{Account, Whose};
use zfs::dsl::catalog::{Catalog, Node};
use zfs::dsl::property::effective::{Origin, is_user};
use zfs::dsl::property::table::{Form, Property};
use zfs::dsl::property::view::{Kind, Style, View};
use zfs::show;

/// A property that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// One of ZFS's own.
    Native(&'static Property),
    /// A user's own.
    User(String),
    /// `userused@ID` and its like, with the name as it was written.
    Account(String, Account, Option<u64>),
    /// `written@SNAPSHOT`, with the name as it was written.
    Since(String),
}

/// What datasets are sorted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

impl Field {
    /// The property of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn of(name: &str) -> Result<Field, Failure> {
        if let Some(property) = Property::find(name) {
            return Ok(Field::Native(property));
        }
        if let Some((account, who)) = Account::of(name) {
            return Ok(Field::Account(name.to_owned(), account, id_of(account.whose, who)));
        }
        if name.starts_with("written@") || name.starts_with("written#") {
            return Ok(Field::Since(name.to_owned()));
        }
        match is_user(name) {
            true => Ok(Field::User(name.to_owned())),
            false => Err(Failure::usage(format!("bad property list: invalid property '{name}'"))),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Field::Native(property) => property.name,
            Field::User(name) | Field::Account(name, ..) | Field::Since(name) => name,
        }
    }

    /// The head of its column.
    pub fn column(&self) -> String {
        match self {
            Field::Native(property) => property.column.to_owned(),
            other => other.name().to_uppercase(),
        }
    }

    /// Whether its column is aligned to the right.
    pub fn right(&self) -> bool {
        matches!(self, Field::Native(property) if property.right)
    }

    /// The width of its column before any value is known, and whether it grows with values.
    pub fn width(&self) -> (usize, bool) {
        match self {
            Field::Native(property) => (property.width(), property.flexible),
            other => (other.name().len(), true),
        }
    }

    /// What must be looked up for it; nothing for what a view knows itself.
    ///
    /// # Errors
    /// It can't be had.
    pub async fn look_up(
        &self,
        catalog: &Catalog,
        node: &Node,
        kind: Kind,
    ) -> Result<Option<u64>, ZfsError> {
        if !matches!(kind, Kind::FileSystem | Kind::Volume) {
            return Ok(None);
        }
        match self {
            Field::Account(_, account, Some(id)) => catalog.account(node, *account, *id).await,
            Field::Since(name) => match name.strip_prefix("written@") {
                Some(snapshot) => catalog.written_since(node, snapshot).await,
                None => {
                    let mark = name.strip_prefix("written#").unwrap_or(name);
                    catalog.written_since_bookmark(node, mark).await
                }
            },
            _ => Ok(None),
        }
    }

    /// It of a dataset, as shown, with where it comes from; nothing where it doesn't apply.
    pub fn get(
        &self,
        view: &View,
        looked_up: Option<u64>,
        style: Style<'_>,
    ) -> Option<(String, Origin)> {
        let literal = style.literal;
        match self {
            Field::Native(property) => view.get(property, style),
            Field::User(name) => {
                let mut all = view.user_properties();
                all.find(|(set, _)| set.name == *name).map(|(set, text)| (text, set.origin.clone()))
            }
            Field::Account(_, account, _) => {
                let number = looked_up?;
                let text = match number {
                    _ if literal => number.to_string(),
                    0 if account.is_quota => "none".to_owned(),
                    _ if account.is_objects => show::count(number),
                    _ => show::bytes(number),
                };
                Some((text, Origin::Local))
            }
            Field::Since(_) => {
                let number = looked_up?;
                let text = if literal { number.to_string() } else { show::bytes(number) };
                Some((text, Origin::Local))
            }
        }
    }

    /// What a dataset is sorted by; nothing where it doesn't apply.
    pub fn key(&self, view: &View) -> Option<Key> {
        match self {
            Field::Native(property) if property.name == "name" => {
                Some(Key::Text(view.name.clone()))
            }
            Field::Native(property) if matches!(property.form, Form::Text(_)) => {
                let style = Style { literal: true, clock: &show::UTC };
                view.get(property, style).map(|(text, _)| Key::Text(text))
            }
            Field::Native(property) => {
                let applies = property.kinds.has(view.kind.kinds());
                let number = || view.numeric(property).map_or(0, |(number, _)| number);
                applies.then(|| Key::Number(number()))
            }
            Field::User(name) => {
                let mut all = view.user_properties();
                all.find(|(set, _)| set.name == *name).map(|(_, text)| Key::Text(text))
            }
            Field::Account(..) | Field::Since(_) => None,
        }
    }
}

/// The number of a user, group or project: as written, or as this host's lists have it.
pub fn id_of(whose: Whose, who: &str) -> Option<u64> {
    if let Ok(id) = who.parse() {
        return Some(id);
    }
    host_names(whose).into_iter().find(|(_, name)| name == who).map(|(id, _)| id)
}

/// The names that this host has for users or groups, by their numbers.
pub fn host_names(whose: Whose) -> BTreeMap<u64, String> {
    let list = match whose {
        Whose::User => "/etc/passwd",
        Whose::Group => "/etc/group",
        Whose::Project => return BTreeMap::new(),
    };
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let mut names = BTreeMap::new();
    for line in text.lines() {
        let mut parts = line.split(':');
        let (name, id) = (parts.next(), parts.nth(1).and_then(|id| id.parse().ok()));
        if let (Some(name), Some(id)) = (name, id) {
            // The first name of a number is the one that is asked for.
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}
