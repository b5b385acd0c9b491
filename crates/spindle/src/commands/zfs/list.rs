//! `zfs list`: datasets, one a line, with the properties that are asked for.

use super::json;
use super::select::{Chosen, Selection, SortColumn, Wanted, kinds};
use super::shown::Field;
use crate::commands::clock;
use crate::commands::elsewhere::say_others_than_pools;
use crate::commands::form::FormArgs;
use crate::events::refuse_denied;
use crate::output::{Failure, print, print_json, say};
use crate::printable;
use attach::pools::PoolPlace;
use clap::Args;
use serde_json::{Map, Value, json as object};
use zfs::dsl::property::table::{Kinds, PROPERTIES};
use zfs::dsl::property::view::Style;

/// The properties that are shown where none are asked for.
const DEFAULT: &str = "name,used,available,referenced,mountpoint";
/// What `-o space` means.
const SPACE: &str =
    "name,available,used,usedbysnapshots,usedbydataset,usedbyrefreservation,usedbychildren";

#[derive(Args)]
pub struct ListArgs {
    /// With all below
    #[arg(short = 'r')]
    recursive: bool,
    /// With what is below, down to this depth
    #[arg(short = 'd', value_name = "DEPTH")]
    depth: Option<u64>,
    #[command(flatten)]
    form: FormArgs,
    /// Properties, with commas between; `space` for all about space, `all` for all
    #[arg(short = 'o', value_name = "PROPERTY,...")]
    columns: Option<String>,
    /// Sort by a property, the smallest first
    #[arg(short = 's', value_name = "PROPERTY")]
    ascending: Vec<String>,
    /// Sort by a property, the greatest first
    #[arg(short = 'S', value_name = "PROPERTY")]
    descending: Vec<String>,
    /// Only these: filesystem, volume, snapshot, bookmark, all
    #[arg(short = 't', value_name = "TYPE,...")]
    types: Vec<String>,
    /// Datasets; all pools where none are named
    names: Vec<String>,
}

/// The properties of a list of names.
///
/// # Errors
/// One is none.
pub fn fields(columns: &str) -> Result<Vec<Field>, Failure> {
    let mut fields = Vec::new();
    for name in columns.split(',') {
        match name {
            "space" => fields.extend(self::fields(SPACE)?),
            "all" => {
                let visible = PROPERTIES.iter().filter(|property| property.visible);
                fields.extend(visible.map(Field::Native));
            }
            name => fields.push(Field::of(name)?),
        }
    }
    Ok(fields)
}

/// The properties to sort by, in the order of the command line.
fn sort_columns(args: &ListArgs) -> Result<Vec<SortColumn>, Failure> {
    let column = |name: &String, descending| match Field::of(name) {
        Ok(field @ (Field::Native(_) | Field::User(_))) => Ok(SortColumn { field, descending }),
        _ => Err(Failure::usage(format!("invalid property '{name}'"))),
    };
    let mut columns = Vec::new();
    for name in &args.ascending {
        columns.push(column(name, false)?);
    }
    for name in &args.descending {
        columns.push(column(name, true)?);
    }
    Ok(columns)
}

pub fn run(args: &ListArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let columns = args.columns.as_deref().unwrap_or(DEFAULT);
    let fields = fields(columns)?;
    let sort = sort_columns(args)?;
    let (mut wanted_kinds, stated) = match args.types.as_slice() {
        [] => (Kinds::DATASET, false),
        types => (kinds(types)?, true),
    };
    if columns == "space" && !stated {
        wanted_kinds = wanted_kinds.without(Kinds::SNAPSHOT);
    }
    let mut wanted = Wanted {
        kinds: wanted_kinds,
        depth: args.depth,
        recursive: args.recursive || args.depth.is_some(),
        listsnapshots: !stated,
    };
    // Snapshots or bookmarks of what is named.
    let only_below = wanted_kinds == Kinds::SNAPSHOT || wanted_kinds == Kinds::BOOKMARK;
    if only_below && !args.names.is_empty() && !wanted.recursive {
        (wanted.recursive, wanted.depth) = (true, Some(1));
    }
    let (pools, mut selection) = Selection::find(place, &args.names, wanted)?;
    selection.fill(&pools, &fields);
    selection.sort(&sort);
    let clock = clock::local();
    let style = Style { literal: args.form.literal || args.form.numbers, clock: &clock };
    if args.form.json {
        if selection.chosen.is_empty() && !selection.failed && !selection.damaged {
            say("no datasets available");
            say_others_than_pools(pools.disks(), place.devices);
        }
        let mut all = json::schema("zfs list");
        let one = |chosen: &Chosen| {
            let shown = fields.iter().enumerate().filter(|(_, field)| field.name() != "name");
            let properties = shown.map(|(n, field)| {
                let looked_up = chosen.looked_up.get(n).copied().flatten();
                let (text, origin) = of(field, chosen, looked_up, style);
                (field.name().to_owned(), json::property(&text, &origin, None, args.form.numbers))
            });
            dataset(chosen, args.form.numbers, properties.collect())
        };
        let datasets: Map<String, Value> =
            selection.chosen.iter().map(|chosen| (chosen.view.name.clone(), one(chosen))).collect();
        all.insert("datasets".to_owned(), Value::Object(datasets));
        if !selection.failed {
            print_json(&json::line(all))?;
        }
    } else {
        print(&table(&fields, &selection.chosen, args.form.scripted, style))?;
        if selection.chosen.is_empty()
            && !selection.failed
            && !selection.damaged
            && !args.form.scripted
        {
            say("no datasets available");
            say_others_than_pools(pools.disks(), place.devices);
        }
    }
    match selection.failed || selection.damaged {
        true => Err(Failure::said()),
        false => refuse_denied(pools.disks().context()),
    }
}

fn of(
    field: &Field,
    chosen: &Chosen,
    looked_up: Option<u64>,
    style: Style<'_>,
) -> (String, zfs::dsl::property::effective::Origin) {
    use zfs::dsl::property::effective::Origin;
    let shown = field.get(&chosen.view, looked_up, style);
    shown.unwrap_or_else(|| ("-".to_owned(), Origin::None))
}

/// A dataset as JSON.
pub fn dataset(chosen: &Chosen, numbers: bool, properties: Map<String, Value>) -> Value {
    let view = &chosen.view;
    let txg = view.numbers.get("createtxg").copied().unwrap_or(0).to_string();
    let mut dataset = Map::new();
    dataset.insert("name".to_owned(), view.name.clone().into());
    dataset.insert("type".to_owned(), view.kind.name().to_uppercase().into());
    dataset.insert("pool".to_owned(), chosen.pool.clone().into());
    dataset.insert("createtxg".to_owned(), json::value(&txg, numbers));
    if let Some((of, name)) = view.name.split_once('@') {
        dataset.insert("dataset".to_owned(), of.into());
        dataset.insert("snapshot_name".to_owned(), name.into());
    }
    dataset.insert("properties".to_owned(), object!(properties));
    Value::Object(dataset)
}

fn table(fields: &[Field], chosen: &[Chosen], scripted: bool, style: Style<'_>) -> String {
    let mut text = String::new();
    if chosen.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = chosen
        .iter()
        .map(|one| {
            let cells = fields.iter().enumerate();
            cells
                .map(|(n, field)| {
                    let looked_up = one.looked_up.get(n).copied().flatten();
                    printable::word(&of(field, one, looked_up, style).0).into_owned()
                })
                .collect()
        })
        .collect();
    if scripted {
        for row in &rows {
            text.push_str(&format!("{}\n", row.join("\t")));
        }
        return text;
    }
    let mut widths = Vec::new();
    for (n, field) in fields.iter().enumerate() {
        let (mut width, grows) = field.width();
        if grows || style.literal {
            width = rows.iter().map(|row| row[n].len()).fold(width, usize::max);
        }
        widths.push(width);
    }
    let heads: Vec<String> = fields.iter().map(Field::column).collect();
    for row in std::iter::once(&heads).chain(&rows) {
        for (n, (cell, field)) in row.iter().zip(fields).enumerate() {
            let width = widths[n];
            let cell = match field.right() {
                true => format!("{cell:>width$}"),
                false if n + 1 == row.len() => cell.clone(),
                false => format!("{cell:<width$}"),
            };
            text.push_str(if n == 0 { "" } else { "  " });
            text.push_str(&cell);
        }
        text.push('\n');
    }
    text
}
