//! `spindle zfs ls`: names in a directory, with `-l` as `ls -l` has them.
//!
//! Owners are numbers: whose names they are is known by the machine that the pool comes from, not by this one. Names
//! are in the order of their bytes, and are [shown](printable) so that none makes two lines; `--zero` gives them exactly. What can't be had is told, and the rest is listed all the same.

use super::source::{Source, ViewArgs, complain};
use super::{json, show};
use crate::output::{Failure, print_bytes, print_json, say};
use crate::printable;
use ::zfs::ZfsError;
use ::zfs::show as zfs_show;
use ::zfs::zpl::descent::Descent;
use ::zfs::zpl::{FileSystem, Name, Node};
use attach::pools::PoolPlace;
use attach::pools::Session;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::cell::Cell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::rc::Rc;
use zfs_format::zpl::directory::FileKind;

/// Files whose attributes are asked for at once.
const FILES_AT_ONCE: usize = 32;
/// Directories in directories that are listed.
const DEPTH_MAX: usize = 1024;

// What `ls` takes.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct LsArgs {
    /// Files and directories; DATASET: is its root
    #[arg(required = true, value_name = "DATASET[@SNAPSHOT]:PATH")]
    files: Vec<OsString>,
    /// With mode, links, owner, group, size and time
    #[arg(short = 'l')]
    long: bool,
    /// Directories within, too
    #[arg(short = 'R')]
    recursive: bool,
    /// Names that begin with a point, too
    #[arg(short = 'a')]
    all: bool,
    /// Directories themselves, not what is in them
    #[arg(short = 'd', conflicts_with = "recursive")]
    itself: bool,
    /// With -l: sizes for people
    #[arg(short = 'h')]
    human: bool,
    /// As JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Names exactly as they are, each line ended by a zero byte
    #[arg(long, conflicts_with = "json")]
    zero: bool,
    #[command(flatten)]
    view: ViewArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A line of the list.
struct Line {
    name: Vec<u8>,
    number: u64,
    kind: Option<FileKind>,
    node: Option<(Node, Option<Vec<u8>>)>,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &LsArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view.view())?;
    let lister = Lister {
        args,
        session: &session,
        failed: Cell::new(false),
        terminal: std::io::stdout().is_terminal(),
    };
    let mut listed = Vec::new();
    for argument in &args.files {
        match lister.argument(argument, &mut listed) {
            Ok(()) => {}
            Err(failure) if args.files.len() == 1 => return Err(failure),
            Err(failure) => complain(&lister.failed, &failure),
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&Value::Array(listed)).expect("it is JSON");
        print_json(&format!("{text}\n"))?;
    }
    match lister.failed.get() {
        true => Err(Failure::failed("not everything could be listed")),
        false => Ok(()),
    }
}

struct Lister<'a> {
    args: &'a LsArgs,
    session: &'a Session,
    failed: Cell<bool>,
    terminal: bool,
}

impl Lister<'_> {
    fn argument(&self, argument: &OsString, listed: &mut Vec<Value>) -> Result<(), Failure> {
        let source = Source::find(self.session, argument)?;
        let follows = source.content || !self.args.long && !self.args.itself;
        let node = source.node(self.session, follows)?;
        if !node.is_directory() || self.args.itself {
            let name = match source.path.is_empty() {
                true => b"/".to_vec(),
                false => source.path.clone(),
            };
            let (files, number) = (source.files.clone(), node.number());
            let line =
                self.session.wait(async move { line(&files, name, number, None, true).await });
            let line = line.map_err(|error| source.failed(&source.path, error))?;
            return self.print(&source, None, vec![line], listed);
        }
        let titled = self.args.recursive || self.args.files.len() > 1;
        let top = node.number();
        let mut waiting = vec![(0, source.path.clone(), node)];
        while let Some((depth, path, node)) = waiting.pop() {
            let mut descent = Descent::new(top, node.number());
            let lines = match self.directory(&source, &path, node) {
                Ok(lines) => lines,
                Err(failure) => {
                    complain(&self.failed, &failure);
                    continue;
                }
            };
            if self.args.recursive {
                let below = lines.iter().filter_map(|line| {
                    let (node, _) = line.node.as_ref()?;
                    if !node.is_directory() || is_own(&line.name) {
                        return None;
                    }
                    let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                    let below = [&path[..], separator, &line.name].concat();
                    match descent.enter(node) {
                        Ok(()) => Some((depth + 1, below, node.clone())),
                        Err(error) => {
                            complain(&self.failed, &source.failed(&below, error));
                            None
                        }
                    }
                });
                let mut below: Vec<_> = below.collect();
                below.reverse();
                match depth < DEPTH_MAX {
                    true => waiting.extend(below),
                    false if below.is_empty() => {}
                    false => {
                        let text =
                            format!("directories lie deeper than the {DEPTH_MAX} that are listed");
                        complain(&self.failed, &source.failed(&path, text));
                    }
                }
            }
            let title = titled.then_some(&path[..]);
            self.print(&source, title, lines, listed)?;
        }
        Ok(())
    }

    /// What is in a directory.
    fn directory(&self, source: &Source, path: &[u8], node: Node) -> Result<Vec<Line>, Failure> {
        let files = source.files.clone();
        let needs_nodes = self.args.long || self.args.recursive || self.args.json;
        let all = self.args.all;
        let read = self.session.wait(async move {
            let mut names = files.names(&node).await?;
            names.retain(|name| all || !name.name.starts_with(b"."));
            names.sort_by(|a, b| a.name.cmp(&b.name));
            let own = [(&b"."[..], node.number()), (b"..", node.attributes.parent)];
            let own =
                own.into_iter().filter(|_| all).map(|(name, number)| (name.to_vec(), number, None));
            let named =
                names.into_iter().map(|Name { name, entry, .. }| (name, entry.object, entry.kind));
            let lines = stream::iter(own.chain(named)).map(|(name, number, kind)| {
                let files = &files;
                async move {
                    let shown = name.clone();
                    line(files, name, number, kind, needs_nodes)
                        .await
                        .map_err(|error| (shown, number, kind, error))
                }
            });
            Ok::<_, ZfsError>(lines.buffered(FILES_AT_ONCE).collect::<Vec<_>>().await)
        });
        let read = read.map_err(|error| source.failed(path, error))?;
        if read.iter().all(|line| line.as_ref().is_ok_and(|line| is_own(&line.name))) {
            self.tell_of_child(source, path);
        }
        let keep = |line: Result<Line, (Vec<u8>, u64, Option<FileKind>, ZfsError)>| match line {
            Ok(line) => line,
            Err((name, number, kind, error)) => {
                let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                complain(&self.failed, &source.failed(&[path, separator, &name].concat(), error));
                Line { name, number, kind, node: None }
            }
        };
        Ok(read.into_iter().map(keep).collect())
    }

    /// Says that an empty directory is where a dataset belongs, if it is.
    fn tell_of_child(&self, source: &Source, path: &[u8]) {
        let Ok(path) = std::str::from_utf8(path) else { return };
        let name = format!("{}/{path}", source.of.directory.name);
        let (spa, called) = (Rc::clone(&source.of.spa), name.clone());
        // What can't be looked up is no reason to fail: the directory was listed.
        let found = self.session.wait(async move { spa.dsl().find_directory(&called).await });
        if !path.is_empty() && matches!(found, Ok(Some(_))) {
            let name = printable::word(&name);
            say(&format!("note: dataset {name} belongs there: its files are in {name}:"));
        }
    }

    fn print(
        &self,
        source: &Source,
        title: Option<&[u8]>,
        lines: Vec<Line>,
        listed: &mut Vec<Value>,
    ) -> Result<(), Failure> {
        if self.args.json {
            let dataset = source.of.name();
            let value = |line: &Line| json_of(line, dataset, title.unwrap_or_default());
            listed.extend(lines.iter().map(value));
            return Ok(());
        }
        let mut text = Vec::new();
        if let Some(title) = title {
            let dataset = source.of.name().as_bytes();
            let title = match title {
                [] => [dataset, b":"].concat(),
                path => [dataset, b":/", path, b":"].concat(),
            };
            self.word(&title, &mut text);
            self.end_line(&mut text);
        }
        let width = |of: &dyn Fn(&Node) -> u64| {
            let numbers = lines.iter().filter_map(|line| Some(of(&line.node.as_ref()?.0)));
            numbers.max().unwrap_or(0).to_string().len()
        };
        let links = width(&|node| node.attributes.links);
        let user = width(&|node| node.attributes.user.id().into());
        let group = width(&|node| node.attributes.group.id().into());
        // What is shown for people has five letters at the most.
        let widest = if self.args.human { 5 } else { width(&|node| node.attributes.size) };
        let size = widest.max(8);
        for line in &lines {
            if self.args.long {
                let columns = match &line.node {
                    None => "?????????? ".to_owned(),
                    Some((node, _)) => {
                        let a = &node.attributes;
                        let bytes = match a.kind {
                            FileKind::CharacterDevice | FileKind::BlockDevice => {
                                let (major, minor) = a.device_numbers();
                                format!("{major}, {minor}")
                            }
                            _ if self.args.human => zfs_show::bytes(a.size),
                            _ => a.size.to_string(),
                        };
                        let (uid, gid, modified) =
                            (a.user.id(), a.group.id(), show::moment(a.modified));
                        format!(
                            "{} {:>links$} {uid:>user$} {gid:>group$} {bytes:>size$} {modified} ",
                            show::mode(a),
                            a.links
                        )
                    }
                };
                text.extend(columns.as_bytes());
            }
            self.word(&line.name, &mut text);
            if let Some((_, Some(target))) = line.node.as_ref().filter(|_| self.args.long) {
                text.extend(b" -> ");
                self.word(target, &mut text);
            }
            self.end_line(&mut text);
        }
        if title.is_some() {
            self.end_line(&mut text);
        }
        print_bytes(&text)
    }

    /// A name: exact where it ends with a zero.
    fn word(&self, name: &[u8], to: &mut Vec<u8>) {
        match self.args.zero {
            true => to.extend(name),
            false => to.extend(&*printable::name(name, self.terminal)),
        }
    }

    fn end_line(&self, to: &mut Vec<u8>) {
        to.push(if self.args.zero { 0 } else { b'\n' });
    }
}

/// Whether a name is the directory's own.
fn is_own(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// A line, with the file's attributes and link if they are needed.
async fn line(
    files: &FileSystem,
    name: Vec<u8>,
    number: u64,
    kind: Option<FileKind>,
    needs_node: bool,
) -> Result<Line, ZfsError> {
    if !needs_node {
        return Ok(Line { name, number, kind, node: None });
    }
    let node = files.node(number).await?;
    let target = match node.attributes.kind {
        FileKind::SymbolicLink => Some(files.link_target(&node).await?),
        _ => None,
    };
    Ok(Line { name, number, kind: Some(node.attributes.kind), node: Some((node, target)) })
}

fn json_of(line: &Line, dataset: &str, directory: &[u8]) -> Value {
    let mut value = json!({
        "dataset": dataset,
        "directory": null,
        "name": null,
        "object": line.number,
        "type": line.kind.map(show::kind),
    });
    if let Some((node, target)) = &line.node {
        let a = &node.attributes;
        value["mode"] = format!("{:04o}", a.permissions).into();
        value["links"] = a.links.into();
        value["uid"] = a.user.id().into();
        value["gid"] = a.group.id().into();
        value["size"] = a.size.into();
        value["modified"] = show::moment_utc(a.modified).into();
        value["modified_ns"] = show::moment_ns(a.modified).into();
        value["target"] = Value::Null;
        if let Some(target) = target {
            json::put_bytes(&mut value, "target", target);
        }
    }
    json::put_bytes(&mut value, "directory", directory);
    json::put_bytes(&mut value, "name", &line.name);
    value
}
