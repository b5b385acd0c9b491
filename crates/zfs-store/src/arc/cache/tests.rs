//! What could break: lists whose bytes no longer match their entries, a cache that outgrows its size, a scan that
//! drives out what is used, blocks read ahead that drive out what was wanted or never stay long enough.

use super::*;
use proptest::prelude::*;

const BLOCK: u64 = 4096;
const CHARGE: u64 = BLOCK + ENTRY_BYTES;

fn key(n: u64) -> Key {
    Key { dva: [1, n], birth: 9, raw: false }
}

fn at(ms: u64) -> Instant {
    Instant::START + Duration::from_millis(ms)
}

struct Load {
    cache: Cache,
    now: u64,
}

impl Load {
    /// A cache of so many blocks.
    fn new(blocks: u64) -> Load {
        Load { cache: Cache::new(blocks * CHARGE, 0), now: 0 }
    }

    /// Asks for a block, a tenth of a second after the last; reads it where it isn't there. True for a hit.
    fn ask(&mut self, n: u64) -> bool {
        self.now += 100;
        let hit = self.cache.get(&key(n), || at(self.now)).is_some();
        if !hit {
            self.cache.insert(key(n), Buf::fill(n, BLOCK as usize), false, false, at(self.now));
        }
        hit
    }

    fn holds(&self, n: u64) -> bool {
        self.cache.find(&key(n)).is_some_and(|n| self.cache.entries[n as usize].block.is_some())
    }
}

/// What each list says is what its entries say, and the rules about sizes hold.
fn check(cache: &Cache) {
    let (mut total, mut all) = (0, 0);
    for (place, lists) in cache.lists.iter().enumerate() {
        for (kind, list) in lists.iter().enumerate() {
            let (mut bytes, mut number, mut newer) = (0, list.newest, NONE);
            while number != NONE {
                let entry = &cache.entries[number as usize];
                assert_eq!((entry.place as usize, usize::from(entry.metadata)), (place, kind));
                assert_eq!(entry.newer, newer);
                assert_eq!(entry.block.is_some(), place < 3, "ghosts have no bytes");
                assert_eq!(cache.find(&entry.key), Some(number));
                bytes += entry.charge;
                total += 1;
                (newer, number) = (number, entry.older);
            }
            assert_eq!((bytes, newer), (list.bytes, list.oldest));
            all += bytes;
        }
    }
    assert_eq!(total, cache.entries.len());
    assert!(cache.live_bytes() <= cache.bytes_max && all <= 2 * cache.bytes_max);
}

#[test]
fn a_scan_does_not_drive_out_what_is_used_again() {
    let mut load = Load::new(100);
    for _ in 0..3 {
        (0..40).for_each(|n| {
            load.ask(n);
        });
    }
    (1000..3000).for_each(|n| {
        load.ask(n);
    });
    let kept = (0..40).filter(|n| load.holds(*n)).count();
    assert_eq!(kept, 40, "all of it stayed");
    check(&load.cache);
}

#[test]
fn ghosts_move_the_target_to_the_list_that_is_too_small() {
    let mut load = Load::new(100);
    // Used twice: MFU fills up.
    for _ in 0..2 {
        (0..100).for_each(|n| {
            load.ask(n);
        });
    }
    let start = load.cache.statistics().mru_target_bytes;
    // Asked for again shortly after they left MRU.
    for round in 0..20 {
        for n in 0..30 {
            load.ask(500 + n + round);
        }
    }
    let counts = load.cache.statistics();
    assert!(counts.mru_ghost_hits > 0 || counts.mru_hits > 0, "{counts:?}");
    assert!(counts.mru_target_bytes >= start);
    // What left MFU for it and is wanted again moves it back.
    let grown = counts.mru_target_bytes;
    (0..100).for_each(|n| {
        load.ask(n);
    });
    let counts = load.cache.statistics();
    assert!(counts.mfu_ghost_hits > 0 && counts.mru_target_bytes < grown, "{counts:?}");
    check(&load.cache);
}

#[test]
fn asking_again_at_once_is_asking_once() {
    let mut load = Load::new(10);
    load.ask(1);
    for _ in 0..5 {
        load.cache.get(&key(1), || at(load.now + 61)).expect("it is there");
    }
    assert_eq!(load.cache.statistics().mfu_bytes, 0);
    load.cache.get(&key(1), || at(load.now + 62)).expect("it is there");
    assert_eq!(load.cache.statistics().mfu_bytes, CHARGE);
}

#[test]
fn blocks_read_ahead_leave_first_but_have_their_share() {
    let mut load = Load::new(160);
    (0..160).for_each(|n| {
        load.ask(n);
    });
    let ahead = |load: &mut Load, n: u64| {
        load.cache.insert(key(n), Buf::fill(n, BLOCK as usize), false, true, at(load.now));
    };
    (1000..1100).for_each(|n| ahead(&mut load, n));
    let wanted = (0..160).filter(|n| load.holds(*n)).count() as u64;
    let guessed: Vec<u64> = (1000..1100).filter(|n| load.holds(*n)).collect();
    assert!(wanted >= 160 - 160 / PREFETCHED_SHARE - 1, "{wanted} stayed");
    assert_eq!(guessed, (1089..1100).collect::<Vec<_>>(), "the newest guesses are there");
    // One that is asked for is as good as any other, and was asked for once.
    assert!(load.ask(1099));
    let counts = load.cache.statistics();
    assert_eq!((counts.prefetched_hits, counts.mfu_bytes), (1, 0));
    assert!(counts.prefetched_in_vain > 80);
    check(&load.cache);
}

#[test]
fn metadata_below_its_floor_outlasts_data() {
    let mut cache = Cache::new(100 * CHARGE, 20 * CHARGE);
    let mut insert = |n: u64, metadata| {
        cache.insert(key(n), Buf::fill(n, BLOCK as usize), metadata, false, at(n));
    };
    (0..40).for_each(|n| insert(n, true));
    (1000..2000).for_each(|n| insert(n, false));
    assert_eq!(cache.statistics().metadata_bytes, 20 * CHARGE, "the floor, and no more");
    check(&cache);
    cache.resize(10 * CHARGE, 2 * CHARGE);
    assert!(cache.statistics().bytes <= 10 * CHARGE);
    check(&cache);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lists_and_sizes_hold_under_any_load(
        steps in prop::collection::vec((0_u64..60, 0_u8..6, 1_usize..20), 1..400),
        blocks in 0_u64..40,
    ) {
        let mut cache = Cache::new(blocks * 1024, blocks * 256);
        for (step, (n, what, len)) in steps.into_iter().enumerate() {
            let now = at(step as u64 * 50);
            match what {
                0..3 => { cache.get(&key(n), || now); }
                3 => cache.resize(blocks * 1024 + n * 100, blocks * 200),
                _ => cache.insert(key(n), Buf::fill(n, len * 512), n.is_multiple_of(3), what == 5, now),
            }
            check(&cache);
        }
    }
}
