//! Line by line.

use crate::zfs_list::{done, pool_of};
use fixtures::extent::some;
use std::collections::BTreeMap;
use std::path::Path;

/// What OpenZFS says of the pools as they lie there: see the [crate](crate).
const SPACE: &str = include_str!("space.tsv");

/// Properties whose values can't be equal, and why.
pub(crate) fn differs(kind: &str, property: &str) -> bool {
    match (kind, property) {
        // The fixture's maker had everything mounted and all keys loaded; a command that lists has neither.
        ("zfs", "mounted" | "keystatus") => true,
        // Pools are opened for reading; and what tells one import from another is no part of the pool.
        ("zpool", "readonly" | "load_guid") => true,
        _ => false,
    }
}

/// Values by name and property, and the lines' order.
type Lines = Vec<(String, String, String, String)>;

/// Lines of a table whose columns are divided by two spaces and more.
fn lines(text: &str) -> Lines {
    let rows = text.lines().filter(|line| !line.starts_with("NAME "));
    rows.map(|line| {
        let mut cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let mut next = || cells.next().unwrap_or_default().to_owned();
        (next(), next(), next(), next())
    })
    .collect()
}

/// What OpenZFS says now, by name and property.
fn now(kind: &str) -> BTreeMap<(String, String), String> {
    let rows = SPACE.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let of_kind = rows.filter(|row| row.first() == Some(&kind));
    of_kind.map(|row| ((row[1].to_owned(), row[2].to_owned()), row[3].to_owned())).collect()
}

/// The lines that should be printed.
fn expected(kind: &str, text: &str, now: &BTreeMap<(String, String), String>) -> Lines {
    let mut expected = lines(text);
    for line in &mut expected {
        if let Some(value) = now.get(&(line.0.clone(), line.1.clone())) {
            line.2.clone_from(value);
        }
        if differs(kind, &line.1) {
            line.2 = "?".to_owned();
        }
    }
    expected.retain(|line| !line.2.is_empty());
    expected
}

fn printed(kind: &str, text: &str) -> Lines {
    let rows = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.map(|row| {
        let [name, property, value, source] = row.try_into().expect("four columns");
        let value = if differs(kind, &property) { "?".to_owned() } else { value };
        (name, property, value, source)
    })
    .collect()
}

/// The first lines that differ, as text.
fn difference(expected: &Lines, printed: &Lines) -> Option<String> {
    let mut pairs = expected.iter().zip(printed).filter(|(a, b)| a != b);
    match pairs.next() {
        Some((a, b)) => Some(format!("expected {a:?}, printed {b:?}")),
        None if expected.len() != printed.len() => {
            Some(format!("expected {} lines, printed {}", expected.len(), printed.len()))
        }
        None => None,
    }
}

fn read(folder: &Path, fixture: &str, text: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(format!("{fixture}.d/{text}.txt"))).ok()
}

/// Whether two words are equal, or numbers of bytes that differ little: what the list says is allocated is of a few
/// transaction groups later, and counts space that is freed in the next ones.
fn near(a: &str, b: &str) -> bool {
    const SLACK: u64 = 128 << 10;
    match (a.parse::<u64>(), b.parse::<u64>()) {
        // Percent.
        (Ok(a), Ok(b)) if a <= 100 && b <= 100 => a.abs_diff(b) <= 1,
        (Ok(a), Ok(b)) => a.abs_diff(b) <= SLACK,
        _ => a == b,
    }
}

fn near_lines(a: &str, b: &str) -> bool {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split(' ').collect(), b.split(' ').collect());
    // A disk that was taken offline had been open before, and its size was known; now it isn't opened.
    if a.last() == Some(&"OFFLINE") {
        return (a.first(), a.last()) == (b.first(), b.last());
    }
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| near(a, b))
}

/// A line about devices without what is of the machine: names of devices, and how wide columns are for them.
fn without_devices(line: &str) -> String {
    let is_device = |word: &str| {
        let last = word.rsplit('/').next().unwrap_or(word);
        let digits =
            |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        let vd = last.strip_prefix("vd").is_some_and(|rest| rest.len() <= 3);
        last.strip_prefix("loop").is_some_and(digits) || vd || last.starts_with("disk")
    };
    let words = line.split_whitespace();
    let words: Vec<&str> =
        words.map(|word| if is_device(word) { "DEVICE" } else { word }).collect();
    words.join(" ")
}

/// Pools of which devices were wiped after their texts were printed: their state is another.
const WIPED: [&str; 2] = ["missing-z1", "missing-z3"];
/// Pools in use when their machine stopped; their space was summed while they were.
const STOPPED: [&str; 3] = ["zil", "zil-slog", "zil-z1"];

#[test]
fn properties_are_those_that_openzfs_prints() {
    fixtures::takes_long!();
    let Some(folder) = fixtures::folder("zfs") else { return };
    let mut problems = Vec::new();
    let (datasets, pools) = (now("zfs"), now("zpool"));
    for fixture in some(fixtures::names(&folder), 15) {
        let disks = fixtures::unpack(&folder, &fixture);
        let pool = pool_of(&fixture);
        let text = read(&folder, &fixture, "zfs-get-all").expect("a text");
        let shown = done(disks.path(), &["zfs", "get", "-rHp", "all", &pool]);
        let expected_lines = expected("zfs", &text, &datasets);
        if let Some(problem) = difference(&expected_lines, &printed("zfs", &shown)) {
            problems.push(format!("{fixture}: zfs get: {problem}"));
        }
        let text = read(&folder, &fixture, "zpool-get-all").expect("a text");
        let shown = done(disks.path(), &["zpool", "get", "-Hp", "all", &pool]);
        let without_space = |lines: Lines| -> Lines {
            let known = pools.contains_key(&(pool.clone(), "allocated".to_owned()));
            let is_space = |name: &str| {
                // Worked out from what is allocated.
                let sums = ["free", "capacity"].contains(&name);
                sums || !known && ["allocated", "fragmentation"].contains(&name)
            };
            lines.into_iter().filter(|line| !is_space(&line.1)).collect()
        };
        let expected_lines = without_space(expected("zpool", &text, &pools));
        let shown = without_space(printed("zpool", &shown));
        if let Some(problem) = difference(&expected_lines, &shown) {
            problems.push(format!("{fixture}: zpool get: {problem}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn pools_and_their_vdevs_are_listed_as_openzfs_lists_them() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let mut problems = Vec::new();
    for fixture in some(fixtures::names(&folder), 15) {
        // Printed after the pool was exported and imported again, so that sums are of the same moment.
        let Some(text) = read(&folder, &fixture, "zpool-list") else { continue };
        if WIPED.contains(&fixture.as_str()) {
            continue;
        }
        let disks = fixtures::unpack(&folder, &fixture);
        let shown = done(disks.path(), &["zpool", "list", "-vp", &pool_of(&fixture)]);
        let expected: Vec<String> = text.lines().map(without_devices).collect();
        let shown: Vec<String> = shown.lines().map(without_devices).collect();
        // A cache device's content is not known to who only reads.
        let is_cache = expected.iter().position(|line| line.starts_with("cache "));
        let until = is_cache.map_or(expected.len(), |at| at + 1);
        let pairs = expected.iter().take(until).zip(&shown);
        for (a, b) in pairs.filter(|(a, b)| !near_lines(a, b)).take(2) {
            problems.push(format!("{fixture}: expected {a:?}, printed {b:?}"));
        }
        if expected.len() != shown.len() {
            problems.push(format!("{fixture}: {} lines, not {}", shown.len(), expected.len()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn states_and_histories_are_those_that_openzfs_prints() {
    fixtures::takes_long!();
    let Some(folder) = fixtures::folder("zfs") else { return };
    let mut problems = Vec::new();
    for fixture in some(fixtures::names(&folder), 15) {
        let disks = fixtures::unpack(&folder, &fixture);
        let pool = pool_of(&fixture);
        let text = read(&folder, &fixture, "zpool-status").expect("a text");
        let shown = done(disks.path(), &["zpool", "status", &pool]);
        let without_moment = |text: &str| -> Vec<String> {
            let lines = text.lines().map(without_devices);
            // What a checkpoint holds grew until the pool was exported.
            let held = |line: String| match line.split_once(", consumes ") {
                Some((made, _)) => made.to_owned(),
                None => line,
            };
            lines.map(held).collect()
        };
        let (expected, shown) = (without_moment(&text), without_moment(&shown));
        if !WIPED.contains(&fixture.as_str()) && expected != shown {
            let pair = expected.iter().zip(&shown).find(|(a, b)| a != b);
            problems.push(format!("{fixture}: zpool status: {pair:?}"));
        }
        let Some(text) = read(&folder, &fixture, "zpool-history") else {
            assert!(STOPPED.contains(&fixture.as_str()), "{fixture} has a history");
            continue;
        };
        let shown = done(disks.path(), &["zpool", "history", "-il", &pool]);
        // The text was printed before the last commands were run: the rest follows it.
        let begins = shown.trim_end().starts_with(text.trim_end());
        if !begins {
            let pair = text.lines().zip(shown.lines()).find(|(a, b)| a != b);
            problems.push(format!("{fixture}: zpool history: {pair:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
