//! Letters of many scripts as names, in file systems that hash names otherwise than they are: Spindle makes some and the OpenZFS kernel
//! others, in small directories and large ones, and each looks all of them up, as they are and in other cases.
//!
//! What could break: one of the two hashes a name otherwise than the other, and doesn't find it; or takes names for the same that the other
//! doesn't; a conflict of names in `mixed`.

use super::datasets::{files, node, task};
use super::kernel::{oracle, run};
use super::{Rig, Seeded, dump, files_of, new_file, top};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::Prng;
use unicode_normalization::UnicodeNormalization;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs::zpl::FileSystem;
use zfs::zpl::change::NewFile;
use zfs::zpl::name_rules::case;
use zfs_format::vdev::VdevKind;
use zfs_format::zap::normalization::{NFC, NFD};

/// Latin, Greek, Cyrillic and Armenian, with what is between; Georgian; Cherokee; more Latin and Greek; Glagolitic, Coptic; later Cyrillic
/// and Latin; ligatures; Deseret. What Unicode has later than the kernel is among them.
const LETTERS: [std::ops::RangeInclusive<u32>; 11] = [
    0xc0..=0x2af,
    0x370..=0x587,
    0x10a0..=0x10ff,
    0x13a0..=0x13fd,
    0x1c80..=0x1cbf,
    0x1e00..=0x1fff,
    0x2126..=0x2132,
    0x2c00..=0x2cf3,
    0xa640..=0xa69b,
    0xfb00..=0xfb17,
    0x10400..=0x1044f,
];
const CASES: [(&str, u64); 2] = [("mixed", case::MIXED), ("insensitive", case::INSENSITIVE)];
const FORMS: [(&str, u64); 3] = [("none", 0), ("formD", NFD), ("formC", NFC)];
/// A directory's name, and what its files' names end with: more than a small table takes.
const DIRECTORIES: [(&str, &str); 2] =
    [("small", ""), ("large", "------------------------------------------------------------")];

/// A letter, one of those that are the same but for case, and those as which it is looked for besides.
struct Row {
    letter: char,
    group: char,
    others: Vec<char>,
}

fn rows() -> Vec<Row> {
    let one = |mut letters: Box<dyn Iterator<Item = char>>| match (letters.next(), letters.next()) {
        (Some(letter), None) => Some(letter),
        _ => None,
    };
    let mut known = BTreeSet::new();
    let mut rows = Vec::new();
    for letter in LETTERS.into_iter().flatten().filter_map(char::from_u32) {
        let capital = one(Box::new(letter.to_uppercase()));
        let others = [capital, one(Box::new(letter.to_lowercase()))].into_iter().flatten();
        let others = others.filter(|other| *other != letter).collect();
        let group = capital.unwrap_or(letter);
        // Letters that are one in all forms are not two files.
        if known.insert((group, letter.nfd().collect::<String>())) {
            rows.push(Row { letter, group, others });
        }
    }
    rows
}

impl Row {
    /// In which directory it is. Most that differ by case are in one.
    fn directory(&self) -> usize {
        (u32::from(self.group) >> 3 & 1) as usize
    }

    /// Its name; or one that may be the same, with another letter. In `mixed` letters that differ by case differ by nothing else.
    fn name(&self, letter: char, case: u64) -> String {
        let of = if case == case::MIXED { self.group } else { self.letter };
        format!("{letter}-{:x}{}", u32::from(of), DIRECTORIES[self.directory()].1)
    }

    /// Its name, and the others.
    fn all(&self, case: u64) -> Vec<String> {
        let letters = [self.letter].into_iter().chain(self.others.iter().copied());
        letters.map(|letter| self.name(letter, case)).collect()
    }
}

/// All file systems: name, case, form.
fn file_systems() -> Vec<(String, u64, u64)> {
    let of_case = |(word, case): (&str, u64)| {
        FORMS.map(|(form, number)| (format!("{word}-{form}"), case, number)).to_vec()
    };
    CASES.into_iter().flat_map(of_case).collect()
}

async fn new_number(files: &FileSystem) -> u64 {
    let plan = files.objset().change(|_| files.objset().plan_number(1)).await;
    plan.expect("one is free").0
}

/// All names of one file, which has one more.
async fn make(files: &FileSystem, case: u64) {
    let (root, file) = (files.root_number(), new_number(files).await);
    files.create(root, b"file", &new_file(file)).await.expect("it is made");
    let mut directories = Vec::new();
    for (name, _) in DIRECTORIES {
        let number = new_number(files).await;
        let new = NewFile { mode: 0o040_755, ..new_file(number) };
        files.create(root, name.as_bytes(), &new).await.expect("it is made");
        directories.push(number);
    }
    for row in rows() {
        let name = row.name(row.letter, case);
        let linked = files.link(directories[row.directory()], name.as_bytes(), file).await;
        linked.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// What is found of all names: a digit for each, in one word for each letter.
async fn found(files: &FileSystem, prefix: &str, case: u64) -> String {
    let mut directories = Vec::new();
    for (name, _) in DIRECTORIES {
        let path = format!("{prefix}{name}");
        directories.push(files.find(path.as_bytes(), false).await.expect("read").expect("there"));
    }
    let mut found = String::new();
    for row in rows() {
        found.push(' ');
        for name in row.all(case) {
            let directory = &directories[row.directory()];
            let entry = files.lookup(directory, name.as_bytes()).await.expect("it is read");
            found.push(if entry.is_some() { '1' } else { '0' });
        }
    }
    found
}

/// What the kernel does: it makes its names, and looks all up after they were written and forgotten.
const WORK: &str = r#"
import os, sys
systems = [line.split() for line in open('/systems')]
rows = [line.split() for line in open('/names')]
for system, case in systems:
    at = '/tank/' + system + '/'
    for prefix in ('', 'kernel-'):
        for name in ('small', 'large'):
            if prefix and sys.argv[1] == 'make':
                os.mkdir(at + prefix + name)
        found = ''
        for row in rows:
            directory, tail, group, letter = row[0], row[1][1:], row[2], row[3]
            of = group if case == '2' else letter
            paths = [at + prefix + directory + '/' + chr(int(one, 16)) + '-' + of + tail for one in row[3:]]
            if sys.argv[1] == 'make':
                if prefix:
                    os.link((at + 'file').encode(), paths[0].encode())
            else:
                found += ' ' + ''.join('1' if os.path.lexists(path.encode()) else '0' for path in paths)
        if sys.argv[1] != 'make':
            count = sum(len(os.listdir(at + prefix + name)) for name in ('small', 'large'))
            print('found', system, prefix + ':', count, found)
"#;

#[test]
#[ignore = "boots a machine: some minutes"]
fn the_kernel_finds_the_names_that_spindle_made_and_spindle_those_of_the_kernel() {
    let Some(oracle) = oracle() else { return };
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let above = node(&live, "tank").await.directory.number;
        for (name, case, form) in file_systems() {
            let rules = [("casesensitivity", case), ("normalization", form)];
            let rules = rules.map(|(rule, number)| (rule.to_owned(), table::number(number)));
            let path = format!("tank/{name}");
            let new = NewDataset { name, owner: (0, 0), properties: rules.to_vec() };
            task(&live, async |tasks| tasks.create(above, &new).await).await.expect("it is made");
            make(&files(&live, &path).await, case).await;
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
    let folder = tempfile::tempdir().expect("a folder");
    dump(&rig.disks[0].1, &folder.path().join("disk"));

    let mut script = String::from("cat > /systems <<'END'\n");
    for (name, case, _) in file_systems() {
        script += &format!("{name} {case}\n");
    }
    script += "END\ncat > /names <<'END'\n";
    for row in rows() {
        let (name, tail) = DIRECTORIES[row.directory()];
        script += &format!("{name} ={tail} {:x} {:x}", u32::from(row.group), u32::from(row.letter));
        script +=
            &row.others.iter().map(|one| format!(" {:x}", u32::from(*one))).collect::<String>();
        script += "\n";
    }
    script += &format!("END\ncat > /work.py <<'END'{WORK}END\n");
    script += "zpool import -f -d /p tank\nPYTHONUTF8=1 python3 /work.py make\n\
               zpool export tank; zpool import -d /p tank\nPYTHONUTF8=1 python3 /work.py look\n\
               zpool scrub -w tank; zpool status tank; zpool export tank\n";
    let said = run(&oracle, folder.path(), &["disk"], &script);
    assert!(said.contains("No known data errors") && said.contains("with 0 errors"), "{said}");

    let device = fixtures::Disk::of_file(&folder.path().join("disk")).device();
    let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(4))));
    let rig = Rig::over(vec![(0, device)], fresh);
    rig.with(async move |spa: Rc<Spa>, _| {
        let rows = rows();
        for (name, case, _) in file_systems() {
            let files = files_of(&spa, &format!("tank/{name}")).await;
            for prefix in ["", "kernel-"] {
                let head = format!("found {name} {prefix}: {} ", rows.len());
                let line = said.lines().find_map(|line| line.strip_prefix(&head));
                let theirs = line.unwrap_or_else(|| panic!("all names are listed: {head}\n{said}"));
                let ours = found(&files, prefix, case).await;
                let each = rows.iter().zip(ours.split_whitespace().zip(theirs.split_whitespace()));
                let mut count = 0;
                for (row, (ours, theirs)) in each {
                    let of = format!("{name} {prefix}: {} {:?}", row.letter, row.others);
                    assert!(ours == theirs && ours.starts_with('1'), "{of}: {ours}, not {theirs}");
                    count += 1;
                }
                assert_eq!(count, rows.len());
            }
        }
    });
    rig.judge();
}
