//! `zfs get`: properties, one a line, with where each comes from.

use super::json;
use super::list::dataset;
use super::select::{Chosen, Selection, Wanted, kinds};
use super::shown::Field;
use crate::commands::clock;
use crate::commands::form::FormArgs;
use crate::output::{Failure, print, print_json};
use crate::printable;
use attach::pools::PoolPlace;
use clap::Args;
use serde_json::{Map, Value};
use zfs::dsl::property::effective::Origin;
use zfs::dsl::property::table::{Kinds, PROPERTIES};
use zfs::dsl::property::view::Style;

#[derive(Args)]
pub struct GetArgs {
    /// With all below
    #[arg(short = 'r')]
    recursive: bool,
    /// With what is below, down to this depth
    #[arg(short = 'd', value_name = "DEPTH")]
    depth: Option<u64>,
    #[command(flatten)]
    form: FormArgs,
    /// Columns: name, property, value, received, source; all
    #[arg(short = 'o', value_name = "COLUMN,...")]
    columns: Option<String>,
    /// Only values from there: local, default, inherited, received, temporary, none
    #[arg(short = 's', value_name = "SOURCE,...")]
    sources: Option<String>,
    /// Only these: filesystem, volume, snapshot, bookmark, all
    #[arg(short = 't', value_name = "TYPE,...")]
    types: Vec<String>,
    /// Properties, with commas between; `all` for all
    #[arg(value_name = "PROPERTY,...")]
    properties: String,
    /// Datasets; all pools where none are named
    names: Vec<String>,
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Name,
    Property,
    Value,
    Received,
    Source,
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Column::Name => "NAME",
            Column::Property => "PROPERTY",
            Column::Value => "VALUE",
            Column::Received => "RECEIVED",
            Column::Source => "SOURCE",
        }
    }

    /// The columns of a list of names.
    ///
    /// # Errors
    /// One is none.
    pub fn list(names: Option<&str>) -> Result<Vec<Column>, Failure> {
        use Column::{Name, Property, Received, Source, Value};
        let Some(names) = names else { return Ok(vec![Name, Property, Value, Source]) };
        if names == "all" {
            return Ok(vec![Name, Property, Value, Received, Source]);
        }
        let column = |name: &str| {
            Ok(match name {
                "name" => Name,
                "property" => Property,
                "value" => Value,
                "received" => Received,
                "source" => Source,
                other => return Err(Failure::usage(format!("invalid column name '{other}'"))),
            })
        };
        names.split(',').map(column).collect()
    }
}

/// A line of the output.
pub struct Row {
    pub name: String,
    pub property: String,
    pub value: String,
    pub received: Option<String>,
    pub origin: Origin,
}

/// Where values may come from.
pub struct Sources(Option<Vec<String>>);

impl Sources {
    /// Those of a list of names; all where there is none.
    ///
    /// # Errors
    /// One is none.
    pub fn list(names: Option<&str>) -> Result<Sources, Failure> {
        let known = ["local", "default", "inherited", "received", "temporary", "none"];
        let Some(names) = names else { return Ok(Sources(None)) };
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            Some(other) => Err(Failure::usage(format!("invalid source '{other}'"))),
            None => Ok(Sources(Some(names))),
        }
    }

    /// Whether a value from there is wanted.
    pub fn has(&self, origin: &Origin) -> bool {
        let name = match origin {
            Origin::None => "none",
            Origin::Default => "default",
            Origin::Local => "local",
            Origin::Received => "received",
            Origin::Inherited(_) => "inherited",
        };
        self.0.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }
}

/// How wide columns are at least: what they would hold if all were shown.
#[derive(Default)]
pub struct Widths {
    pub name: usize,
    pub property: usize,
    pub value: usize,
    pub received: usize,
}

/// The lines as text. Columns are as wide as all values would need, and no line is left out for that.
pub fn table(rows: &[Row], columns: &[Column], scripted: bool, widths: &Widths) -> String {
    let mut text = String::new();
    let cell = |row: &Row, column: Column| {
        let word = |text: &str| printable::word(text).into_owned();
        match column {
            Column::Name => word(&row.name),
            Column::Property => word(&row.property),
            Column::Value => word(&row.value),
            Column::Received => word(row.received.as_deref().unwrap_or("-")),
            Column::Source => word(&row.origin.to_string()),
        }
    };
    let width = |column: Column| {
        let least = match column {
            Column::Name => widths.name,
            Column::Property => widths.property,
            Column::Value => widths.value,
            Column::Received => widths.received,
            // As if all were inherited from the longest name.
            Column::Source if widths.name > "NAME".len() => widths.name + "inherited from".len(),
            Column::Source => 0,
        };
        least.max(column.head().len())
    };
    let mut line = |cells: Vec<String>| {
        for (n, (cell, column)) in cells.iter().zip(columns).enumerate() {
            if n + 1 == cells.len() {
                text.push_str(cell);
            } else if scripted {
                text.push_str(&format!("{cell}\t"));
            } else {
                let width = width(*column);
                text.push_str(&format!("{cell:<width$}  "));
            }
        }
        text.push('\n');
    };
    if !scripted && !rows.is_empty() {
        line(columns.iter().map(|column| column.head().to_owned()).collect());
    }
    for row in rows {
        line(columns.iter().map(|column| cell(row, *column)).collect());
    }
    text
}

pub fn run(args: &GetArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let columns = Column::list(args.columns.as_deref())?;
    let sources = Sources::list(args.sources.as_deref())?;
    let all = args.properties == "all";
    let mut fields = match all {
        true => {
            let visible = PROPERTIES.iter().filter(|property| property.visible);
            visible.map(Field::Native).collect()
        }
        false => super::list::fields(&args.properties)?,
    };
    let wanted_kinds = match args.types.as_slice() {
        [] => Kinds::ALL,
        types => kinds(types)?,
    };
    let mut wanted = Wanted {
        kinds: wanted_kinds,
        depth: args.depth,
        recursive: args.recursive || args.depth.is_some(),
        listsnapshots: false,
    };
    let only_below = wanted_kinds == Kinds::SNAPSHOT || wanted_kinds == Kinds::BOOKMARK;
    if only_below && !args.names.is_empty() && !wanted.recursive {
        (wanted.recursive, wanted.depth) = (true, Some(1));
    }
    let (pools, mut selection) = Selection::find(place, &args.names, wanted)?;
    if all {
        // Users' own follow, each where it is met first: a dataset is met before what is below it.
        for chosen in &selection.chosen {
            for (set, _) in chosen.view.user_properties() {
                if fields.iter().all(|field| field.name() != set.name) {
                    fields.push(Field::User(set.name.clone()));
                }
            }
        }
    }
    selection.fill(&pools, &fields);
    selection.sort(&[]);
    let clock = clock::local();
    let style = Style { literal: args.form.literal || args.form.numbers, clock: &clock };
    let received = columns.contains(&Column::Received);
    let mut widths = Widths::default();
    for field in &fields {
        widths.property = widths.property.max(printable::word(field.name()).len());
        widths.value = widths.value.max(field.width().0);
    }
    let (mut rows, mut datasets) = (Vec::new(), Map::new());
    for chosen in &selection.chosen {
        widths.name = widths.name.max(printable::word(&chosen.view.name).len());
        let found = rows_of(chosen, &fields, all, received, style, &mut widths);
        let shown: Vec<Row> = found.into_iter().filter(|row| sources.has(&row.origin)).collect();
        if args.form.json {
            let properties: Map<String, Value> =
                shown.iter().map(|row| pair(row, args.form.numbers)).collect();
            if !properties.is_empty() {
                let name = chosen.view.name.clone();
                datasets.insert(name, dataset(chosen, args.form.numbers, properties));
            }
        } else {
            rows.extend(shown);
        }
    }
    if !args.form.json {
        print(&table(&rows, &columns, args.form.scripted, &widths))?;
    } else if !selection.failed {
        let mut object = json::schema("zfs get");
        object.insert("datasets".to_owned(), Value::Object(datasets));
        print_json(&json::line(object))?;
    }
    match selection.failed || selection.damaged {
        true => Err(Failure::said()),
        false => Ok(()),
    }
}

/// A line as JSON: the property's name, and what is said of it.
pub fn pair(row: &Row, numbers: bool) -> (String, Value) {
    let value = json::property(&row.value, &row.origin, row.received.as_deref(), numbers);
    (row.property.clone(), value)
}

fn rows_of(
    chosen: &Chosen,
    fields: &[Field],
    all: bool,
    received: bool,
    style: Style<'_>,
    widths: &mut Widths,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (n, field) in fields.iter().enumerate() {
        let looked_up = chosen.looked_up.get(n).copied().flatten();
        let shown = field.get(&chosen.view, looked_up, style);
        // Of all properties, those that don't apply are left out.
        if shown.is_none() && all {
            continue;
        }
        let (value, origin) = shown.unwrap_or_else(|| ("-".to_owned(), Origin::None));
        let received = if received { chosen.view.received(field.name(), style) } else { None };
        let (_, grows) = field.width();
        if grows || style.literal {
            widths.value = widths.value.max(printable::word(&value).len());
        }
        let bytes = received.as_deref().map_or(0, |text| printable::word(text).len());
        widths.received = widths.received.max(bytes);
        let (name, property) = (chosen.view.name.clone(), field.name().to_owned());
        rows.push(Row { name, property, value, received, origin });
    }
    rows
}
