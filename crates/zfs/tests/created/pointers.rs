//! What pointers say beside where a block is: since when a hole is one, how many blocks lie below, what an object takes.
//!
//! What could break: an increment, which sees births alone, leaves out what became a hole (WRITER-TRAPS 1); a count of blocks by
//! which a search for free numbers goes; space that nobody gets back. `zdb` says nothing of these.

use super::{Rig, new_file, top};
use fixtures::extent::some;
use rt::Buf;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use stdx::Prng;
use zfs::dmu::{Dnode, Objset};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs_format::block_pointer::{BlockPointer, Pointers};
use zfs_format::object_type::ObjectType;
use zfs_format::vdev::VdevKind;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::Tree;

/// What the pointers of an object that is at rest lead to.
#[derive(Default)]
struct Walked {
    /// Bytes that all its blocks take.
    used: u64,
    /// Stretches of level 0 with what the pointer to each says of when it was born.
    births: Vec<(Range<u64>, u64)>,
}

impl Walked {
    /// Whether who sends what changed after a group sends a block.
    fn is_sent(&self, block: u64, since: u64) -> bool {
        self.births.iter().any(|(range, birth)| range.contains(&block) && *birth > since)
    }
}

/// Goes through all pointers of an object, and holds each against those below it.
async fn walk(objset: &Objset, dnode: &Dnode, tree: &Tree) -> Walked {
    let phys = dnode.phys();
    let what = format!("object {} of {}", dnode.number(), objset.number());
    let mut walked = Walked::default();
    let level = phys.levels - 1;
    let tops = phys.pointers.iter().zip(0..).map(|(pointer, block)| (*pointer, level, block));
    let mut todo: Vec<(BlockPointer, u8, u64)> = tops.collect();
    if let Some(spill) = &phys.spill {
        walked.used += tree.deflated_size(spill);
    }
    while let Some((pointer, level, block)) = todo.pop() {
        let many = phys.blocks_below(level + 1);
        walked.used += tree.deflated_size(&pointer);
        if level == 0 || pointer.is_hole() {
            let range = block.saturating_mul(many)..(block + 1).saturating_mul(many);
            walked.births.push((range, pointer.logical_birth()));
            let is_one = pointer.is_hole() || phys.object_type == ObjectType::DNODE;
            assert!(is_one || pointer.fill() == 1, "{what}: a block is one");
            continue;
        }
        let request = objset.request(pointer, dnode.bookmark(level.into(), block));
        let bytes = objset.blocks().read(request).await.expect("it is read");
        let below = Pointers::of(bytes.bytes(), pointer.endian()).expect("a block of pointers");
        let stored = below.iter().filter(|below| !below.is_hole());
        let (count, fill) =
            stored.fold((0, 0), |(count, fill), below| (count + 1, fill + below.fill()));
        assert!(count > 0, "{what}: an indirect block leads to something");
        assert_eq!(fill, pointer.fill(), "{what}: blocks below block {block} of level {level}");
        let first = block << below.iter().count().ilog2();
        for (below, number) in below.iter().zip(first..) {
            let births = [below.logical_birth(), pointer.logical_birth()];
            assert!(births[0] <= births[1], "{what}: nothing is younger than what leads to it");
            todo.push((below, level - 1, number));
        }
    }
    walked
}

async fn check_objects(objset: &Objset, tree: &Tree) {
    let meta = objset.meta().expect("it has one");
    assert_eq!(walk(objset, meta, tree).await.used, meta.phys().used_bytes(), "objects take");
    let mut from = 0;
    while let Some((found, next)) = objset.dnodes_from(from).await.expect("they are read") {
        for (number, phys, endian) in found {
            let used = phys.used_bytes();
            let dnode = objset.detached(number, phys, endian);
            assert_eq!(walk(objset, &dnode, tree).await.used, used, "object {number} takes");
        }
        from = next;
    }
}

/// All that pointers of the pool say of what is below them is so, and all objects take what their blocks do.
pub(crate) async fn check_trees(spa: &Spa) {
    let dsl = spa.dsl();
    check_objects(spa.mos(), spa.tree()).await;
    for directory in dsl.below(dsl.root().await.expect("read")).await.expect("read") {
        let Some(head) = dsl.head(&directory).await.expect("read") else { continue };
        let objset = spa.objset(&directory, &head).await.expect("it opens");
        check_objects(&objset, spa.tree()).await;
    }
}

/// Bytes of a block: so small that few of them make a high tree.
const BLOCK: u64 = 512;
/// Groups back to which what changed is asked for.
const GROUPS_KEPT: usize = 5;

/// What a file holds: of each block that is no zeros by what its bytes were made.
type Blocks = BTreeMap<u64, u64>;

fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed);
    match seed % 3 {
        0 => vec![seed as u8 | 1; BLOCK as usize],
        _ => random.bytes(BLOCK as usize),
    }
}

/// Some blocks somewhere: near the beginning, in a further indirect block, or far behind.
fn somewhere(random: &mut Prng) -> Range<u64> {
    let end = [300, 4000, 1_200_000][random.below(3) as usize];
    let at = random.below(end);
    let most = if random.chance(0.2) { end } else { 12 };
    at..at + 1 + random.below(most)
}

async fn change(files: &FileSystem, number: u64, model: &mut Blocks, random: &mut Prng) {
    let range = somewhere(random);
    match random.below(6) {
        0 => {
            files.truncate(number, range.start * BLOCK).await.expect("it is cut");
            model.retain(|block, _| *block < range.start);
        }
        1 | 2 => {
            let len = (range.end - range.start) * BLOCK;
            files.punch(number, range.start * BLOCK, len).await.expect("it is zeroed");
            model.retain(|block, _| !range.contains(block));
        }
        // Zeros that are written are a hole as well.
        3 => {
            let zeros = Buf::zeros(2 * BLOCK as usize);
            let (at, end) = (range.start * BLOCK, (range.start + 2) * BLOCK);
            files.write(number, at, &zeros, end).await.expect("it is written");
            model.retain(|block, _| !(range.start..range.start + 2).contains(block));
        }
        _ => {
            for block in range.take(12) {
                let seed = random.next_u64() | 1;
                let (at, bytes) = (block * BLOCK, Buf::copy_of(&bytes(seed)));
                files.write(number, at, &bytes, at + BLOCK).await.expect("it is written");
                model.insert(block, seed);
            }
        }
    }
}

fn increments_find_all(seed: u64) {
    const FILES: [u64; 2] = [100, 101];
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let record = LeafValue { number_bytes: 8, numbers: vec![BLOCK] };
        let properties = vec![("recordsize".to_owned(), record)];
        let new = NewDataset { name: "a".to_owned(), owner: (0, 0), properties };
        let above = super::datasets::node(&live, "tank").await.directory.number;
        let made = super::datasets::task(&live, async |tasks| tasks.create(above, &new).await);
        made.await.expect("it is made");
        let files = super::datasets::files(&live, "tank/a").await;
        for number in FILES {
            let name = number.to_string().into_bytes();
            let made = files.create(files.root_number(), &name, &new_file(number)).await;
            made.expect("it is made");
        }
        let mut random = random.borrow_mut();
        let mut models = [Blocks::new(), Blocks::new()];
        let mut states: VecDeque<(u64, [Blocks; 2])> = VecDeque::new();
        for _ in 0..30 {
            for (number, model) in FILES.into_iter().zip(&mut models) {
                for _ in 0..random.below(4) {
                    change(&files, number, model, &mut random).await;
                }
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
            for (at, (number, model)) in FILES.into_iter().zip(&models).enumerate() {
                let dnode = files.objset().dnode(number).await.expect("it is there");
                let walked = walk(files.objset(), &dnode, live.spa().tree()).await;
                for (since, then) in &states {
                    let all = then[at].keys().chain(model.keys());
                    let changed = all.filter(|block| then[at].get(block) != model.get(block));
                    let left_out = changed.filter(|block| !walked.is_sent(**block, *since));
                    let left_out: Vec<_> = left_out.collect();
                    assert!(left_out.is_empty(), "since {since} file {number}: {left_out:?}");
                }
                for (block, seed) in model {
                    let found = dnode.block(*block).await.expect("it is read");
                    assert!(found.bytes.bytes() == bytes(*seed), "block {block}");
                }
            }
            states.push_back((live.spa().uberblock().txg, models.clone()));
            if states.len() > GROUPS_KEPT {
                states.pop_front();
            }
        }
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async |spa: Rc<Spa>, _| check_trees(&spa).await);
    rig.judge();
}

#[test]
fn who_asks_what_changed_since_a_group_is_told_all_of_it() {
    some([1, 2], 1).into_iter().for_each(increments_find_all);
}
