//! Wrong calls, each answered with one line; where it is known what was meant, the line says how that is written.
//!
//! * Devices stand before the command (`spindle -d DIR zpool list`), each with its own `-d`; how pools are opened stands
//!   behind the command's group (`spindle zfs -T 20 list`).
//! * What OpenZFS's commands have and these lack is answered by name.

use attach::typed;
use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Options of how pools are opened.
const OPENING: [&str; 4] = ["-T", "--txg", "--arc-max", "--rewind-to-checkpoint"];
/// The groups that know them.
const GROUPS: [&str; 4] = ["zpool", "zfs", "mount", "serve"];

/// What words are names of.
pub struct Names {
    /// Of commands.
    pub is_command: fn(&str) -> bool,
    /// Of tools of the lab.
    pub is_tool: fn(&str) -> bool,
}

/// The line for a call that clap refused.
pub fn line(error: &Error, arguments: &[OsString], names: &Names) -> String {
    meant(error, arguments, names).unwrap_or_else(|| one_line(&error.to_string()))
}

fn context(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// What was meant, where that can be seen.
fn meant(error: &Error, arguments: &[OsString], names: &Names) -> Option<String> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let at = words.iter().position(|word| GROUPS.contains(word));
    let group = at.map(|at| words[at]);
    let invalid = context(error, ContextKind::InvalidArg);
    let value = context(error, ContextKind::InvalidValue);
    let sub = context(error, ContextKind::InvalidSubcommand);
    if let Some(missing) = sub.and_then(|sub| missing_disk(sub, words.get(1..)?)) {
        return Some(missing);
    }
    let no_group = !words.iter().any(|word| (names.is_command)(word));
    if let Some(sub) = sub.filter(|_| no_group) {
        let tool = if sub == "bonnie++" { "bonnie" } else { sub };
        if (names.is_tool)(tool) {
            return Some(format!("{sub} stands behind 'lab': spindle lab {tool} …"));
        }
    }
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let name = invalid?.split(['=', ' ']).next()?;
            match group {
                Some(group) if matches!(name, "-d" | "--devices") => Some(devices_first(group)),
                Some(group) if OPENING.contains(&name) => {
                    Some(format!("{name} stands behind '{group}': spindle {group} {name} …"))
                }
                _ => None,
            }
        }
        ErrorKind::MissingRequiredArgument if group == Some("serve") => {
            nothing_to_serve(words.get(1..at?)?)
        }
        // `zfs list -d` is a depth.
        ErrorKind::ValueValidation if invalid?.starts_with("-d ") && group == Some("zfs") => {
            Path::new(value?).exists().then(|| devices_first("zfs"))
        }
        ErrorKind::InvalidSubcommand => {
            let sub = sub?;
            match (group, words.get(at? + 1)) {
                (Some(group), Some(after)) if *after == sub || at? + 1 < words.len() => {
                    elsewhere(group, sub)
                }
                _ => None,
            }
        }
        _ => None,
    }
    .or_else(|| {
        let stray = sub.filter(|sub| sub.contains('/') || Path::new(sub).exists())?;
        words.contains(&"-d").then(|| {
            format!("'{stray}': each device takes its own -d (-d A -d B), or name the folder that they lie in")
        })
    })
}

/// What could be served, of a call that names nothing; `before` are the words before the command.
fn nothing_to_serve(before: &[&str]) -> Option<String> {
    // `md serve` wants a set.
    if before.contains(&"md") {
        return None;
    }
    let (mut devices, mut is_value) = (Vec::new(), false);
    for word in before {
        match word.strip_prefix("--devices=") {
            Some(device) => devices.push(PathBuf::from(device)),
            None if is_value => devices.push(PathBuf::from(word)),
            None => {}
        }
        is_value = !is_value && matches!(*word, "-d" | "--devices");
    }
    let of = if devices.is_empty() { " DIR" } else { "" };
    Some(format!(
        "name a file or block device to serve, or --volume NAME for what lies on the devices of -d: {} scan{of} shows what is there, \
         and the command that serves it (see --help)",
        typed::spindle(&devices)
    ))
}

/// The path that is not there, of a call that names disks alone (a scan).
fn missing_disk(sub: &str, words: &[&str]) -> Option<String> {
    let is_path = |word: &&&str| !word.starts_with('-') && word.contains('/');
    let first = words.first().filter(|first| **first == sub)?;
    if !is_path(&first) && !Path::new(first).exists() {
        return None;
    }
    let missing = words.iter().filter(is_path).find(|path| !Path::new(path).exists())?;
    Some(format!(
        "{missing}: no such file or folder; name disks, images of them, or a folder of these"
    ))
}

fn devices_first(group: &str) -> String {
    format!("devices are named before the command: spindle -d DIR {group} …")
}

/// What is done instead of a command that OpenZFS has.
pub fn elsewhere(group: &str, name: &str) -> Option<String> {
    let instead = match (group, name) {
        ("zfs", "send" | "receive" | "recv") => {
            "there are no streams: zfs cp -r copies files out, zfs dump volumes"
        }
        ("zfs", "load-key" | "unload-key") => {
            "each command takes the key that it needs: --key-file, or typed"
        }
        (
            "zfs",
            "share" | "unshare" | "allow" | "unallow" | "change-key" | "upgrade" | "redact"
            | "program",
        ) => "spindle zfs --help lists what changes datasets",
        ("zpool", "wait" | "prefetch") => {
            "zpool status and zpool list tell how a pool is, zpool iostat what one that is held does"
        }
        (
            "zpool",
            "attach" | "detach" | "replace" | "offline" | "online" | "resilver" | "reopen",
        ) => {
            "a pool that lacks devices is read, and written degraded, as it is: zfs cp -r copies its files out, zpool scrub --read-only \
             looks for damage, and OpenZFS, which imports the pool, replaces and resilvers (spindle zpool export POOL first)"
        }
        ("zpool", "remove" | "split" | "trim" | "initialize" | "ddtprune") => {
            "spindle zpool --help lists what changes pools"
        }
        ("zpool" | "zfs", "zdb") => "spindle zpool debug shows what lies on the devices",
        _ => return None,
    };
    Some(format!("'{group} {name}' can't be done here: {instead}"))
}

/// A call of `scan` that doesn't name it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Where to look.
    pub devices: Vec<PathBuf>,
    /// Also by force.
    pub force: bool,
    /// As JSON.
    pub json: bool,
}

/// A call without a command that names devices alone is the question what lies there.
/// What is the name of a command is none of a device.
pub fn scan(
    error: &Error,
    words: impl Iterator<Item = OsString>,
    is_command: impl Fn(&str) -> bool,
) -> Option<Scan> {
    let no_command = [
        ErrorKind::InvalidSubcommand,
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ErrorKind::UnknownArgument,
    ];
    if !no_command.contains(&error.kind()) {
        return None;
    }
    let (mut scan, mut is_value) = (Scan::default(), false);
    for word in words {
        let devices = &mut scan.devices;
        match word.to_str() {
            _ if is_value => {
                is_value = false;
                devices.push(word.into());
            }
            Some("-d" | "--devices") => is_value = true,
            Some("-j" | "--json") => scan.json = true,
            Some("-f" | "--force") => scan.force = true,
            Some(text) if text.starts_with("--devices=") => {
                devices.push(text.trim_start_matches("--devices=").into());
            }
            Some(text) if is_command(text) => return None,
            _ if Path::new(&word).exists() => devices.push(word.into()),
            _ => return None,
        }
    }
    (!scan.devices.is_empty() && !is_value).then_some(scan)
}

/// clap's message without its usage block, on one line.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(str::trim)
        // What begins with a dash is hardly ever meant as a value.
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        // Nobody who mistyped something else is told to overwrite.
        .filter(|line| !(line.starts_with("tip:") && line.contains("'--force'")))
        .collect();
    let line = words.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line).replace(" tip: ", "; ");
    format!("{line} (see --help)")
}

#[cfg(test)]
mod tests {
    use crate::Arguments;
    use clap::Parser;
    use std::ffi::OsString;

    fn line(call: &[&str]) -> String {
        let error = Arguments::try_parse_from(call).err().expect("a wrong call");
        let arguments: Vec<OsString> = call.iter().map(OsString::from).collect();
        super::line(&error, &arguments, &crate::NAMES)
    }

    #[test]
    fn a_wrong_call_is_answered_with_one_line() {
        for call in [
            &["spindle", "lab", "rum"][..],
            &["spindle", "lab", "run"],
            &["spindle", "lab", "run", "x", "--jobs", "many"],
        ] {
            let line = line(call);
            assert!(!line.contains('\n') && line.contains("--help"), "{line}");
        }
        assert!(!line(&["spindle", "zfs", "list", "--colour"]).contains("as a value"));
    }

    /// What could break: a mistyped command is taken for a folder, or a folder for a mistyped command.
    #[test]
    fn devices_alone_are_scanned() {
        let scan = |call: &[&str]| {
            let all = ["spindle"].iter().chain(call);
            let error = Arguments::try_parse_from(all).err().expect("no command");
            super::scan(&error, call.iter().map(OsString::from), |word| word == "lab")
        };
        let found = |devices: &[&str]| super::Scan {
            devices: devices.iter().map(std::path::PathBuf::from).collect(),
            ..super::Scan::default()
        };
        assert_eq!(scan(&["/tmp"]), Some(found(&["/tmp"])));
        assert_eq!(scan(&["-d", "/nowhere"]), Some(found(&["/nowhere"])));
        let json = super::Scan { json: true, ..found(&["/tmp", "/dev"]) };
        assert_eq!(scan(&["/tmp", "-j", "-d", "/dev"]), Some(json));
        let force = super::Scan { force: true, ..found(&["/tmp"]) };
        assert_eq!(scan(&["/tmp", "--force"]), Some(force));
        assert_eq!(scan(&["zpol", "list"]), None);
        assert_eq!(scan(&["/tmp", "/nowhere"]), None);
        assert_eq!(scan(&[]), None);
        // Though a folder may be called so.
        assert_eq!(scan(&["lab"]), None);
    }

    #[test]
    fn a_wrong_call_says_how_it_is_written() {
        let first = "devices are named before the command: spindle -d DIR";
        let own = "each device takes its own -d";
        for (call, text) in [
            (&["spindle", "zpool", "list", "-d", "x"][..], first),
            (&["spindle", "zpool", "-d", "x", "list"], first),
            (&["spindle", "zfs", "list", "-d", "/"], first),
            (&["spindle", "-d", "a/1.raw", "a/2.raw", "zfs", "list"], own),
            (&["spindle", "-d", "X", "-T", "20", "zfs", "list"], "-T stands behind 'zfs'"),
            (
                &["spindle", "-d", "a b", "serve"],
                "or --volume NAME for what lies on the devices of -d: spindle -d 'a b' scan shows",
            ),
            (&["spindle", "serve", "--readonly"], ": spindle scan DIR shows what is there"),
            (
                &["spindle", "fio", "--name=x", "--rw=read"],
                "fio stands behind 'lab': spindle lab fio …",
            ),
            (
                &["spindle", "-d", "X", "bonnie++", "-d", "/tmp"],
                "bonnie++ stands behind 'lab': spindle lab bonnie …",
            ),
            (&["spindle", "tiobench"], ": spindle lab tiobench …"),
            (&["spindle", "zfs", "send", "tank@a"], "zfs cp -r copies files out"),
            (&["spindle", "zpool", "wait", "tank"], "zpool iostat what one that is held does"),
            (&["spindle", "zpool", "attach", "tank"], "OpenZFS, which imports the pool, replaces"),
            (&["spindle", "zpool", "trim", "tank"], "lists what changes pools"),
            (&["spindle", "zfs", "allow", "joe", "send", "tank/b"], "lists what changes datasets"),
        ] {
            let line = line(call);
            assert!(line.contains(text), "{call:?}: {line}");
        }
        for call in
            [&["spindle", "zfs", "lost"], &["spindle", "zfs", "fio"], &["spindle", "md", "fio"]]
        {
            let line = line(call);
            assert!(line.contains("--help") && !line.contains("'lab'"), "{call:?}: {line}");
        }
    }
}
