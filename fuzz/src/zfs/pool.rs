//! Whole pools whose checksums fit, with anything in them: each opens or is refused, and whoever reads it comes to an end.
//!
//! Input: which pool, what is looked at; then changes of sixteen bytes and more: where (see [`Where`]), which dataset,
//! object and block, and what is done there.

use super::forge::{Forge, Place};
use super::images::{self, Image};
use super::reading::{Look, Steps, read_pool};
use crate::damage::Change;
use crate::machine::{Input, device, run};
use rt::{MemoryDevice, Rt};
use std::rc::Rc;
use zfs::spa::{self, OpenOptions, Spa};

/// Changes of one input. Each writes its whole chain anew.
const CHANGES_MAX: usize = 6;
/// Where a configuration's numbers begin to differ between pools.
const CONFIGURATION_CHANGED: usize = 4096;

/// Where a change is made.
#[derive(Clone, Copy, Debug)]
struct Where {
    kind: u8,
    dataset: u8,
    object: u16,
    block: u8,
}

impl Where {
    fn of(input: &mut Input<'_>) -> Where {
        let (kind, dataset) = (input.byte(), input.byte());
        Where { kind, dataset, object: input.number::<2>() as u16, block: input.byte() }
    }

    fn place(self) -> Place {
        let (object, block) = (u64::from(self.object), u64::from(self.block));
        match self.kind % 4 {
            0 => Place::Objset,
            1 => Place::Dnode(object),
            _ => Place::Data(object, block),
        }
    }

    /// Bits of `kind` above those of the place.
    fn target(self) -> u8 {
        self.kind / 4 % 8
    }
}

/// The numbers of all datasets and snapshots.
async fn datasets(spa: &Spa) -> Vec<u64> {
    let mut numbers = Vec::new();
    let Ok(root) = spa.dsl().root().await else { return numbers };
    for directory in spa.dsl().below(root).await.unwrap_or_default() {
        let Ok(Some(head)) = spa.dsl().head(&directory).await else { continue };
        let snapshots = spa.dsl().snapshots(&head).await.unwrap_or_default();
        numbers.push(head.number);
        numbers.extend(snapshots.iter().map(|snapshot| snapshot.number));
    }
    numbers
}

pub(super) async fn open(rt: &Rt, disk: &Rc<MemoryDevice>) -> Vec<Spa> {
    let found = spa::find(&[device(disk)]).await;
    let mut opened = Vec::new();
    for pool in &found.pools {
        if let Ok(spa) = Spa::open(rt, pool, OpenOptions::default()).await {
            opened.push(spa);
        }
    }
    opened
}

/// A pool's disk, changed as an input asks for.
async fn changed(rt: &Rt, image: &Image, number: usize, input: &mut Input<'_>) -> Rc<MemoryDevice> {
    let disk = image.disk();
    let Some(spa) = open(rt, &disk).await.pop().map(Rc::new) else {
        panic!("{} opens before it is changed", images::POOLS[number % images::POOLS.len()]);
    };
    if input.is_empty() {
        return disk;
    }
    let all = datasets(&spa).await;
    let mut forge = Forge::new(&disk, image.capacity(), &spa, image.gap());
    let mut last = None;
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        let place = Where::of(input);
        let change = Change::of(input);
        let mut edit = |bytes: &mut [u8]| change.apply(bytes);
        match place.target() {
            0 => last = Some(change),
            1 => forge.configuration(&mut |bytes| {
                let len = bytes.len().min(CONFIGURATION_CHANGED);
                change.apply(&mut bytes[..len]);
            }),
            2 | 3 => drop(forge.mos(place.place(), &mut edit).await),
            _ => {
                if let Some(dataset) = all.get(usize::from(place.dataset) % all.len().max(1)) {
                    let _ = forge.dataset(*dataset, place.place(), &mut edit).await;
                }
            }
        }
    }
    forge.finish(&mut |slot| {
        if let Some(change) = last {
            // What an uberblock has, not the zeros behind it.
            change.apply(&mut slot[..512]);
        }
    });
    disk
}

/// What a target does with a pool: on its disk, as a byte of the input says; and whether anything of it was changed.
pub(super) fn on_changed(
    input: &[u8],
    target: impl AsyncFnOnce(&Rt, &Rc<MemoryDevice>, u8, bool) + 'static,
) {
    let mut front = Input::new(input);
    let number = usize::from(front.byte());
    let Some(image) = images::pool(number) else { return };
    let input = front.rest().to_vec();
    run(async move |rt| {
        let mut input = Input::new(&input);
        let how = input.byte();
        let is_changed = !input.is_empty();
        let disk = changed(&rt, &image, number, &mut input).await;
        target(&rt, &disk, how, is_changed).await;
    });
}

/// The target.
pub fn whole_pool(input: &[u8]) {
    on_changed(input, async |rt, disk, how, _| {
        let look = Look::ALL[usize::from(how) % Look::ALL.len()];
        for spa in open(rt, disk).await {
            read_pool(&spa, look, &Steps::default()).await;
        }
    });
}

/// One input for each place of each pool.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for pool in 0..images::POOLS.len() as u8 {
        for (kind, object) in [
            (0, 0),
            (4, 0),
            (8, 0),
            (9, 1),
            (10, 1),
            (9, 32),
            (10, 32),
            (16, 0),
            (17, 1),
            (18, 1),
            (17, 34),
            (18, 34),
        ] {
            let look = seeds.len() as u8;
            let mut seed = vec![pool, look, kind, pool, object, 0, 0];
            seed.extend(Change::bytes(3, u16::from(pool) * 8, u64::from(kind)));
            seeds.push(seed);
        }
    }
    // A dataset whose snapshots differ from it, and whose dnodes are as many as there can be numbers.
    let mut endless = vec![6, 5, 16, 3, 0, 0, 0];
    endless.extend(Change::bytes(3, 16, 11));
    seeds.push(endless);
    seeds
}
