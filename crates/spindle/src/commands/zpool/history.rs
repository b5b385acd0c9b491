//! `zpool history`: what was done to pools.
//!
//! Commands always; with `-i` what they did, too, and with `-l` who ran them and where.
//!
//! Source: OpenZFS 2.3, `zpool_main.c` (`print_history_records`), `libnvpair.c` (`dump_nvlist`).

use super::opened::{no_pool, say_called_alike, say_missing};
use crate::commands::clock;
use crate::output::{Failure, print, say};
use crate::printable;
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use std::fmt::Write;
use std::rc::Rc;
use zfs::show;
use zfs_format::nvlist::{NvList, Text, Value};

#[derive(Args)]
pub struct HistoryArgs {
    /// What was done within, too
    #[arg(short = 'i')]
    internal: bool,
    /// Who did it, and where
    #[arg(short = 'l')]
    long: bool,
    /// Pools; all where none are named
    names: Vec<String>,
}

/// Words for events of pools from before they were named, by number.
const OLD_EVENTS: [&str; 41] = [
    "invalid event",
    "pool create",
    "vdev add",
    "pool remove",
    "pool destroy",
    "pool export",
    "pool import",
    "vdev attach",
    "vdev replace",
    "vdev detach",
    "vdev online",
    "vdev offline",
    "vdev upgrade",
    "pool clear",
    "pool scrub",
    "pool property set",
    "create",
    "clone",
    "destroy",
    "destroy_begin_sync",
    "inherit",
    "property set",
    "quota set",
    "permission update",
    "permission remove",
    "permission who remove",
    "promote",
    "receive",
    "rename",
    "reservation set",
    "replay_inc_sync",
    "replay_full_sync",
    "rollback",
    "snapshot",
    "filesystem version upgrade",
    "refquota set",
    "refreservation set",
    "pool scrub done",
    "user hold",
    "user release",
    "pool split",
];

pub fn run(args: &HistoryArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let (chosen, without) = pools.chosen(&args.names)?;
    say_called_alike(&pools, &args.names);
    let failed = say_missing(&without, no_pool);
    if chosen.is_empty() && !failed {
        say("no pools available");
    }
    let zone = clock::local();
    for found in &chosen {
        let spa = pools.open_found(found)?;
        let pool = Rc::clone(&spa);
        let records = pools.wait(async move { pool.history().await });
        let refused = |error| Failure::failed(format!("cannot open '{}': {error}", found.name));
        let mut text = format!("History for '{}':\n", printable::word(&found.name));
        for record in records.map_err(refused)? {
            write_record(&mut text, &record, args, &zone);
        }
        text.push('\n');
        print(&text)?;
    }
    if failed { Err(Failure::said()) } else { Ok(()) }
}

fn text_of(record: &NvList, name: &'static str) -> String {
    let text = record.text(name).ok().flatten();
    text.map_or(String::new(), |text| printable::bytes(text.as_bytes()))
}

fn number_of(record: &NvList, name: &'static str) -> u64 {
    record.u64(name).ok().flatten().unwrap_or(0)
}

/// A record; nothing where it is of the inside and that is not wanted.
fn write_record(out: &mut String, record: &NvList, args: &HistoryArgs, clock: show::Clock<'_>) {
    let mut when = match record.has("history time") {
        true => show::stamp(number_of(record, "history time"), clock),
        false => String::new(),
    };
    if let Some(Value::Int64(nanoseconds)) = record.get("elapsed_ns") {
        when.push_str(&format!(" ({}ms)", nanoseconds / 1_000_000));
    }
    let txg = number_of(record, "history txg");
    // Writing to a string can't fail.
    if record.has("history command") {
        let _ = write!(out, "{when} {}", text_of(record, "history command"));
    } else if !args.internal {
        return;
    } else if record.has("history internal event") {
        let event = number_of(record, "history internal event");
        let what = text_of(record, "history internal str");
        match usize::try_from(event).ok().and_then(|event| OLD_EVENTS.get(event)) {
            Some(event) => {
                let _ = write!(out, "{when} [internal {event} txg:{txg}] {what}");
            }
            None => {
                let _ = writeln!(out, "{when} unrecognized record:");
                dump(out, record, 4);
                return;
            }
        }
    } else if record.has("internal_name") {
        let _ = write!(out, "{when} [txg:{txg}] {}", text_of(record, "internal_name"));
        if record.has("dsname") {
            let (name, id) = (text_of(record, "dsname"), number_of(record, "dsid"));
            let _ = write!(out, " {name} ({id})");
        }
        let _ = write!(out, " {}", text_of(record, "history internal str"));
    } else if record.has("ioctl") {
        let _ = writeln!(out, "{when} ioctl {}", text_of(record, "ioctl"));
        for (name, head) in [("in_nvl", "input"), ("out_nvl", "output")] {
            if let Ok(Some(list)) = record.list(name) {
                let _ = writeln!(out, "    {head}:");
                dump(out, list, 8);
            }
        }
        if let Some(Value::Int64(size)) = record.get("out_size") {
            let _ = writeln!(out, "    output nvlist omitted; original size: {}KB", size / 1024);
        }
        if let Some(Value::Int64(code)) = record.get("errno") {
            let _ = writeln!(out, "    errno: {code}");
        }
    } else {
        let _ = writeln!(out, "{when} unrecognized record:");
        dump(out, record, 4);
    }
    if args.long {
        out.push_str(&who(record));
    }
    out.push('\n');
}

fn who(record: &NvList) -> String {
    let mut text = " [".to_owned();
    if record.has("history who") {
        let id = number_of(record, "history who");
        text.push_str(&format!("user {id} "));
        text.push_str(&user_name(id).map_or(String::new(), |name| format!("({name}) ")));
    }
    if record.has("history hostname") {
        text.push_str(&format!("on {}", text_of(record, "history hostname")));
    }
    if record.has("history zone") {
        text.push_str(&format!(":{}", text_of(record, "history zone")));
    }
    text.push(']');
    text
}

/// A user's name on this host.
fn user_name(id: u64) -> Option<String> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let of_id = |parts: &Vec<&str>| parts.get(2).and_then(|word| word.parse().ok()) == Some(id);
    lines.find(of_id).and_then(|parts| parts.first().map(|name| (*name).to_owned()))
}

fn quoted(text: &Text) -> String {
    format!("'{}'", printable::bytes(text.as_bytes()))
}

/// A list, one name a line. Depth is bounded by the decoder.
pub fn dump(out: &mut String, list: &NvList, indent: usize) {
    fn each<T: std::fmt::Display>(out: &mut String, indent: usize, name: &str, values: &[T]) {
        for (n, value) in values.iter().enumerate() {
            let _ = writeln!(out, "{:indent$}{name}[{n}]: {value}", "");
        }
    }
    for (name, value) in &list.pairs {
        let name = printable::bytes(name.as_bytes());
        let mut one = |text: String| {
            let _ = writeln!(out, "{:indent$}{name}: {text}", "");
        };
        match value {
            Value::Boolean => {
                let _ = writeln!(out, "{:indent$}{name}", "");
            }
            Value::BooleanValue(value) => one(value.to_string()),
            Value::Byte(value) | Value::Uint8(value) => one(value.to_string()),
            Value::Int8(value) => one(value.to_string()),
            Value::Int16(value) => one(value.to_string()),
            Value::Uint16(value) => one(value.to_string()),
            Value::Int32(value) => one(value.to_string()),
            Value::Uint32(value) => one(value.to_string()),
            Value::Int64(value) | Value::Hrtime(value) => one(value.to_string()),
            Value::Uint64(value) => one(value.to_string()),
            Value::String(value) => one(quoted(value)),
            Value::Double(value) => one(value.to_string()),
            Value::ByteArray(values) | Value::Uint8Array(values) => {
                each(out, indent, &name, values)
            }
            Value::Int8Array(values) => each(out, indent, &name, values),
            Value::Int16Array(values) => each(out, indent, &name, values),
            Value::Uint16Array(values) => each(out, indent, &name, values),
            Value::Int32Array(values) => each(out, indent, &name, values),
            Value::Uint32Array(values) => each(out, indent, &name, values),
            Value::Int64Array(values) => each(out, indent, &name, values),
            Value::Uint64Array(values) => each(out, indent, &name, values),
            Value::BooleanArray(values) => each(out, indent, &name, values),
            Value::StringArray(values) => {
                let quoted: Vec<String> = values.iter().map(quoted).collect();
                each(out, indent, &name, &quoted);
            }
            Value::NvList(list) => {
                let _ = writeln!(out, "{:indent$}{name}:", "");
                dump(out, list, indent + 4);
            }
            Value::NvListArray(lists) => {
                for (n, list) in lists.iter().enumerate() {
                    let _ = writeln!(out, "{:indent$}{name}[{n}]:", "");
                    dump(out, list, indent + 4);
                }
            }
        }
    }
}
