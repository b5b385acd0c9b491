//! `spindle zfs stat`: all that is known of a file.
//!
//! Besides what `stat` shows: the object and its blocks, which stretches are data, extended attributes, and the lists
//! of access: POSIX ones, which are extended attributes, and NFSv4's, which ZFS keeps with every file, in the words
//! that `nfs4_getfacl` prints.

use super::source::{Source, ViewArgs};
use super::{json, show};
use crate::output::{Failure, print, print_json};
use crate::printable;
use ::zfs::ZfsError;
use ::zfs::zpl::{FileSystem, Node};
use attach::pools::PoolPlace;
use attach::pools::Session;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write;
use zfs_format::zpl::acl::{self, AclEntry, Who};
use zfs_format::zpl::directory::FileKind;
use zfs_format::zpl::posix_acl;

/// Stretches of data that are shown; files of databases have many thousands.
const STRETCHES_MAX: usize = 64;
/// Bytes of an extended attribute's value that are shown as text.
const VALUE_BYTES_MAX: usize = 256;

// What `stat` takes.
#[derive(Args)]
pub struct StatArgs {
    /// The files; a symbolic link is shown itself
    #[arg(required = true, value_name = "DATASET[@SNAPSHOT]:PATH")]
    files: Vec<OsString>,
    /// As JSON
    #[arg(short = 'j', long)]
    json: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// What is known beyond attributes.
struct Known {
    target: Option<Vec<u8>>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    access: Option<Vec<AclEntry>>,
    /// Stretches of data, from and until.
    data: Vec<(u64, u64)>,
    more: bool,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &StatArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view.view())?;
    let mut values = Vec::new();
    for argument in &args.files {
        let source = Source::find(&session, argument)?;
        let node = source.node(&session, source.content)?;
        let (files, its) = (source.files.clone(), node.clone());
        let known = session.wait(async move { known(&files, &its).await });
        let known = known.map_err(|error| source.failed(&source.path, error))?;
        match args.json {
            true => values.push(json_of(&source, &node, &known)),
            false => print(&text_of(&source, &node, &known))?,
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&Value::Array(values)).expect("it is JSON");
        print_json(&format!("{text}\n"))?;
    }
    Ok(())
}

async fn known(files: &FileSystem, node: &Node) -> Result<Known, ZfsError> {
    let target = match node.attributes.kind {
        FileKind::SymbolicLink => Some(files.link_target(node).await?),
        _ => None,
    };
    let attributes = files.extended_attributes(node).await?;
    let access = files.access_list(node).await?;
    let (mut data, mut more) = (Vec::new(), false);
    if node.attributes.kind == FileKind::File {
        let size = node.attributes.size;
        let mut at = 0;
        while let Some(from) = node.dnode().next_data(at).await?.filter(|from| *from < size) {
            if data.len() == STRETCHES_MAX {
                more = true;
                break;
            }
            let until = node.dnode().next_hole(from).await?.min(size);
            data.push((from, until));
            if until <= from {
                break;
            }
            at = until;
        }
    }
    Ok(Known { target, attributes, access, data, more })
}

fn text_of(source: &Source, node: &Node, known: &Known) -> String {
    let a = &node.attributes;
    let dnode = node.dnode().phys();
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{label:>10}: {value}");
    };
    line("file", printable::bytes(&[source.of.name().as_bytes(), b":/", &source.path].concat()));
    line("type", show::kind(a.kind).to_owned());
    if let Some(target) = &known.target {
        line("target", printable::bytes(target));
    }
    line("size", format!("{} bytes", a.size));
    line("object", format!("{}, generation {}, parent {}", node.number(), a.generation, a.parent));
    let (block, levels) = (dnode.data_block_bytes(), dnode.levels);
    line(
        "blocks",
        format!("{block} bytes each, {levels} levels, {} bytes allocated", dnode.used_bytes()),
    );
    if a.kind == FileKind::File {
        let stretches: Vec<String> =
            known.data.iter().map(|(from, until)| format!("{from}-{until}")).collect();
        let more = if known.more { ", and more" } else { "" };
        line(
            "data",
            if stretches.is_empty() { "none".into() } else { stretches.join(", ") + more },
        );
    }
    line("mode", format!("{:04o} {}", a.permissions, show::mode(a)));
    line("owner", format!("{}, group {}{}", who(a.user), who(a.group), project(a.project)));
    line("links", a.links.to_string());
    if matches!(a.kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        let (major, minor) = a.device_numbers();
        line("device", format!("{major}, {minor}"));
    }
    line("accessed", show::moment(a.accessed));
    line("modified", show::moment(a.modified));
    line("changed", show::moment(a.changed));
    line("created", show::moment(a.created));
    line("flags", format!("{:#x}", a.flags));
    for (name, value) in &known.attributes {
        line("attribute", format!("{} = {}", printable::bytes(name), value_of(name, value)));
    }
    for entry in known.access.iter().flatten() {
        line("access", access_of(entry));
    }
    text
}

fn json_of(source: &Source, node: &Node, known: &Known) -> Value {
    let a = &node.attributes;
    let dnode = node.dnode().phys();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let named = |name: &[u8]| match std::str::from_utf8(name) {
        Ok(name) => name.to_owned(),
        Err(_) => printable::bytes(name),
    };
    let pairs = known.attributes.iter().map(|(name, value)| (named(name), hex(value).into()));
    let (major, minor) = a.device_numbers();
    let is_device = matches!(a.kind, FileKind::CharacterDevice | FileKind::BlockDevice);
    let mut object = json!({
        "dataset": source.of.name(),
        "path": null,
        "type": show::kind(a.kind),
        "target": null,
        "size": a.size,
        "object": node.number(),
        "generation": a.generation,
        "parent": a.parent,
        "block_bytes": dnode.data_block_bytes(),
        "levels": dnode.levels,
        "allocated_bytes": dnode.used_bytes(),
        "data": known.data.iter().map(|(from, until)| json!([from, until])).collect::<Vec<_>>(),
        "data_is_whole": !known.more,
        "mode": format!("{:04o}", a.permissions),
        "uid": a.user.id(),
        "gid": a.group.id(),
        "project": a.project,
        "links": a.links,
        "device": is_device.then(|| json!([major, minor])),
        "accessed": show::moment_utc(a.accessed),
        "accessed_ns": show::moment_ns(a.accessed),
        "modified": show::moment_utc(a.modified),
        "modified_ns": show::moment_ns(a.modified),
        "changed": show::moment_utc(a.changed),
        "changed_ns": show::moment_ns(a.changed),
        "created": show::moment_utc(a.created),
        "created_ns": show::moment_ns(a.created),
        "flags": a.flags,
        "xattrs_hex": pairs.collect::<serde_json::Map<String, Value>>(),
        "access_list": known.access.iter().flatten().map(access_of).collect::<Vec<_>>(),
    });
    json::put_bytes(&mut object, "path", &source.path);
    if let Some(target) = &known.target {
        json::put_bytes(&mut object, "target", target);
    }
    object
}

fn who(fuid: zfs_format::zpl::Fuid) -> String {
    match fuid.domain() {
        0 => fuid.id().to_string(),
        domain => format!("{} of domain {domain}", fuid.id()),
    }
}

fn project(number: u64) -> String {
    if number == 0 { String::new() } else { format!(", project {number}") }
}

/// A value as text: lists of access in words, text as it is, the rest in hexadecimal digits.
fn value_of(name: &[u8], value: &[u8]) -> String {
    if name.starts_with(b"system.posix_acl_")
        && let Ok(entries) = posix_acl::decode(value)
    {
        let entry = |entry: &posix_acl::PosixAclEntry| {
            let bit =
                |bit: u16, letter: char| if entry.permissions & bit != 0 { letter } else { '-' };
            let rights: String = [bit(4, 'r'), bit(2, 'w'), bit(1, 'x')].iter().collect();
            match entry.tag {
                1 => format!("user::{rights}"),
                2 => format!("user:{}:{rights}", entry.id),
                4 => format!("group::{rights}"),
                8 => format!("group:{}:{rights}", entry.id),
                16 => format!("mask::{rights}"),
                32 => format!("other::{rights}"),
                tag => format!("{tag}:{}:{rights}", entry.id),
            }
        };
        return entries.iter().map(entry).collect::<Vec<_>>().join(",");
    }
    let shown = &value[..value.len().min(VALUE_BYTES_MAX)];
    let more = if shown.len() < value.len() {
        format!("... ({} bytes)", value.len())
    } else {
        String::new()
    };
    match std::str::from_utf8(shown) {
        Ok(text) if printable::word(text) == text => {
            format!("\"{text}\"{more}")
        }
        _ => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("0x{digits}{more}")
        }
    }
}

/// Letters of an NFSv4 mask, by bit.
const RIGHTS: [(u32, char); 14] = [
    (0x1, 'r'),
    (0x2, 'w'),
    (0x4, 'a'),
    (0x20, 'x'),
    (0x40, 'D'),
    (0x1_0000, 'd'),
    (0x80, 't'),
    (0x100, 'T'),
    (0x8, 'n'),
    (0x10, 'N'),
    (0x2_0000, 'c'),
    (0x4_0000, 'C'),
    (0x8_0000, 'o'),
    (0x10_0000, 'y'),
];

/// Letters of inheritance and meaning, by flag.
const FLAGS: [(u16, char); 7] =
    [(0x1, 'f'), (0x2, 'd'), (0x4, 'n'), (0x8, 'i'), (0x10, 'S'), (0x20, 'F'), (0x80, 'I')];

/// An entry as `type:flags:who:rights`.
fn access_of(entry: &AclEntry) -> String {
    let kind = match entry.kind % 5 {
        0 => 'A',
        1 => 'D',
        2 => 'U',
        _ => 'L',
    };
    let is_group = entry.flags & acl::IDENTIFIER_GROUP != 0;
    let mut flags: String =
        FLAGS.iter().filter(|(bit, _)| entry.flags & bit != 0).map(|(_, letter)| *letter).collect();
    if is_group {
        flags.push('g');
    }
    let who = match entry.who {
        Who::Id(fuid) => who(fuid),
        Who::InFlags if entry.flags & acl::OWNER != 0 => "OWNER@".into(),
        Who::InFlags if entry.flags & acl::GROUP != 0 => "GROUP@".into(),
        Who::InFlags => "EVERYONE@".into(),
    };
    let rights: String =
        RIGHTS.iter().filter(|(bit, _)| entry.mask & bit != 0).map(|(_, letter)| *letter).collect();
    format!("{kind}:{flags}:{who}:{rights}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_access_are_readable() {
        let entry = AclEntry {
            kind: 0,
            flags: acl::OWNER,
            mask: 0x1f_01ff,
            who: Who::InFlags,
            objects: None,
        };
        assert_eq!(access_of(&entry), "A::OWNER@:rwaxDdtTnNcCoy");
        let group = AclEntry {
            kind: 1,
            flags: acl::IDENTIFIER_GROUP | 3,
            mask: 0x3,
            who: Who::Id(zfs_format::zpl::Fuid(77)),
            objects: None,
        };
        assert_eq!(access_of(&group), "D:fdg:77:rw");
        let list = posix_acl::encode(&[posix_acl::PosixAclEntry { tag: 2, permissions: 5, id: 9 }]);
        assert_eq!(value_of(b"system.posix_acl_access", &list), "user:9:r-x");
        assert_eq!(value_of(b"user.x", b"a\0"), "0x6100");
        assert_eq!(value_of(b"user.x", b"text"), "\"text\"");
    }
}
