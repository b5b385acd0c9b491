//! Space maps that grow with each group, and are written anew when they say little in many words.
//!
//! What could break: a map that is written anew forgets what is allocated, or has what isn't; what the same group changes after that;
//! maps that grow for ever.

use super::datasets::files;
use super::{Rig, compare, new_file, root_files, top};
use rt::Buf;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs_format::space_map::SpaceMapHeader;
use zfs_format::vdev::VdevKind;

/// Bytes of each map that count.
pub(crate) async fn lengths(live: &Live) -> Vec<u64> {
    let maps: Vec<u64> = live.syncer().writer().space(|space| {
        let slabs = space.metaslabs(0).expect("it is known");
        slabs.slabs().iter().map(|slab| slab.map).collect()
    });
    let mut lengths = Vec::new();
    for map in maps {
        lengths.push(match map {
            0 => 0,
            map => {
                let map = live.spa().mos().dnode(map).await.expect("it is read");
                let header = SpaceMapHeader::decode(&map.phys().bonus, map.endian());
                header.expect("it is one").length
            }
        });
    }
    lengths
}

#[test]
fn a_map_that_says_little_in_many_words_is_written_anew() {
    const BLOCK: usize = 512;
    const BLOCKS: usize = 200;
    let mut one = top(0, VdevKind::File, 1);
    one.ashift = Some(9);
    let rig = Rig::new(vec![one]);
    let model = rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let files = files(&live, "tank").await;
        files.set_record_bytes(BLOCK as u64);
        files.create(files.root_number(), b"one", &new_file(100)).await.expect("it is made");
        let mut random = Prng::new(6);
        let mut content: Vec<u8> = (0..BLOCKS * BLOCK).map(|_| random.next_u64() as u8).collect();
        let all = Buf::copy_of(&content);
        files.write(100, 0, &all, all.len() as u64).await.expect("it is written");
        let (mut before, mut anew, mut longest) = (lengths(&live).await, 0, 0);
        for _ in 0..300 {
            for _ in 0..30 {
                let at = random.below(BLOCKS as u64) as usize * BLOCK;
                let block: Vec<u8> = (0..BLOCK).map(|_| random.next_u64() as u8).collect();
                content[at..at + BLOCK].copy_from_slice(&block);
                let (block, end) = (Buf::copy_of(&block), (at + BLOCK) as u64);
                files.write(100, at as u64, &block, end).await.expect("it is written");
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
            let now = lengths(&live).await;
            anew += before.iter().zip(&now).filter(|(before, now)| now < before).count();
            longest = longest.max(now.iter().copied().max().unwrap_or(0));
            before = now;
        }
        assert!(anew >= 2 && longest < 40_000, "{anew} times anew, {longest} bytes at the most");
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
        [(100, content)].into()
    });
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, _| compare(&root_files(&spa).await, &model).await);
}
