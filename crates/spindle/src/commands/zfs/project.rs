//! `zfs project`: which project files and directories are of, and whether a directory hands its project down.
//!
//! OpenZFS's words, but for the files: they are named within their dataset, `DATASET:PATH`, as for `zfs ls`. Only files and directories
//! have projects; whatever else lies in a directory is passed over.
//!
//! ```text
//!   without -p, -s, -C, -c   the project of each, P where it is handed down, its name
//!   -p ID, -s                sets the project, and lets directories hand it down; without -p the one that the first has
//!   -C                       sets the project back to 0, unless -k, and hands nothing down
//!   -c                       names what is not of the project, or doesn't hand it down
//! ```

use super::source::{Source, ViewArgs};
use crate::output::{Failure, print, print_bytes};
use crate::printable;
use ::zfs::spa::config::LabelState;
use ::zfs::spa::live::LiveError;
use ::zfs::zpl::descent::Descent;
use ::zfs::zpl::{FileSystem, Node};
use ::zfs::{Problem, ZfsError};
use attach::pools::{LivePool, PoolPlace, Session};
use clap::Args;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::rc::Rc;
use zfs_format::zpl::directory::FileKind;
use zfs_format::zpl::owner::NO_PROJECT;

/// Bytes of changes after which a group is committed.
const DIRTY_BYTES_MAX: u64 = 32 << 20;

// What `project` takes.
#[derive(Args)]
pub struct ProjectArgs {
    /// Directories themselves, not what is in them
    #[arg(short = 'd', conflicts_with = "recursive")]
    itself: bool,
    /// All that is below, too
    #[arg(short = 'r')]
    recursive: bool,
    /// Name what is of another project, or doesn't hand it down
    #[arg(short = 'c', conflicts_with_all = ["clear", "hand_down"])]
    check: bool,
    /// With -c: names alone, each ended by a zero byte
    #[arg(short = '0', requires = "check")]
    zero: bool,
    /// Set the project back to 0, and hand nothing down
    #[arg(short = 'C', conflicts_with_all = ["project", "hand_down"])]
    clear: bool,
    /// With -C: keep the project
    #[arg(short = 'k', requires = "clear")]
    keep: bool,
    /// The project's number
    #[arg(short = 'p', value_name = "ID")]
    project: Option<u64>,
    /// Let directories hand their project down
    #[arg(short = 's')]
    hand_down: bool,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    view: ViewArgs,
    /// Files and directories
    #[arg(required = true, value_name = "DATASET:PATH")]
    files: Vec<OsString>,
}

impl ProjectArgs {
    fn changes(&self) -> bool {
        self.clear || !self.check && (self.project.is_some() || self.hand_down)
    }

    /// Whether what lies in a directory is meant, too.
    fn goes_in(&self) -> bool {
        !self.itself && (self.recursive || !self.changes())
    }
}

/// A file or directory.
struct Found {
    number: u64,
    /// Told from what has its number later.
    generation: u64,
    /// From the root of the dataset.
    path: Vec<u8>,
    project: u64,
    hands_down: bool,
}

impl Found {
    fn of(node: &Node, path: Vec<u8>) -> Option<Found> {
        let a = &node.attributes;
        matches!(a.kind, FileKind::File | FileKind::Directory).then(|| Found {
            number: node.number(),
            generation: a.generation,
            path,
            project: a.owner().project,
            hands_down: a.handed_down().is_some(),
        })
    }
}

/// A file, and what lies in it as far as it is meant.
async fn find(
    files: FileSystem,
    top: Node,
    path: Vec<u8>,
    (goes_in, recursive): (bool, bool),
) -> Result<Vec<Found>, ZfsError> {
    let mut found: Vec<Found> = Found::of(&top, path.clone()).into_iter().collect();
    let mut waiting = Vec::new();
    if goes_in && top.is_directory() {
        waiting.push((top.clone(), path));
    }
    while let Some((directory, path)) = waiting.pop() {
        let mut descent = Descent::new(top.number(), directory.number());
        for name in files.names(&directory).await? {
            let node = files.node(name.entry.object).await?;
            descent.enter(&node)?;
            let path = match path.is_empty() {
                true => name.name,
                false => [&path[..], b"/", &name.name].concat(),
            };
            found.extend(Found::of(&node, path.clone()));
            if recursive && node.is_directory() {
                waiting.push((node, path));
            }
        }
    }
    Ok(found)
}

/// The files of an argument.
fn looked_up(
    session: &Session,
    argument: &OsString,
    args: &ProjectArgs,
) -> Result<(Source, Vec<Found>), Failure> {
    let source = Source::find(session, argument)?;
    let node = source.node(session, true)?;
    let is_directory = node.is_directory();
    if !is_directory && node.attributes.kind != FileKind::File {
        let why = "only support project quota on regular file or directory";
        return Err(source.failed(&source.path, why));
    }
    let options = [(args.itself, 'd'), (args.recursive, 'r')];
    if let Some((_, option)) = options.into_iter().find(|(given, _)| *given && !is_directory) {
        let why = format!("'-{option}' option on non-dir target");
        return Err(source.failed(&source.path, why));
    }
    let (files, path) = (source.files.clone(), source.path.clone());
    let how = (args.goes_in(), args.recursive);
    let found = session.wait(async move { find(files, node, path, how).await });
    let found = found.map_err(|error| source.failed(&source.path, error))?;
    Ok((source, found))
}

/// What is printed of a dataset's files.
fn text(args: &ProjectArgs, name: &str, found: &[Found]) -> Vec<u8> {
    let wanted = args.project.or(found.first().map(|first| first.project)).unwrap_or(0);
    let mut text = Vec::new();
    for one in found {
        let whole = [name.as_bytes(), b":/", &one.path].concat();
        let shown = printable::bytes(&whole);
        if !args.check {
            let mark = if one.hands_down { 'P' } else { '-' };
            text.extend(format!("{:5} {mark} {shown}\n", one.project).into_bytes());
        } else if args.zero && (one.project != wanted || !one.hands_down) {
            text.extend(whole);
            text.push(0);
        } else if !args.zero {
            if one.project != wanted {
                let why = format!("project ID is not set properly ({}/{wanted})", one.project);
                text.extend(format!("{shown} - {why}\n").into_bytes());
            }
            if !one.hands_down {
                text.extend(format!("{shown} - project inherit flag is not set\n").into_bytes());
            }
        }
    }
    text
}

/// What becomes of a file, by its number and generation: its project, and whether it is handed down.
type Change = ((u64, u64), Option<u64>, Option<bool>);

fn changes(args: &ProjectArgs, found: &[Found]) -> Vec<Change> {
    let wanted = args.project.or(found.first().map(|first| first.project)).unwrap_or(0);
    let change = |one: &Found| {
        let (project, hands_down) = match args.clear {
            true => (if args.keep { one.project } else { 0 }, Some(false)),
            false => (wanted, args.hand_down.then_some(true)),
        };
        let project = (project != one.project).then_some(project);
        let hands_down = hands_down.filter(|new| *new != one.hands_down);
        (project.is_some() || hands_down.is_some()).then_some((
            (one.number, one.generation),
            project,
            hands_down,
        ))
    };
    found.iter().filter_map(change).collect()
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &ProjectArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if args.project.is_some_and(|project| project >= NO_PROJECT) {
        return Err(Failure::usage("invalid project ID"));
    }
    if let Some(held) = &place.held {
        // What programs changed just now is looked at, too.
        let live = Rc::clone(&held.live);
        let settled = held.pools.wait(async move { live.make_durable().await });
        settled.map_err(Failure::failed)?;
    }
    // What is not there, or can't have a project, is said before the pool is in use.
    let mut wanted: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    {
        let session = Session::open(place, &args.view.view())?;
        for argument in &args.files {
            let (source, found) = looked_up(&session, argument, args)?;
            if args.changes() {
                let all = wanted.entry(source.of.name().to_owned()).or_default();
                all.extend(changes(args, &found));
            } else if args.zero {
                print_bytes(&text(args, source.of.name(), &found))?;
            } else {
                print(&String::from_utf8_lossy(&text(args, source.of.name(), &found)))?;
            }
        }
    }
    for (name, all) in wanted.into_iter().filter(|(_, all)| !all.is_empty()) {
        let refuse =
            |why: &dyn std::fmt::Display| Failure::failed(format!("cannot change '{name}': {why}"));
        if name.contains('@') {
            return Err(refuse(&"snapshots stay as they are"));
        }
        let pool = LivePool::of_dataset(place, &name, args.force)?;
        let changed = match pool.node(&name)? {
            None => Err(refuse(&"dataset does not exist")),
            Some(node) => {
                let live = Rc::clone(&pool.live);
                let changed = pool.pools.wait(async move {
                    let files = live.files(&node).await?;
                    for ((number, generation), project, hands_down) in all {
                        // One that programs removed meanwhile is none of those that were meant.
                        match files.node(number).await {
                            Ok(node) if node.attributes.generation == generation => {}
                            Ok(_) | Err(ZfsError::Object { problem: Problem::Absent, .. }) => {
                                continue;
                            }
                            Err(error) => return Err(error.into()),
                        }
                        files.set_project(number, project, hands_down).await?;
                        if live.syncer().groups().dirty_bytes() >= DIRTY_BYTES_MAX {
                            live.sync(async |_| Ok(())).await?;
                        }
                    }
                    live.syncer().note_deed();
                    Ok::<(), LiveError>(())
                });
                changed.map_err(|error| refuse(&error))
            }
        };
        pool.close(LabelState::Exported)?;
        changed?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: ProjectArgs,
    }

    fn given(words: &[&str]) -> ProjectArgs {
        Words::parse_from([&["project"], words, &["tank:x"]].concat()).args
    }

    fn found(number: u64, project: u64, hands_down: bool) -> Found {
        Found { number, generation: 9, path: b"x/y".to_vec(), project, hands_down }
    }

    #[test]
    fn what_is_so_already_is_not_changed() {
        let all = [found(1, 7, true), found(2, 0, false), found(3, 7, false)];
        assert_eq!(changes(&given(&["-p", "7"]), &all), [((2, 9), Some(7), None)]);
        let set = changes(&given(&["-s", "-r"]), &all);
        assert_eq!(set, [((2, 9), Some(7), Some(true)), ((3, 9), None, Some(true))]);
        let cleared = changes(&given(&["-C"]), &all);
        assert_eq!(cleared, [((1, 9), Some(0), Some(false)), ((3, 9), Some(0), None)]);
        assert_eq!(changes(&given(&["-C", "-k"]), &all), [((1, 9), None, Some(false))]);
    }

    #[test]
    fn lists_and_checks_are_openzfss() {
        let all = [found(1, 7, true), found(2, 0, false)];
        let said = |words: &[&str]| String::from_utf8(text(&given(words), "tank", &all));
        let listed = "    7 P tank:/x/y\n    0 - tank:/x/y\n".to_owned();
        assert_eq!(said(&[]), Ok(listed));
        let checked = "tank:/x/y - project ID is not set properly (0/7)\n\
            tank:/x/y - project inherit flag is not set\n";
        assert_eq!(said(&["-c"]), Ok(checked.to_owned()));
        assert_eq!(said(&["-c", "-0"]), Ok("tank:/x/y\0".to_owned()));
    }
}
