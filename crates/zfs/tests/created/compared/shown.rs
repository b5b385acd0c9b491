//! All that is compared of a pool, as lines by name: what is said of each dataset and snapshot, what their deadlists have, and what
//! each object's pointers are. Births are said by the interval between two commits in which they lie.
//!
//! Left out is what two writers may do each in its own way, and what hangs on it: numbers of objects, blocks of dnodes (their tree is
//! as high as it needs to be here, and as high as it could ever be there), and so sums of bytes over all. Sums are those of what
//! files are made of; that what is stored as a sum is what its parts add up to is asserted of each pool by itself.

use crate::logs::seen;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use zfs::dmu::{Dnode, Objset};
use zfs::dsl::bpobj::{Sums, header, pointers};
use zfs::dsl::{Dataset, Directory, Dsl};
use zfs::inspect::accounts;
use zfs::mounted::{MountOptions, Mounted};
use zfs::spa::Spa;
use zfs::zap::Zap;
use zfs::zpl::{FileSystem, Node};
use zfs_format::block_pointer::{BlockPointer, Kind, Pointers};
use zfs_format::dsl::deadlist::DeadlistHeader;
use zfs_format::dsl::name_number;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::ObjsetKind;
use zfs_format::wire::Record;
use zfs_store::Tree;

/// Lines by what they are of.
pub(super) type Shown = BTreeMap<String, String>;

/// The commits of a pool, by the first group after each.
struct Marks(Vec<u64>);

impl Marks {
    /// In which interval a group lies; nothing for what was never written.
    fn of(&self, group: u64) -> String {
        match group {
            0 => "-".to_owned(),
            group => self.0.iter().filter(|mark| **mark <= group).count().to_string(),
        }
    }

    /// What a pointer says of bytes: since when they are there, and how many.
    fn show(&self, pointer: &BlockPointer) -> String {
        let (birth, bytes) = (self.of(pointer.logical_birth()), pointer.logical_size());
        if pointer.is_hole() { "hole".to_owned() } else { format!("data@{birth} {bytes}") }
    }
}

/// How bytes are stored.
fn stored(pointer: &BlockPointer) -> String {
    match pointer.kind() {
        Kind::Hole => "hole".to_owned(),
        // How long they are hangs on who compresses.
        Kind::Embedded => "within".to_owned(),
        Kind::Block | Kind::Gang | Kind::Redacted => {
            let how = pointer.compression().map(|how| format!("{how:?}")).unwrap_or_default();
            format!("{} {how} x{}", pointer.physical_size(), pointer.dvas().count())
        }
    }
}

/// All of a pool.
pub(super) async fn shown(spa: &Rc<Spa>, marks: &[u64]) -> Shown {
    let (marks, dsl, mut lines) = (Marks(marks.to_vec()), spa.dsl(), Shown::new());
    for directory in dsl.below(dsl.root().await.expect("read")).await.expect("read") {
        let directory = Rc::new(directory);
        show_directory(dsl, &directory, &mut lines).await;
        let head = dsl.head(&directory).await.expect("read").expect("it has one");
        let snapshots = dsl.snapshots(&head).await.expect("read");
        let names: Vec<&str> = snapshots.iter().filter_map(Dataset::snapshot_name).collect();
        lines.insert(format!("{}: snapshots", head.name), names.join(" "));
        for dataset in [head].into_iter().chain(snapshots) {
            show_dataset((dsl, spa.tree()), &dataset, &marks, &mut lines).await;
            show_objects(spa, &directory, &dataset, &marks, &mut lines).await;
        }
    }
    lines
}

async fn entries(dsl: &Dsl, table: u64) -> Vec<zfs::zap::Entry> {
    if table == 0 {
        return Vec::new();
    }
    let dnode = dsl.mos().dnode(table).await.expect("it is there");
    Zap::open(dnode).await.expect("a table").entries().await.expect("it is read")
}

async fn show_directory(dsl: &Dsl, directory: &Directory, lines: &mut Shown) {
    let (name, head) = (&directory.name, &directory.head);
    let [_, _, _, kept, kept_head] = head.used_breakdown;
    for (what, value) in [
        ("kept for children", kept),
        ("kept for dataset", kept_head),
        ("clones", entries(dsl, head.clones).await.len() as u64),
    ] {
        lines.insert(format!("{name}: {what}"), value.to_string());
    }
    let origin = match head.origin {
        0 => String::new(),
        origin => dsl.dataset(origin, String::new()).await.expect("read").head.guid.to_string(),
    };
    lines.insert(format!("{name}: has an origin"), (!origin.is_empty()).to_string());
}

async fn show_dataset(
    (dsl, tree): (&Dsl, &Tree),
    dataset: &Dataset,
    marks: &Marks,
    lines: &mut Shown,
) {
    let (name, head) = (&dataset.name, &dataset.head);
    for (what, value) in [
        ("flags", head.flags),
        ("children", head.children),
        ("next clones", entries(dsl, head.next_clones).await.len() as u64),
    ] {
        lines.insert(format!("{name}: {what}"), value.to_string());
    }
    let births =
        format!("{} after {}", marks.of(head.creation_txg), marks.of(head.previous_snapshot_txg));
    lines.insert(format!("{name}: made"), births);
    if head.deadlist == 0 {
        return;
    }
    let deadlist = dsl.mos().dnode(head.deadlist).await.expect("it is there");
    let says = DeadlistHeader::decode(&deadlist.phys().bonus, deadlist.endian()).expect("one");
    let (mut keys, mut all) = (Vec::new(), BTreeMap::new());
    let (mut sum, mut of_files) = (Sums::default(), Sums::default());
    for entry in entries(dsl, head.deadlist).await {
        let key = marks.of(name_number(&entry.name).expect("a group"));
        let list = entry.number().expect("a list");
        keys.push((key.parse().unwrap_or(0_u64), key.clone()));
        for pointer in list_pointers(dsl, list).await {
            let space = Sums::of(tree, &pointer);
            sum.add(space, 1);
            if is_of_dnodes(&pointer) {
                continue;
            }
            if pointer.level() == 0 && pointer.object_type() != ObjectType::UNLINKED_SET {
                of_files.add(space, 1);
            }
            let what = format!(
                "born {key}: {} L{} {}",
                pointer.object_type(),
                pointer.level(),
                marks.of(pointer.logical_birth())
            );
            *all.entry(what).or_insert(0_u64) += 1;
        }
    }
    let stored = [says.used, says.compressed, says.uncompressed].map(u64::cast_signed);
    assert_eq!(stored, [sum.used, sum.compressed, sum.uncompressed], "{name}: the deadlist");
    lines.insert(format!("{name}: deadlist"), format!("{of_files:?}"));
    keys.sort();
    let keys: Vec<String> = keys.into_iter().map(|(_, key)| key).collect();
    lines.insert(format!("{name}: deadlist keys"), keys.join(" "));
    for (what, count) in all {
        lines.insert(format!("{name}: deadlist {what}"), count.to_string());
    }
}

/// Whether a block is one of dnodes, or leads to them.
fn is_of_dnodes(pointer: &BlockPointer) -> bool {
    [ObjectType::DNODE, ObjectType::OBJSET].contains(&pointer.object_type())
}

/// All pointers in a list and the lists in it.
async fn list_pointers(dsl: &Dsl, list: u64) -> Vec<BlockPointer> {
    let (mut todo, mut all) = (vec![list], Vec::new());
    while let Some(list) = todo.pop() {
        let list = dsl.mos().dnode(list).await.expect("it is there");
        let says = header(&list).expect("a list");
        all.extend(pointers(&list, 0, says.pointers).await.expect("they are read"));
        if says.sub_object_count > 0 {
            let object = dsl.mos().dnode(says.sub_objects).await.expect("it is there");
            let bytes = object.read(0, says.sub_object_count as usize * 8).await.expect("read");
            let bytes = bytes.to_vec();
            let (numbers, _) = bytes.as_chunks::<8>();
            todo.extend(numbers.iter().map(|number| u64::from_le_bytes(*number)));
        }
    }
    all
}

/// The pointers of an object: level, number, pointer, in order.
async fn pointers_of(objset: &Objset, dnode: &Dnode) -> Vec<(u8, u64, BlockPointer)> {
    let phys = dnode.phys();
    let tops = phys.pointers.iter().zip(0..).map(|(pointer, n)| (*pointer, phys.levels - 1, n));
    let mut todo: Vec<(BlockPointer, u8, u64)> = tops.collect();
    let mut all = Vec::new();
    while let Some((pointer, level, number)) = todo.pop() {
        all.push((level, number, pointer));
        if level == 0 || pointer.is_hole() {
            continue;
        }
        let request = objset.request(pointer, dnode.bookmark(level.into(), number));
        let bytes = objset.blocks().read(request).await.expect("it is read");
        let below = Pointers::of(bytes.bytes(), pointer.endian()).expect("a block of pointers");
        let first = number << below.len().ilog2();
        todo.extend(below.iter().zip(first..).map(|(below, n)| (below, level - 1, n)));
    }
    all.sort_by_key(|(level, number, _)| (*level, *number));
    all
}

/// Stretches of blocks that are alike.
fn runs(all: impl Iterator<Item = (u8, u64, String)>) -> String {
    let mut runs: Vec<(u8, u64, u64, String)> = Vec::new();
    for (level, number, what) in all {
        match runs.last_mut() {
            Some((at, _, last, known)) if *at == level && *last + 1 == number && *known == what => {
                *last = number;
            }
            _ => runs.push((level, number, number, what)),
        }
    }
    let mut text = String::new();
    for (level, first, last, what) in runs {
        write!(text, "L{level} {first}-{last} {what}; ").expect("room");
    }
    text
}

/// What an object's blocks are; how they are stored; what leads to them; and since when that does, and holes are holes.
fn show_pointers(all: &[(u8, u64, BlockPointer)], marks: &Marks, what: &str, lines: &mut Shown) {
    let data = || all.iter().filter(|(level, ..)| *level == 0);
    let shown = data().map(|(level, number, pointer)| (*level, *number, marks.show(pointer)));
    lines.insert(format!("{what} blocks"), runs(shown));
    let shown = data().map(|(level, number, pointer)| (*level, *number, stored(pointer)));
    lines.insert(format!("{what} stored"), runs(shown));
    let above = all.iter().filter(|(level, ..)| *level > 0);
    let shown = above.map(|(level, number, pointer)| {
        let leads = if pointer.is_hole() { "hole".to_owned() } else { pointer.fill().to_string() };
        (*level, *number, leads)
    });
    lines.insert(format!("{what} above"), runs(shown));
    let born = all.iter().filter(|(level, _, pointer)| {
        (*level > 0 || pointer.is_hole()) && pointer.logical_birth() != 0
    });
    let born =
        born.map(|(level, number, pointer)| (*level, *number, marks.of(pointer.logical_birth())));
    lines.insert(format!("{what} since"), runs(born));
}

fn shape(dnode: &Dnode) -> String {
    let phys = dnode.phys();
    format!(
        "{} levels {} indirect {} last {} block {} spill {} bonus {} slots {}",
        phys.object_type,
        phys.levels,
        phys.indirect_shift,
        phys.block_id_max,
        phys.data_block_bytes(),
        phys.spill.is_some(),
        phys.bonus_type,
        phys.slots(),
    )
}

async fn show_objects(
    spa: &Rc<Spa>,
    directory: &Rc<Directory>,
    dataset: &Dataset,
    marks: &Marks,
    lines: &mut Shown,
) {
    let name = &dataset.name;
    let objset = spa.objset(directory, dataset).await.expect("it opens");
    let root = objset.root();
    lines.insert(format!("{name}: objset"), format!("{:?} flags {}", root.kind, root.flags));
    let mut paths = BTreeMap::new();
    if root.kind == ObjsetKind::FileSystem {
        paths = show_files(spa, directory, dataset, &objset, lines).await;
    } else {
        let data = objset.dnode(1).await.expect("it is there");
        let bytes = data.read(0, super::deeds::VOLUME_BYTES as usize).await.expect("it is read");
        lines.insert(format!("{name}: content"), super::digest(&bytes.to_vec()));
    }
    for (table, sums) in accounts::stored(&objset).await.expect("read").into_iter().enumerate() {
        for (who, sum) in sums.into_iter().flatten() {
            lines.insert(format!("{name}: account {table} {who}"), sum.to_string());
        }
    }
    let (mut from, mut others) = (0, BTreeMap::new());
    while let Some((found, next)) = objset.dnodes_from(from).await.expect("they are read") {
        for (number, phys, endian) in found {
            let dnode = objset.detached(number, phys, endian);
            let what = paths.get(&number).cloned().unwrap_or_else(|| {
                let kind = dnode.phys().object_type.to_string();
                let count = others.entry(kind.clone()).or_insert(0);
                *count += 1;
                format!("object {kind} {count}")
            });
            let what = format!("{name}: {what}");
            lines.insert(format!("{what} shape"), shape(&dnode));
            lines.insert(format!("{what} takes"), dnode.phys().used_bytes().to_string());
            let pointers = pointers_of(&objset, &dnode).await;
            show_pointers(&pointers, marks, &what, lines);
        }
        from = next;
    }
}

/// What files are, and which object each is.
async fn show_files(
    spa: &Rc<Spa>,
    directory: &Rc<Directory>,
    dataset: &Dataset,
    objset: &Objset,
    lines: &mut Shown,
) -> BTreeMap<u64, String> {
    let files = FileSystem::open(objset).await.expect("it is one");
    let mut paths = BTreeMap::new();
    let root: Node = files.root().await.expect("it is read");
    let mut todo = vec![(root, String::new())];
    while let Some((node, path)) = todo.pop() {
        if node.is_directory() {
            for name in files.names(&node).await.expect("they are read") {
                let below = files.node(name.entry.object).await.expect("it is there");
                todo.push((below, format!("{path}/{}", String::from_utf8_lossy(&name.name))));
            }
        }
        // Of several names the first.
        let known = paths.entry(node.number()).or_insert_with(|| format!("file {path}"));
        *known = known.clone().min(format!("file {path}"));
    }
    let (of, how) = (Rc::clone(directory), MountOptions::default());
    let again = spa.dsl().dataset(dataset.number, dataset.name.clone()).await.expect("it is read");
    let opened = Mounted::open(spa, of, again, how, Rc::new(|_| {})).await;
    for (path, text) in seen(&opened.expect("it is mounted")).await {
        let path = String::from_utf8_lossy(&path).into_owned();
        lines.insert(format!("{}: seen {path}", dataset.name), text);
    }
    paths
}
