//! The power is cut at every write of a scenario, and the file system mounted again. What must hold: it
//! is consistent; what was synced is there, byte for byte; no file shows bytes that were never written to
//! it, neither another file's nor what was on the device before.

use crate::world;

use fixtures::extent::places;
use inplace::{FileSystem, MountOptions, Settings};
use rt::filter::{Overlap, PowerCut};
use rt::{Buf, FileTree, MemoryDevice, OpenHow, Request, Rt, TreeError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset, Prng};
use world::*;

const CAPACITY: ByteCount = ByteCount::mib(48);
/// What is on the device before the file system is made, and must never be seen.
const STALE: u64 = 0xdead_beef_dead_beef;

/// What the scenario has done, as far as it was answered.
#[derive(Clone, Default)]
struct Ledger {
    /// Words that were ever written to a file, by the file's own number.
    words: BTreeMap<u64, BTreeSet<u64>>,
    /// Files by name: number and bytes, as the scenario left them.
    now: BTreeMap<String, (u64, Vec<u8>)>,
    /// The same for what is durable.
    durable: BTreeMap<String, (u64, Vec<u8>)>,
    /// Names that were touched since.
    touched: BTreeSet<String>,
    next: u64,
}

impl Ledger {
    fn word(&mut self, file: u64) -> u64 {
        self.next += 1;
        let word = file << 32 | self.next;
        self.words.entry(file).or_default().insert(word);
        word
    }

    /// Everything that was done to this file, and all names, are durable.
    fn synced(&mut self, name: &str) {
        let mut durable = BTreeMap::new();
        for (known, (file, bytes)) in &self.now {
            if known == name {
                durable.insert(known.clone(), (*file, bytes.clone()));
                continue;
            }
            // Another file's data is as durable as it was, under the name that it has now.
            let old = self.durable.values().find(|(old, _)| old == file);
            if let Some((_, old)) = old
                && old == bytes
            {
                durable.insert(known.clone(), (*file, old.clone()));
            }
        }
        self.durable = durable;
        self.touched =
            self.now.keys().filter(|known| !self.durable.contains_key(*known)).cloned().collect();
    }
}

struct Scenario {
    tree: Rc<FileSystem>,
    ledger: Ledger,
    prng: Prng,
}

type Done = Result<(), TreeError>;

impl Scenario {
    async fn write(&mut self, name: &str, at: u64, len: u64, direct: bool) -> Done {
        let how = OpenHow { write: true, create: true, direct, ..OpenHow::default() };
        self.ledger.touched.insert(name.to_owned());
        let file = self.tree.open(path(name), how).await?;
        let number = match self.ledger.now.get(name) {
            Some((number, _)) => *number,
            None => {
                self.ledger.next += 1;
                self.ledger.next
            }
        };
        let word = self.ledger.word(number);
        let entry = self.ledger.now.entry(name.to_owned()).or_insert((number, Vec::new()));
        let end = (at + len) as usize;
        let bytes = &mut entry.1;
        bytes.resize(bytes.len().max(end), 0);
        rt::sg::fill_with(&mut bytes[at as usize..end], word);
        let data = Buf::fill(word, len as usize);
        let written = file.submit(Request::write(Offset(at), data)).await;
        written.map_err(|error| TreeError {
            op: rt::TreeOp::SetSize,
            path: name.into(),
            kind: rt::TreeErrorKind::Io(error.kind),
        })?;
        Ok(())
    }

    async fn sync(&mut self, name: &str) -> Done {
        let file = self.tree.open(path(name), OpenHow::write()).await?;
        file.sync().await?;
        self.ledger.synced(name);
        Ok(())
    }

    async fn play(&mut self, rt: &Rt) -> Done {
        self.tree.create_directory(path("d")).await?;
        for round in 0..14_u64 {
            let name = format!("d/f{}", round % 5);
            let at = self.prng.below(40) * 512;
            let len = (1 + self.prng.below(40)) * 512;
            self.write(&name, at, len, round % 3 == 0).await?;
            self.write("log", round * 1024, 1024, false).await?;
            if round % 2 == 0 {
                self.sync("log").await?;
            }
            if round % 4 == 3 {
                self.sync(&name).await?;
            }
            if round % 5 == 4 {
                let gone = format!("d/f{}", (round + 2) % 5);
                if self.ledger.now.contains_key(&gone) {
                    self.ledger.touched.insert(gone.clone());
                    self.ledger.now.remove(&gone);
                    self.tree.remove_file(path(&gone)).await?;
                }
            }
            if round == 6 {
                self.ledger.touched.extend(["log".into(), "old".into()]);
                let entry = self.ledger.now.remove("log").expect("it is there");
                self.ledger.now.insert("old".into(), entry);
                self.tree.rename(path("log"), path("old")).await?;
            }
            if round == 9 {
                self.ledger.touched.insert("old".into());
                let (_, bytes) = self.ledger.now.get_mut("old").expect("it is there");
                bytes.truncate(2000);
                let file = self.tree.open(path("old"), OpenHow::write()).await?;
                file.set_size(ByteCount(2000)).await?;
                // Beyond the first pointers, so that tables come and go.
                self.write("big", 9 << 20, 3 << 12, false).await?;
                self.write("big", 61_440, 5 << 12, true).await?;
                self.sync("big").await?;
                self.ledger.touched.insert("big".into());
                self.ledger.now.remove("big");
                self.tree.remove_file(path("big")).await?;
            }
            if round % 6 == 5 {
                // Write-back and commit by age, and a checkpoint.
                rt.sleep(Duration::from_secs(40)).await;
            }
        }
        self.tree.sync().await?;
        self.ledger.durable = self.ledger.now.clone();
        self.ledger.touched.clear();
        Ok(())
    }
}

async fn verify(tree: &FileSystem, ledger: &Ledger, when: &str) {
    assert_sound(tree, when).await;
    let found: BTreeMap<_, _> = content(tree).await.into_iter().collect();
    for (name, (_, bytes)) in &ledger.durable {
        if ledger.touched.contains(name) {
            continue;
        }
        let there = found.get(Path::new(name)).and_then(Option::as_ref);
        let there = there.unwrap_or_else(|| panic!("{when}: {name} was synced and is gone"));
        assert!(there == bytes, "{when}: {name} was synced and is not the same");
    }
    for (name, bytes) in &found {
        let Some(bytes) = bytes else { continue };
        // A name may have stood for several files; their words are known by the files' numbers.
        for word in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight"));
            assert_ne!(word, STALE, "{when}: {} shows what was there before", name.display());
            let own = ledger.words.get(&(word >> 32)).is_some_and(|words| words.contains(&word));
            assert!(word == 0 || own, "{when}: {} shows {word:x}", name.display());
        }
        let files: BTreeSet<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight")) >> 32)
            .filter(|file| *file != 0)
            .collect();
        assert!(files.len() <= 1, "{when}: {} mixes files {files:?}", name.display());
    }
}

/// Plays the scenario with the power cut at this write; returns whether it was cut at all.
fn cut_at(settings: Settings, options: MountOptions, write: u64, when: &str) -> bool {
    let runtime = runtime();
    let rt = runtime.handle();
    let when = when.to_owned();
    run(&runtime, async move {
        let memory = MemoryDevice::new("m", CAPACITY);
        memory.poke(Offset::ZERO, &Buf::fill(STALE, CAPACITY.as_usize()).into());
        FileSystem::format(&rt, memory.clone(), &settings).await.expect("made");
        let device = PowerCut::new(memory, &rt);
        device.cut_at_write(write, Prng::new(write));
        let watched = Overlap::new(device.clone(), &rt);
        let mounted = FileSystem::mount(&rt, watched, options).await;
        let mut ledger = Ledger::default();
        if let Ok(tree) = mounted {
            let prng = Prng::new(1);
            let mut scenario = Scenario { tree, ledger, prng };
            let played = scenario.play(&rt).await;
            assert!(played.is_ok() || device.is_cut(), "{when}: {played:?}");
            let unmounted = scenario.tree.unmount().await;
            if !device.is_cut() {
                unmounted.expect("nothing failed");
                device.cut(Prng::new(write));
                let below = device.power_on().await.expect("power");
                let tree = FileSystem::mount(&rt, below, options).await.expect("mounted");
                verify(&tree, &scenario.ledger, &when).await;
                return false;
            }
            ledger = scenario.ledger;
        }
        let below = device.power_on().await.expect("power");
        // A second cut, in the middle of the replay, changes nothing.
        let again = PowerCut::new(Rc::clone(&below), &rt);
        again.cut_at_write(1 + write % 7, Prng::new(write + 1));
        let _ = FileSystem::mount(&rt, Overlap::new(again.clone(), &rt), options).await;
        again.cut(Prng::new(write + 2));
        let below = again.power_on().await.expect("power");
        let tree = FileSystem::mount(&rt, below, options).await;
        let tree = tree.unwrap_or_else(|error| panic!("{when}: {error}"));
        verify(&tree, &ledger, &when).await;
        true
    })
}

fn cut_everywhere(variant: usize) {
    let (name, mut settings, options) = variants(CAPACITY).swap_remove(variant);
    // So small that it goes round.
    settings.journal = settings.block * 256;
    let is_over =
        |write: &u64| !cut_at(settings, options, *write, &format!("{name}, cut at write {write}"));
    let last = places(1, 4).find(is_over).expect("places have no end");
    assert!(last > 60, "{name}: only {last} writes");
}

/// A generator with which a cut keeps every write that was answered: its first draw says so.
fn keeps_all() -> Prng {
    let all = (0..).map(Prng::new).find(|prng| prng.clone().below(8) == 1);
    all.expect("one of eight seeds does")
}

/// Plays some steps, cuts the power when they are done, and mounts what is left.
async fn cut_after(
    rt: &Rt,
    settings: &Settings,
    options: MountOptions,
    steps: impl AsyncFnOnce(&FileSystem),
) -> Rc<FileSystem> {
    let memory = MemoryDevice::new("m", CAPACITY);
    FileSystem::format(rt, memory.clone(), settings).await.expect("made");
    let device = PowerCut::new(memory, rt);
    let watched = Overlap::new(device.clone(), rt);
    let tree = FileSystem::mount(rt, watched, options).await.expect("mounted");
    steps(&tree).await;
    device.cut(keeps_all());
    let below = device.power_on().await.expect("power");
    drop(tree);
    FileSystem::mount(rt, below, options).await.expect("mounted")
}

/// Replay may not write an old table over the data that lies there now.
#[test]
fn a_block_that_was_metadata_and_is_data_keeps_the_data() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let block = settings.block.bytes();
            let tree = cut_after(&rt, &settings, options, async |tree| {
                let how = OpenHow { write: true, create: true, ..OpenHow::default() };
                let file = tree.open(path("t"), how).await.expect("created");
                // The table lies behind the first twelve blocks, as far as there is one.
                write(&file, 0, Buf::fill(1, (20 * block) as usize)).await;
                file.sync().await.expect("synced");
                file.set_size(ByteCount(5 * block)).await.expect("cut");
                file.sync().await.expect("synced");
                let direct = tree.open(path("t"), how.with_direct(true)).await.expect("opened");
                write(&direct, 5 * block, Buf::fill(2, (15 * block) as usize)).await;
                direct.sync().await.expect("synced");
            })
            .await;
            assert!(tree.replayed() > 0, "{name}: there is something to replay");
            let file = tree.open(path("t"), OpenHow::read()).await.expect("opened");
            let bytes = read(&file, 0, 20 * block).await;
            let words = bytes.chunks_exact(8).enumerate();
            for (i, word) in words {
                let expected = if (i as u64) < 5 * block / 8 { 1_u64 } else { 2 };
                assert_eq!(word, expected.to_le_bytes(), "{name}: word {i}");
            }
            assert_sound(&tree, &name).await;
        });
    }
}

#[test]
fn blocks_of_a_file_whose_removal_is_not_durable_are_not_written_over() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let tree = cut_after(&rt, &settings, options, async |tree| {
                let file = create(tree, "old").await;
                write(&file, 0, Buf::fill(1, 1 << 20)).await;
                file.sync().await.expect("synced");
                drop(file);
                tree.remove_file(path("old")).await.expect("removed");
                for i in 0..8 {
                    let how = OpenHow::create().with_direct(true);
                    let name = format!("new{i}");
                    let file = tree.open(path(&name), how).await.expect("created");
                    write(&file, 0, Buf::fill(2, 1 << 20)).await;
                }
            })
            .await;
            if let Ok(file) = tree.open(path("old"), OpenHow::read()).await {
                let bytes = read(&file, 0, 1 << 20).await;
                assert!(bytes.chunks_exact(8).all(|word| word == 1_u64.to_le_bytes()), "{name}");
            }
            assert_sound(&tree, &name).await;
        });
    }
}

#[test]
fn ufs_survives_a_cut_at_every_write() {
    cut_everywhere(0);
}

#[test]
fn ufs_directio_survives_a_cut_at_every_write() {
    cut_everywhere(1);
}

#[test]
fn ext3_survives_a_cut_at_every_write() {
    cut_everywhere(2);
}

#[test]
fn xfs_survives_a_cut_at_every_write() {
    fixtures::takes_long!();
    cut_everywhere(3);
}

#[test]
fn mixes_survive_a_cut_at_every_write() {
    fixtures::takes_long!();
    cut_everywhere(4);
    cut_everywhere(5);
}
