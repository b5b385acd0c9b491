//! Vdevs of which one is slow: what is written goes where it is taken, and groups don't wait for the slow one.
//!
//! What could break: the slow one gets as much as the others, and each group takes as long as it does; it gets nothing any more, and
//! nobody notices that it is fast again.

use super::datasets::files;
use super::{Rig, new_file, top};
use rt::filter::{Delay, Slowness};
use rt::{Buf, DeviceRef};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::live::Live;
use zfs_format::vdev::VdevKind;

const FAST: u64 = 100 << 20;
const SLOW: u64 = 20 << 20;
const GROUP_BYTES: usize = 3 << 20;

fn at(rate: u64) -> Slowness {
    Slowness { latency: Duration::from_micros(50), bytes_per_second: NonZeroU64::new(rate) }
}

/// Writes so many groups; gives what each vdev got in the last one, and how long that took.
async fn groups(live: &Live, random: &mut Prng, from: u64, many: u64) -> ([u64; 3], Duration) {
    let files = files(live, "tank").await;
    let mut last = ([0; 3], Duration::ZERO);
    for number in from..from + many {
        let taken = || {
            let of = |vdev| live.syncer().writer().space(|space| space.usage_of(vdev).taken);
            [0, 1, 2].map(of)
        };
        let mut bytes = vec![0; GROUP_BYTES];
        random.fill(&mut bytes);
        let name = format!("f{number}");
        let root = files.root_number();
        files.create(root, name.as_bytes(), &new_file(number)).await.expect("it is made");
        files.write(number, 0, &Buf::copy_of(&bytes), GROUP_BYTES as u64).await.expect("written");
        let (before, began) = (taken(), live.spa().rt().now());
        live.sync(async |_| Ok(())).await.expect("it is written");
        let after = taken();
        let got = [0, 1, 2].map(|vdev: usize| after[vdev].saturating_sub(before[vdev]));
        last = (got, live.spa().rt().now().since(began));
    }
    last
}

#[test]
fn a_slow_vdev_gets_what_it_takes_in_the_time_and_more_when_it_is_fast_again() {
    fixtures::takes_long!();
    let rig = Rig::new((0..3).map(|id| top(id, VdevKind::File, 1)).collect());
    let rt = rig.runtime.handle();
    let slowed: Vec<Rc<Delay>> =
        rig.devices().into_values().map(|device| Delay::new(device, &rt, at(FAST))).collect();
    let slow = Rc::clone(&slowed[1]);
    slow.set(at(SLOW));
    let devices = slowed.into_iter().map(|device| device as DeviceRef).collect();
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut random = Prng::new(1);
        let (even, long) = groups(&live, &mut random, 100, 1).await;
        assert!(even[1] * 4 > even[0] + even[2], "nothing is known yet: {even:?}");
        let (by_pace, short) = groups(&live, &mut random, 200, 8).await;
        assert!(by_pace[1] * 3 < by_pace[0] && by_pace[1] > 0, "{by_pace:?}");
        assert!(short * 2 < long, "a group takes {short:?}, and took {long:?}");
        slow.set(at(FAST));
        let (again, _) = groups(&live, &mut random, 300, 16).await;
        assert!(again[1] * 2 > again[0], "it is fast again: {again:?}");
        println!("{even:?} in {long:?}; {by_pace:?} in {short:?}; {again:?}");
    });
    rig.judge();
}
