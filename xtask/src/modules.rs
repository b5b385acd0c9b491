//! The modules of a crate, and what each uses of the others: read from the sources as text.
//!
//! No compiler is asked, so this takes a moment and needs no build. What it knows of Rust:
//! * comments, strings and `#[cfg(test)] mod tests { … }` say nothing about how the code hangs together, so they are
//!   blanked first;
//! * a path that begins with `crate`, `super`, `self` or the name of a child is followed to the module that it names;
//! * `pub use` in a module is a door, not a use: who asks that module for the name is led on to where the name stands.
//!   A module that also speaks the name itself uses it.
//!
//! What it doesn't know: macros that make paths, and traits whose methods are called without naming them. So an arrow
//! can be missing; one that is drawn is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Doors behind doors that are followed at the most: a circle of `pub use` ends there.
const DOORS_MAX: usize = 16;

/// A module: a file of its own.
pub struct Module {
    /// Its path within the crate; the root's is empty.
    pub path: Vec<String>,
    /// Where it lies.
    pub file: PathBuf,
    /// The first paragraph of its head, in one line; empty where it has none.
    pub head: String,
    /// Lines, all told.
    pub lines: usize,
    /// Its text without comments, strings and tests.
    code: String,
    uses: Vec<Use>,
}

impl Module {
    /// Its path as Rust writes it; the root's is `crate`.
    pub fn shown_path(&self) -> String {
        if self.path.is_empty() { "crate".into() } else { self.path.join("::") }
    }

    /// Assertions that are on in release, outside of tests.
    pub fn assertions(&self) -> usize {
        let is_of_tests = is_of_tests(&self.path);
        let count = |kind: &str| {
            let found = self.code.match_indices(kind);
            found.filter(|(at, _)| !self.code[..*at].ends_with(is_word_sign)).count()
        };
        match is_of_tests {
            true => 0,
            false => ["assert!(", "assert_eq!(", "assert_ne!("].into_iter().map(count).sum(),
        }
    }

    /// Whether `unsafe` is forbidden here and below.
    pub fn forbids_unsafe(&self) -> bool {
        self.code.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]")
    }
}

/// A name that `use` brings in.
struct Use {
    path: Vec<String>,
    /// What it is called here.
    name: String,
    /// Others can ask this module for it.
    is_door: bool,
}

/// The modules of the crate whose sources lie in a folder, in the order of their paths.
///
/// # Errors
/// Where a file or folder can't be read.
pub fn of(src: &Path) -> Result<Vec<Module>, String> {
    let mut files = Vec::new();
    rust_files(src, &mut files)?;
    let mut modules = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("reading {}: {error}", file.display()))?;
        let Ok(inside) = file.strip_prefix(src) else { continue };
        let mut path: Vec<String> = inside
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let is_root = path.len() == 1 && ["lib", "main"].contains(&path[0].as_str());
        if is_root || path.last().is_some_and(|last| last == "mod") {
            path.pop();
        }
        let code = without_tests(&blanked(&text));
        let uses = uses(&code);
        let (head, lines) = (head(&text), text.lines().count());
        modules.push(Module { path, file, head, lines, code, uses });
    }
    modules.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(modules)
}

/// Circles among modules: each a list of at least two that use one another, by their places in `modules`. Files that hold
/// nothing but tests are not looked at.
pub fn circles(modules: &[Module]) -> Vec<Vec<usize>> {
    let by_path: BTreeMap<&[String], usize> =
        modules.iter().enumerate().map(|(n, module)| (module.path.as_slice(), n)).collect();
    let arrows: Vec<BTreeSet<usize>> = (0..modules.len())
        .map(|n| {
            if is_of_tests(&modules[n].path) { BTreeSet::new() } else { used(modules, &by_path, n) }
        })
        .collect();
    // Two modules are in one circle where each reaches the other. Crates have hundreds of modules, not thousands.
    let reached: Vec<BTreeSet<usize>> = (0..modules.len()).map(|n| reach(&arrows, n)).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for n in 0..modules.len() {
        let circle: Vec<usize> =
            reached[n].iter().copied().filter(|other| reached[*other].contains(&n)).collect();
        if circle.len() > 1 && seen.insert(circle[0]) {
            circles.push(circle);
        }
    }
    circles
}

/// Test files of a module are named `tests`.
fn is_of_tests(path: &[String]) -> bool {
    path.iter().any(|part| part == "tests")
}

fn reach(arrows: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(n) = next.pop() {
        next.extend(arrows[n].iter().copied().filter(|to| reached.insert(*to)));
    }
    reached
}

/// The modules that one uses.
fn used(modules: &[Module], by_path: &BTreeMap<&[String], usize>, own: usize) -> BTreeSet<usize> {
    let module = &modules[own];
    let mut used = BTreeSet::new();
    let mut paths: Vec<Vec<String>> = Vec::new();
    for one in &module.uses {
        // The name stands in the `use` itself once.
        if !one.is_door || times_named(&module.code, &one.name) > 1 {
            paths.push(one.path.clone());
        }
    }
    paths.extend(spoken_paths(&without_uses(&module.code)));
    for path in paths {
        let Some(absolute) = absolute(&module.path, &path, by_path) else { continue };
        let end = follow(modules, by_path, absolute, DOORS_MAX);
        used.extend(end.filter(|end| *end != own && !is_of_tests(&modules[*end].path)));
    }
    used
}

/// A path from the crate's root; none where it leads out of the crate.
fn absolute(
    own: &[String],
    path: &[String],
    by_path: &BTreeMap<&[String], usize>,
) -> Option<Vec<String>> {
    let mut base = own.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        child => {
            base.push(child.to_owned());
            by_path.get(base.as_slice())?;
            rest = &path[1..];
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// The module that a path from the root names, or that holds what it names.
fn follow(
    modules: &[Module],
    by_path: &BTreeMap<&[String], usize>,
    path: Vec<String>,
    doors: usize,
) -> Option<usize> {
    let len = (0..=path.len()).rev().find(|len| by_path.contains_key(&path[..*len]))?;
    let at = by_path[&path[..len]];
    let Some(name) = path.get(len) else { return Some(at) };
    let module = &modules[at];
    let is_it = |one: &&Use| one.is_door && one.name == *name && doors > 0;
    if let Some(door) = module.uses.iter().find(is_it)
        && let Some(mut onward) = absolute(&module.path, &door.path, by_path)
    {
        onward.extend(path[len + 1..].iter().cloned());
        return follow(modules, by_path, onward, doors - 1);
    }
    Some(at)
}

/// Paths that code speaks outside of `use`: two parts at least.
fn spoken_paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_word(bytes[at]) {
            let end = word_end(bytes, at);
            path.push(code[at..end].to_owned());
            at = end;
            if bytes[at..].starts_with(b"::")
                && bytes.get(at + 2).is_some_and(|byte| is_word(*byte))
            {
                at += 2;
                continue;
            }
            if path.len() > 1 {
                paths.push(std::mem::take(&mut path));
            }
            path.clear();
        } else {
            at += 1;
        }
    }
    paths
}

/// Without `use`: what those bring in is known from [`uses`], and a door is none.
fn without_uses(code: &str) -> String {
    let is_use = |statement: &str| {
        let statement = statement.trim_start();
        let behind = match statement.strip_prefix("pub") {
            Some(rest) => rest.trim_start_matches(|sign| sign != ' '),
            None => statement,
        };
        behind.trim_start().starts_with("use ")
    };
    // A statement ends with `;`; what stands before it in the same piece ends with a bracket or an attribute.
    let mut out = String::with_capacity(code.len());
    for piece in code.split_inclusive(';') {
        let start = piece.match_indices('\n').map(|(at, _)| at + 1);
        let found = std::iter::once(0).chain(start).find(|at| is_use(&piece[*at..]));
        out.push_str(&piece[..found.unwrap_or(piece.len())]);
    }
    out
}

/// What all `use` of a text bring in.
fn uses(code: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("use ") {
        let at = from + found;
        from = at + 4;
        if at > 0 && is_word(code.as_bytes()[at - 1]) {
            continue;
        }
        let Some(end) = code[from..].find(';') else { break };
        let before = code[..at].rfind(['\n', ';', '}', '{']).map_or(0, |place| place + 1);
        let is_door = code[before..at].trim_start().starts_with("pub");
        tree(&code[from..from + end], &[], is_door, &mut uses);
        from += end;
    }
    uses
}

/// A tree of `use`: `a::b::{c, d as e}`.
fn tree(text: &str, before: &[String], is_door: bool, uses: &mut Vec<Use>) {
    let text = text.trim();
    if let Some(open) = text.find('{') {
        let mut base = before.to_vec();
        let front = text[..open].split("::").map(str::trim);
        base.extend(front.filter(|part| !part.is_empty()).map(str::to_owned));
        let inside = text[open + 1..].strip_suffix('}').unwrap_or(&text[open + 1..]);
        let (mut depth, mut start) = (0, 0);
        for (at, sign) in inside.char_indices() {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    tree(&inside[start..at], &base, is_door, uses);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return tree(&inside[start..], &base, is_door, uses);
    }
    if text.is_empty() {
        return;
    }
    let (path, alias) = match text.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim())),
        None => (text, None),
    };
    let mut full = before.to_vec();
    full.extend(
        path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()),
    );
    // `use a::{self}` and `use a::*` speak of `a`.
    if full.len() > 1 && full.last().is_some_and(|last| last == "self" || last == "*") {
        full.pop();
    }
    let name = alias.map(str::to_owned).or_else(|| full.last().cloned()).unwrap_or_default();
    uses.push(Use { path: full, name, is_door });
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_word_sign(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

fn word_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| !is_word(*byte)).map_or(bytes.len(), |len| from + len)
}

/// How often a text speaks a name; a method of that name is another thing.
fn times_named(code: &str, name: &str) -> usize {
    let stands_alone = |at: usize| {
        let (before, behind) = (&code[..at], &code[at + name.len()..]);
        !before.ends_with(|sign| is_word_sign(sign) || sign == '.')
            && !behind.starts_with(is_word_sign)
    };
    code.match_indices(name).filter(|(at, _)| stands_alone(*at)).count()
}

/// The text with blanks for comments, strings and characters: line ends stay.
pub fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let len = if rest.starts_with(b"//") {
            rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            find(rest, b"*/", 2)
        } else if let Some(len) = raw_string(rest, out.last().copied()) {
            len
        } else if rest[0] == b'"' {
            quoted(rest)
        } else if rest[0] == b'\'' {
            character(rest)
        } else {
            0
        };
        if len == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(
                bytes[at..at + len].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }),
            );
            at += len;
        }
    }
    // Only whole strings and comments were blanked, so what is left is text.
    String::from_utf8(out).unwrap_or_default()
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> usize {
    let found = bytes
        .get(from..)
        .and_then(|rest| rest.windows(what.len()).position(|window| window == what));
    found.map_or(bytes.len(), |place| from + place + what.len())
}

fn raw_string(bytes: &[u8], before: Option<u8>) -> Option<usize> {
    if before.is_some_and(is_word) {
        return None;
    }
    let start = if bytes.starts_with(b"br") {
        2
    } else if bytes.starts_with(b"r") {
        1
    } else {
        return None;
    };
    let hashes = bytes[start..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(start + hashes) != Some(&b'"') {
        return None;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    Some(find(bytes, &end, start + hashes + 1))
}

fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The length of a character in quotes; 0 of a lifetime.
fn character(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&b'\\') {
        return find(bytes, b"'", 3);
    }
    let end = bytes.iter().skip(2).take(4).position(|byte| *byte == b'\'');
    let one = |end: usize| {
        std::str::from_utf8(&bytes[1..end + 2]).is_ok_and(|text| text.chars().count() == 1)
    };
    end.filter(|end| one(*end)).map_or(0, |end| end + 3)
}

/// Without the bodies of `#[cfg(test)]` modules.
pub fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        let behind = &rest[at..];
        let open = behind.find('{').unwrap_or(behind.len());
        let semicolon = behind.find(';').map_or(behind.len(), |place| place + 1);
        let len = if open < semicolon { block_end(behind, open) } else { semicolon };
        rest = &behind[len..];
    }
    out.push_str(rest);
    out
}

fn block_end(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The first paragraph of a file's head, in one line.
fn head(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let first: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    first.join(" ")
}

/// All Rust files below a folder, in the order of their names.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("reading the folder {}: {error}", folder.display());
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(failed)?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Module>) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let modules = of(folder.path()).expect("read");
        (folder, modules)
    }

    fn names(modules: &[Module], circles: Vec<Vec<usize>>) -> Vec<Vec<String>> {
        let name = |n: usize| modules[n].path.join("::");
        circles.into_iter().map(|circle| circle.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let (_folder, modules) = crate_of(&[
            ("lib.rs", "//! Root.\nmod a;\nmod b;\n"),
            ("a.rs", "//! A.\nuse crate::b::{B, C as D};\npub struct A(B, D);\n"),
            ("b.rs", "//! B.\npub struct B;\nfn f() -> Option<super::a::A> { None }\n"),
        ]);
        assert_eq!(names(&modules, circles(&modules)), [["a", "b"]]);
    }

    #[test]
    fn a_door_leads_on_and_is_no_use() {
        let (_folder, modules) = crate_of(&[
            ("lib.rs", "//! Root.\nmod a;\n"),
            ("a/mod.rs", "//! A.\nmod one;\nmod two;\npub use one::One;\npub use two::Two;\n"),
            ("a/one.rs", "//! One.\npub struct One;\n"),
            ("a/two.rs", "//! Two.\nuse super::One;\npub struct Two(One);\n"),
        ]);
        assert!(circles(&modules).is_empty());
    }

    #[test]
    fn a_door_to_what_needs_its_parent_is_no_use_either() {
        let (_folder, modules) = crate_of(&[
            ("lib.rs", "//! Root.\nmod a;\n"),
            (
                "a/mod.rs",
                "//! A.\nmod one;\npub use one::One;\npub(crate) use one::two;\npub struct A;\nfn f() { x.two() }\n",
            ),
            ("a/one.rs", "//! One.\npub struct One(super::A);\npub fn two() {}\n"),
        ]);
        assert!(circles(&modules).is_empty());
    }

    #[test]
    fn a_parent_whose_child_needs_it_is_a_circle() {
        let (_folder, modules) = crate_of(&[
            ("lib.rs", "//! Root.\nmod a;\n"),
            (
                "a/mod.rs",
                "//! A.\nmod one;\npub use one::One;\npub const N: u8 = 1;\nfn f(_: One) {}\n",
            ),
            ("a/one.rs", "//! One.\npub struct One([u8; super::N]);\n"),
        ]);
        assert_eq!(names(&modules, circles(&modules)), [["a", "a::one"]]);
    }

    #[test]
    fn what_a_comment_or_a_debug_build_says_is_not_counted() {
        let text = "//! A.\n// assert!(x)\n#![forbid(unsafe_code)]\nfn f() { assert!(a); debug_assert!(b); assert_eq!(c, d); }\n\
                    #[cfg(test)]\nmod tests { fn g() { assert!(e); } }\n";
        let (_folder, modules) =
            crate_of(&[("lib.rs", text), ("a.rs", "//! #![forbid(unsafe_code)]\n")]);
        assert_eq!(modules.iter().map(Module::assertions).sum::<usize>(), 2);
        assert_eq!(modules.iter().map(Module::forbids_unsafe).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn comments_strings_and_tests_are_not_code() {
        let (_folder, modules) = crate_of(&[
            ("lib.rs", "//! Root.\nmod a;\nmod b;\n"),
            ("a.rs", "//! A.\n// crate::b::B\nconst S: &str = \"crate::b::B\";\n"),
            ("b.rs", "//! B.\nuse crate::a::S;\n"),
            ("a/tests.rs", "//! Tests.\nuse crate::b::B;\n"),
        ]);
        assert!(circles(&modules).is_empty());
        let text =
            "fn f<'a>(x: &'a str) -> char { '\"' }\n#[cfg(test)]\nmod tests { fn g() {} }\nlet z;";
        let code = without_tests(&blanked(text));
        assert!(code.contains("fn f<'a>") && code.contains("let z;") && !code.contains("fn g"));
    }
}
