//! `zpool get`: properties of pools, one a line.

use super::opened::{All, Opened, by_name, shown_of, state_of};
use crate::commands::form::FormArgs;
use crate::commands::zfs::get::{Column, Row, Sources, Widths, pair, table};
use crate::commands::zfs::json;
use crate::output::{Failure, print, print_json, say};
use crate::printable;
use attach::pools::running::protocol::Picture;
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use serde_json::{Map, Value};
use zfs::dsl::property::effective::Origin;
use zfs::inspect::property::{POOL_PROPERTIES, PoolProperty, PoolView, is_known_name};

#[derive(Args)]
pub struct GetArgs {
    #[command(flatten)]
    form: FormArgs,
    /// Pools by their GUIDs, with -j
    #[arg(long = "json-pool-key-guid", requires = "json")]
    by_guid: bool,
    /// Columns: name, property, value, source; all
    #[arg(short = 'o', value_name = "COLUMN,...")]
    columns: Option<String>,
    /// Properties, with commas between; `all` for all
    #[arg(value_name = "PROPERTY,...")]
    properties: String,
    /// Pools; all where none are named
    names: Vec<String>,
}

/// A property of a pool by its name, as shown; nothing where it has none of that name.
pub fn shown(view: &PoolView, name: &str, literal: bool) -> Option<(String, Origin)> {
    if let Some(property) = PoolProperty::find(name) {
        return Some(view.get(property, literal));
    }
    if let Some(state) = view.feature(name) {
        return Some((state.to_owned(), Origin::Local));
    }
    let user = view.user.iter().find(|(known, _)| known == name);
    user.map(|(_, text)| (text.clone(), Origin::Local))
}

/// The width of a property's column, and whether it grows with values.
pub fn width(name: &str) -> (usize, bool) {
    match PoolProperty::find(name) {
        Some(property) => (property.width(), property.flexible()),
        None => (name.len(), true),
    }
}

pub fn run(args: &GetArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let columns = match args.columns.as_deref() {
        Some("all") | None => Column::list(None)?,
        some => Column::list(some)?,
    };
    if columns.contains(&Column::Received) {
        return Err(Failure::usage("invalid column name 'received'"));
    }
    let sources = Sources::list(None)?;
    let asked: Vec<&str> = match args.properties.as_str() {
        "all" => Vec::new(),
        names => names.split(',').collect(),
    };
    if let Some(name) = asked.iter().find(|name| !is_known_name(name)) {
        return Err(Failure::usage(format!("bad property list: invalid property '{name}'")));
    }
    let pools = Pools::find(place)?;
    let missing = |name: &str| format!("Cannot get properties of {name}: no such pool available.");
    let (All { opened, failed, .. }, held) = Opened::all_and_held(&pools, &args.names, missing)?;
    let mut widths = Widths::default();
    let of_open = opened.iter().map(|one| (&one.view.name, one.view.guid));
    let of_held = held.iter().map(|picture| (&picture.name, picture.guid));
    let mut told: Vec<Vec<Row>> = Vec::new();
    told.extend(opened.iter().map(|one| rows_of(args, &asked, &one.view, &mut widths)));
    told.extend(held.iter().map(|picture| rows_of_picture(&asked, picture, &mut widths)));
    let heads = opened.iter().map(|one| pool(one, true, args.form.numbers));
    let heads = heads.chain(held.iter().map(|one| pool_of_picture(one, args.form.numbers)));
    let (mut rows, mut objects) = (Vec::new(), Vec::new());
    for (((name, guid), own), mut object) in of_open.chain(of_held).zip(told).zip(heads) {
        widths.name = widths.name.max(printable::word(name).len());
        if args.form.json {
            let properties: Map<String, Value> =
                own.iter().map(|row| pair(row, args.form.numbers)).collect();
            object.insert("properties".to_owned(), Value::Object(properties));
            objects.push((name.as_str(), guid, object));
        } else {
            rows.extend(own.into_iter().filter(|row| sources.has(&row.origin)));
        }
    }
    if !args.form.json {
        print(&table(&rows, &columns, args.form.scripted, &widths))?;
    } else if !failed {
        let mut object = json::schema("zpool get");
        object.insert("pools".to_owned(), Value::Object(by_name(objects, args.by_guid)));
        print_json(&json::line(object))?;
    }
    if opened.is_empty() && held.is_empty() && !failed && !args.form.scripted && !args.form.json {
        say("no pools available");
    }
    if failed { Err(Failure::said()) } else { Ok(()) }
}

/// The rows of an open pool: those of what was asked for that it has, or all that it has.
fn rows_of(args: &GetArgs, asked: &[&str], view: &PoolView, widths: &mut Widths) -> Vec<Row> {
    let literal = args.form.literal || args.form.numbers;
    let names: Vec<String> = match asked.is_empty() {
        false => asked.iter().map(|name| (*name).to_owned()).collect(),
        true => {
            let native = POOL_PROPERTIES.iter().filter(|property| property.visible);
            let native = native.map(|property| property.name.to_owned());
            let user = view.user.iter().map(|(name, _)| name.clone());
            native.chain(user).chain(view.feature_names()).collect()
        }
    };
    let mut rows = Vec::new();
    for asked in &names {
        let property = PoolProperty::find(asked).map_or(asked.as_str(), |known| known.name);
        let (least, grows) = width(property);
        widths.property = widths.property.max(printable::word(property).len());
        widths.value = widths.value.max(least);
        let Some((value, origin)) = shown(view, property, literal) else { continue };
        let is_feature = property.contains('@');
        if (grows || literal) && !is_feature {
            widths.value = widths.value.max(printable::word(&value).len());
        }
        let (name, property) = (view.name.clone(), property.to_owned());
        rows.push(Row { name, property, value, received: None, origin });
    }
    rows
}

/// The same of a pool of which only who holds it can tell: of all properties those are left out of which nothing is known.
fn rows_of_picture(asked: &[&str], picture: &Picture, widths: &mut Widths) -> Vec<Row> {
    let all = POOL_PROPERTIES.iter().filter(|property| property.visible);
    let names: Vec<&str> = match asked.is_empty() {
        false => asked.to_vec(),
        true => all.map(|property| property.name).collect(),
    };
    let mut rows = Vec::new();
    for asked_for in names {
        let property = PoolProperty::find(asked_for).map_or(asked_for, |known| known.name);
        let (value, origin) = match shown_of(picture, property) {
            None if asked.is_empty() => continue,
            found => found.unwrap_or_else(|| ("-".to_owned(), Origin::None)),
        };
        widths.property = widths.property.max(printable::word(property).len());
        widths.value = widths.value.max(printable::word(&value).len());
        let (name, property) = (picture.name.clone(), property.to_owned());
        rows.push(Row { name, property, value, received: None, origin });
    }
    rows
}

/// The version of file systems that this software knows.
const FILE_SYSTEM_VERSION: &str = "5";
/// The version of pools.
const POOL_VERSION: &str = "5000";

/// What JSON says of a pool itself.
pub fn pool(opened: &Opened, with_type: bool, numbers: bool) -> Map<String, Value> {
    let view = &opened.view;
    object((&view.name, &view.health, view.guid), with_type, numbers)
}

/// The same of one of which only who holds it can tell.
pub fn pool_of_picture(picture: &Picture, numbers: bool) -> Map<String, Value> {
    object((&picture.name, state_of(picture), picture.guid), true, numbers)
}

fn object(
    (name, state, guid): (&str, &str, u64),
    with_type: bool,
    numbers: bool,
) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("name".to_owned(), name.into());
    if with_type {
        object.insert("type".to_owned(), "POOL".into());
    }
    object.insert("state".to_owned(), state.into());
    object.insert("pool_guid".to_owned(), json::value(&guid.to_string(), numbers));
    object.insert("spa_version".to_owned(), json::value(POOL_VERSION, numbers));
    object.insert("zpl_version".to_owned(), json::value(FILE_SYSTEM_VERSION, numbers));
    object
}
