//! `zpool list`: pools, one a line; with `-v` their vdevs below.
//!
//! Space is known of top-level vdevs; of a device only its size.

use super::get::{pool, pool_of_picture, shown};
use super::opened::{All, Opened, by_name, no_pool, say_lacking, shown_of};
use super::tree::{self, CLASSES, Naming};
use crate::commands::elsewhere::say_others_than_pools;
use crate::commands::form::FormArgs;
use crate::commands::zfs::json;
use crate::events::refuse_denied;
use crate::output::{Failure, print, print_json};
use crate::printable;
use attach::pools::running::protocol::Picture;
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use serde_json::{Map, Value};
use std::rc::Rc;
use zfs::dsl::property::effective::Origin;
use zfs::health::{Health, VdevHealth};
use zfs::inspect::property::{PoolProperty, is_known_name};
use zfs::inspect::space::VdevSpace;
use zfs::show;
use zfs::spa::FoundPool;
use zfs::spa::expand::expandable;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Class;

/// The properties that are shown where none are asked for.
const DEFAULT: &str = "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot";
/// What tells apart those of one name, behind which it stands for people who asked for no columns.
const APART: &str = "guid";
/// What stands beside the name of a class.
const DASHES: &str = "      -      -      -        -         -      -      -      -         -";
/// The names' column is at least so wide with `-v`.
const NAME_MIN: usize = 9;

#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    form: FormArgs,
    /// With vdevs
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Devices by their whole paths
    #[arg(short = 'P')]
    paths: bool,
    /// Vdevs by their GUIDs
    #[arg(short = 'g')]
    guids: bool,
    /// Pools by their GUIDs, with -j
    #[arg(long = "json-pool-key-guid", requires = "json")]
    by_guid: bool,
    /// Properties, with commas between
    #[arg(short = 'o', value_name = "PROPERTY,...")]
    columns: Option<String>,
    /// No heads: they were printed.
    #[arg(skip)]
    pub without_head: bool,
    /// Pools, all where none are named; then seconds between lists, and how many
    #[arg(value_name = "POOL... [INTERVAL [COUNT]]")]
    pub names: Vec<String>,
}

/// How vdevs are written.
struct Form {
    naming: Naming,
    literal: bool,
    numbers: bool,
    scripted: bool,
    width: usize,
    /// What stands between the name of a vdev and its columns.
    beside: usize,
}

pub fn run(args: &ListArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let columns: Vec<&str> = args.columns.as_deref().unwrap_or(DEFAULT).split(',').collect();
    if let Some(name) = columns.iter().find(|name| !is_known_name(name)) {
        return Err(Failure::usage(format!("bad property list: invalid property '{name}'")));
    }
    let pools = Pools::find(place)?;
    let (all, held) = Opened::all_and_held(&pools, &args.names, no_pool)?;
    let All { opened, lost, failed } = all;
    opened.iter().for_each(|one| say_lacking(&one.view.name, &one.lost()));
    let literal = args.form.literal || args.form.numbers;
    let naming = Naming { paths: args.paths, guids: args.guids, missing_by_guid: true };
    let name_width = |one: &Opened| {
        let pool = Some(one.view.name.as_str());
        let below = tree::width(&one.health, pool, 0, &one.devices, naming);
        one.state.spares.iter().chain(&one.state.cache).fold(below, |width, vdev| {
            width.max(tree::shown(vdev, 0, &one.devices, naming).len() + 2)
        })
    };
    let width = opened.iter().map(name_width).fold(NAME_MIN, usize::max);
    let (numbers, scripted, beside) = (args.form.numbers, args.form.scripted, 0);
    let mut form = Form { naming, literal, numbers, scripted, width, beside };
    let mut columns = columns;
    let names = opened.iter().map(|one| &*one.view.name).chain(lost.iter().map(|one| &*one.name));
    let mut names: Vec<&str> = names.chain(held.iter().map(|one| &*one.name)).collect();
    names.sort_unstable();
    let are_alike = names.windows(2).any(|two| two[0] == two[1]);
    if are_alike && args.columns.is_none() && !scripted && !args.form.json {
        columns.insert(1, APART);
        let guids = opened.iter().map(|one| one.view.guid).chain(lost.iter().map(|one| one.guid));
        let widest =
            guids.chain(held.iter().map(|one| one.guid)).map(|guid| guid.to_string().len());
        form.beside = 2 + widest.fold(super::get::width(APART).0, usize::max);
    }
    if args.form.json {
        if !failed {
            print_json(&as_json(&opened, &held, &columns, args, &form))?;
        }
    } else if opened.is_empty() && held.is_empty() && !failed && !args.form.scripted {
        print("no pools available\n")?;
        say_others_than_pools(pools.disks(), place.devices);
    } else {
        print(&as_text(&opened, (&lost, &held), &columns, args, &form))?;
    }
    if failed { Err(Failure::said()) } else { refuse_denied(pools.disks().context()) }
}

fn as_text(
    opened: &[Opened],
    (lost, held): (&[Rc<FoundPool>], &[Picture]),
    columns: &[&str],
    args: &ListArgs,
    form: &Form,
) -> String {
    let cells = |one: &Opened| -> Vec<String> {
        let cell =
            |name: &&str| shown(&one.view, name, form.literal).map_or("-".to_owned(), |s| s.0);
        columns.iter().map(cell).map(|text| printable::word(&text).into_owned()).collect()
    };
    // Of a pool that does not open its label says this much.
    let known = |found: &Rc<FoundPool>| -> Vec<String> {
        let cell = |name: &&str| match *name {
            "name" => printable::word(&found.name).into_owned(),
            "guid" => found.guid.to_string(),
            "health" => Health::Unavailable.name().to_owned(),
            _ => "-".to_owned(),
        };
        columns.iter().map(cell).collect()
    };
    let told = |picture: &Picture| -> Vec<String> {
        let cell = |name: &&str| shown_of(picture, name).map_or("-".to_owned(), |shown| shown.0);
        columns.iter().map(cell).map(|text| printable::word(&text).into_owned()).collect()
    };
    let others = lost.iter().map(known).chain(held.iter().map(told));
    let rows: Vec<Vec<String>> = opened.iter().map(cells).chain(others).collect();
    let mut widths = Vec::new();
    for (n, name) in columns.iter().enumerate() {
        let (mut width, grows) = super::get::width(name);
        if grows || form.literal || *name == APART {
            width = rows.iter().map(|row| row[n].len()).fold(width, usize::max);
        }
        widths.push(if n == 0 && args.verbose { form.width } else { width });
    }
    let right = |name: &str| PoolProperty::find(name).is_some_and(PoolProperty::right);
    let mut text = String::new();
    let line = |cells: &[String], text: &mut String| {
        for (n, (cell, name)) in cells.iter().zip(columns).enumerate() {
            let width = widths[n];
            text.push_str(match (n, form.scripted) {
                (0, _) => "",
                (_, true) => "\t",
                (_, false) => "  ",
            });
            text.push_str(&match right(name) {
                _ if form.scripted => cell.clone(),
                true => format!("{cell:>width$}"),
                false if n + 1 == cells.len() => cell.clone(),
                false => format!("{cell:<width$}"),
            });
        }
        text.push('\n');
    };
    if !form.scripted && !args.without_head && !rows.is_empty() {
        let head = |name: &&str| {
            PoolProperty::find(name).map_or(name.to_uppercase(), |known| known.column.to_owned())
        };
        line(&columns.iter().map(head).collect::<Vec<_>>(), &mut text);
    }
    for (one, row) in opened.iter().zip(&rows) {
        line(row, &mut text);
        if args.verbose {
            vdevs(&mut text, one, form);
        }
    }
    rows.iter().skip(opened.len()).for_each(|row| line(row, &mut text));
    text
}

/// Name and value of what is shown of a vdev.
fn cells(
    one: &Opened,
    node: &VdevHealth,
    spare: Option<&str>,
    form: &Form,
) -> Vec<(&'static str, String)> {
    let vdev = &node.vdev;
    let space = one.view.space.vdevs.get(&vdev.id);
    // A leaf that is a top-level vdev itself has space too; one below, or a spare, has none.
    let is_top = one.spa.vdevs().children.iter().any(|top| top.guid == vdev.guid);
    let none = VdevSpace::default();
    let cache = cache_space(one, node);
    let space = cache.as_ref().or(space.filter(|_| is_top));
    let has_space = space.is_some_and(|space| space.size != 0);
    let space = space.unwrap_or(&none);
    let count = |number: u64| if form.literal { number.to_string() } else { show::count(number) };
    let valid = |text: String| if has_space { text } else { "-".to_owned() };
    let zero = |number: u64| if number == 0 { "-".to_owned() } else { count(number) };
    let is_open = vdev.is_leaf() && node.health <= Health::Degraded;
    let physical = physical_size(one, vdev).filter(|_| is_open);
    let size = match physical {
        Some(bytes) => count(bytes),
        None => valid(zero(space.size)),
    };
    let share =
        (u128::from(space.allocated) * 10_000).checked_div(space.size.into()).unwrap_or(0) as u64;
    let vdevs = one.spa.vdevs();
    let more = vdevs.children.iter().find(|top| top.guid == vdev.guid);
    let more = more.map_or(0, |top| expandable(top, &one.sizes));
    let fragmentation = space.fragmentation.filter(|_| has_space);
    vec![
        ("size", size),
        ("allocated", valid(count(space.allocated))),
        ("free", valid(count(space.size.saturating_sub(space.allocated)))),
        ("checkpoint", valid(zero(space.checkpoint))),
        ("expandsize", zero(more)),
        ("fragmentation", fragmentation.map_or("-".to_owned(), |n| show::percent(n, form.literal))),
        ("capacity", valid(capacity(share, form.literal))),
        ("dedupratio", "-".to_owned()),
        ("health", spare.unwrap_or(node.health.name()).to_owned()),
    ]
}

/// Bytes of a device; spare space of a dRAID stands in for the smallest of its devices.
fn physical_size(one: &Opened, vdev: &Vdev) -> Option<u64> {
    if vdev.kind != VdevKind::DraidSpare {
        return one.sizes.get(&vdev.guid).copied();
    }
    let vdevs = one.spa.vdevs();
    let draids = vdevs.children.iter();
    let draids = draids.filter(|top| matches!(top.kind, VdevKind::Draid(_)));
    draids.flat_map(Vdev::leaves).filter_map(|leaf| one.sizes.get(&leaf.guid).copied()).min()
}

/// Parts of ten thousand as percent, in four characters.
fn capacity(share: u64, literal: bool) -> String {
    let percent = share as f64 / 100.0;
    match share {
        _ if literal => (share / 100).to_string(),
        0..1000 => format!("{percent:.2}%"),
        1000..10_000 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// A cache device's space: it is all free, since nothing is cached.
fn cache_space(one: &Opened, node: &VdevHealth) -> Option<VdevSpace> {
    let is_cache = one.state.cache.iter().any(|vdev| vdev.guid == node.vdev.guid);
    let bytes = one.sizes.get(&node.vdev.guid).filter(|_| is_cache)?;
    let size = zfs::spa::expand::usable(*bytes);
    Some(VdevSpace { size, fragmentation: Some(0), ..VdevSpace::default() })
}

fn vdevs(text: &mut String, one: &Opened, form: &Form) {
    let (width, beside) = (form.width, form.beside);
    let class = |text: &mut String, name: &str| {
        text.push_str(&format!("{name:<width$}{:beside$}{DASHES}\n", ""));
    };
    for top in tree::normal(&one.health) {
        vdev(text, one, top, 2, None, form);
    }
    for (of, name) in CLASSES.map(|(of, name)| (of, if of == Class::Log { "logs" } else { name })) {
        let tops = tree::of_class(&one.health, of);
        if !tops.is_empty() {
            class(text, name);
        }
        for top in tops {
            vdev(text, one, top, 2, None, form);
        }
    }
    for (name, devices, is_spare) in
        [("cache", &one.state.cache, false), ("spare", &one.state.spares, true)]
    {
        if !devices.is_empty() {
            class(text, name);
        }
        for device in devices {
            let node = auxiliary(one, device);
            let spare = is_spare.then(|| spare_state(one, &node));
            vdev(text, one, &node, 2, spare, form);
        }
    }
}

/// A spare or cache device, which no tree has.
pub fn auxiliary(one: &Opened, device: &Vdev) -> VdevHealth {
    let present = one.devices.keys().copied().collect();
    zfs::health::of_vdev(device, &present)
}

/// How a spare is.
pub fn spare_state(one: &Opened, spare: &VdevHealth) -> &'static str {
    let in_use = one.spa.vdevs().leaves().iter().any(|leaf| leaf.guid == spare.vdev.guid);
    match spare.health {
        _ if in_use => "INUSE",
        Health::Online => "AVAIL",
        other => other.name(),
    }
}

fn vdev(
    text: &mut String,
    one: &Opened,
    node: &VdevHealth,
    depth: usize,
    spare: Option<&str>,
    form: &Form,
) {
    let name = tree::shown(&node.vdev, node.children.len(), &one.devices, form.naming);
    if form.scripted {
        text.push_str(&format!("\t{name}"));
    } else {
        let (width, beside) = (form.width.saturating_sub(depth), form.beside);
        text.push_str(&format!("{:depth$}{name:<width$}{:beside$}", "", ""));
    }
    for (property, value) in cells(one, node, spare, form) {
        let width = PoolProperty::find(property).map_or(0, PoolProperty::width);
        match form.scripted {
            true => text.push_str(&format!("\t{value}")),
            false => text.push_str(&format!("  {value:>width$}")),
        }
    }
    text.push('\n');
    for child in &node.children {
        vdev(text, one, child, depth + 2, spare, form);
    }
}

fn as_json(
    opened: &[Opened],
    held: &[Picture],
    columns: &[&str],
    args: &ListArgs,
    form: &Form,
) -> String {
    let mut objects = Vec::new();
    for one in opened {
        let mut object = pool(one, true, args.form.numbers);
        let mut properties = Map::new();
        for name in columns.iter().filter(|name| **name != "name") {
            let name = PoolProperty::find(name).map_or(*name, |known| known.name);
            if let Some((value, origin)) = shown(&one.view, name, form.literal) {
                let value = json::property(&value, &origin, None, args.form.numbers);
                properties.insert(name.to_owned(), value);
            }
        }
        object.insert("properties".to_owned(), Value::Object(properties));
        if args.verbose {
            let normal =
                tree::normal(&one.health).map(|top| node_json(one, top, "normal", None, form));
            object.insert("vdevs".to_owned(), Value::Object(normal.collect()));
            for (of, name) in CLASSES {
                let class = class_name(of);
                let tops = tree::of_class(&one.health, of).into_iter();
                let tops: Map<String, Value> =
                    tops.map(|top| node_json(one, top, class, None, form)).collect();
                if !tops.is_empty() {
                    object.insert(name.to_owned(), Value::Object(tops));
                }
            }
            for (name, class, devices, is_spare) in [
                ("l2cache", "l2cache", &one.state.cache, false),
                ("spares", "spare", &one.state.spares, true),
            ] {
                let mut all = Map::new();
                for device in devices {
                    let node = auxiliary(one, device);
                    let spare = is_spare.then(|| spare_state(one, &node));
                    all.extend([node_json(one, &node, class, spare, form)]);
                }
                if !all.is_empty() {
                    object.insert(name.to_owned(), Value::Object(all));
                }
            }
        }
        objects.push((&*one.view.name, one.view.guid, object));
    }
    for picture in held {
        let mut object = pool_of_picture(picture, args.form.numbers);
        let of = columns.iter().filter(|name| **name != "name").filter_map(|name| {
            let (value, origin) = shown_of(picture, name)?;
            let value = json::property(&value, &origin, None, args.form.numbers);
            Some((PoolProperty::find(name)?.name.to_owned(), value))
        });
        object.insert("properties".to_owned(), Value::Object(of.collect()));
        objects.push((&*picture.name, picture.guid, object));
    }
    let mut object = json::schema("zpool list");
    object.insert("pools".to_owned(), Value::Object(by_name(objects, args.by_guid)));
    json::line(object)
}

/// The name of a class in JSON.
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::Normal => "normal",
        Class::Log | Class::EmbeddedLog => "log",
        Class::Special => "special",
        Class::Dedup => "dedup",
    }
}

/// What JSON says of a vdev itself.
pub fn vdev_info(
    one: &Opened,
    node: &VdevHealth,
    name: &str,
    class: &str,
    numbers: bool,
) -> Map<String, Value> {
    let vdev = &node.vdev;
    let mut object = Map::new();
    object.insert("name".to_owned(), name.into());
    object.insert("vdev_type".to_owned(), tree::kind(vdev).into());
    object.insert("guid".to_owned(), json::value(&vdev.guid.to_string(), numbers));
    if vdev.is_leaf()
        && let Some(path) = tree::path(vdev, &one.devices)
    {
        object.insert("path".to_owned(), path.into());
    }
    object.insert("class".to_owned(), class.into());
    object.insert("state".to_owned(), node.health.name().into());
    object
}

fn node_json(
    one: &Opened,
    node: &VdevHealth,
    class: &str,
    spare: Option<&str>,
    form: &Form,
) -> (String, Value) {
    let name = tree::name(&node.vdev, node.children.len(), &one.devices, form.naming);
    let mut object = vdev_info(one, node, &name, class, form.numbers);
    let properties = cells(one, node, spare, form).into_iter();
    let properties: Map<String, Value> = properties
        .map(|(property, value)| {
            let value = json::property(&value, &Origin::None, None, form.numbers);
            (property.to_owned(), value)
        })
        .collect();
    object.insert("properties".to_owned(), Value::Object(properties));
    if !node.children.is_empty() {
        let below = node.children.iter();
        let below = below.map(|child| node_json(one, child, class, None, form));
        object.insert("vdevs".to_owned(), Value::Object(below.collect()));
    }
    (name, Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_take_four_characters() {
        let texts = [0, 123, 999, 1234, 9999, 10_000].map(|share| capacity(share, false));
        assert_eq!(texts, ["0.00%", "1.23%", "9.99%", "12.3%", "100.0%", "100%"]);
        assert_eq!(capacity(1234, true), "12");
    }
}
