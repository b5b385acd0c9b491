//! The engine against arrays that the real md made.
//!
//! What could break: any of the mappings, the order of Q's coefficients, the zones of RAID 0. Each
//! fixture's images are read through the engine as in-memory devices, and the whole content is compared
//! with the digest in the manifest; for levels with parity a check must find none wrong. Degraded
//! fixtures leave their failed members out. Superblocks are not read here: that is `assembled`, which opens every
//! fixture, those too that were stopped in the middle of something.

use ::fixtures::Disk;
use ::fixtures::extent::some;
use md::{Array, ArraySpec, Layout, Level, SyncPriority};
use rt::{Device, Request};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use stdx::{ByteCount, Offset};

pub use ::fixtures::manifest;

pub fn folder() -> Option<PathBuf> {
    ::fixtures::folder("md")
}

pub fn number(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok()).expect("a number")
}

/// The array of a manifest over its disks, and its healthy size.
fn spec_of(manifest: &Value, disks: &[Disk]) -> ArraySpec {
    let array = &manifest["array"];
    let level: Level = array["level"].as_str().expect("a level").parse().expect("a known level");
    let layout: i32 = array["layout"].as_str().expect("a layout").parse().expect("a number");
    let slots = number(&array["raid_disks"]) as usize;
    let mut spec = ArraySpec::new(level, Vec::new());
    spec.members = vec![None; slots];
    if layout >= 0 {
        spec.layout = Layout::from_md(level, layout).expect("a known layout");
    }
    spec.chunk = ByteCount(number(&array["chunk_size"]));
    let component = number(&array["component_size"]);
    let mut smallest = u64::MAX;
    for member in manifest["members"].as_array().expect("members") {
        let Some(slot) = member["slot"].as_str().and_then(|slot| slot.parse::<usize>().ok()) else {
            continue;
        };
        let disk = number(&member["disk"]) as usize;
        spec.members[slot] = Some(disks[disk].device());
        spec.data_offset = ByteCount(number(&member["offset"]) * 512);
        smallest = smallest.min(number(&member["size"]) * 1024);
    }
    spec.component_size = (component > 0).then(|| ByteCount(component * 1024));
    assert!(smallest < u64::MAX, "some member is there");
    spec
}

fn verify(folder: &Path, name: &str) {
    let manifest = manifest(folder, name);
    let spec = spec_of(&manifest, &::fixtures::disks(folder, name));
    let size = number(&manifest["array"]["size"]);
    let digest = manifest["array"]["sha256"].as_str().expect("a digest").to_owned();
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let name = name.to_owned();
    let ran = runtime.block_on(async move {
        let healthy = spec.members.iter().all(Option::is_some);
        let parity = spec.level.parities() > 0;
        let array =
            Array::create(&rt, &name, spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(array.geometry().capacity, ByteCount(size), "{name}");
        let mut hasher = Sha256::new();
        let mut at = 0;
        while at < size {
            let len = (3 << 20).min(size - at);
            let data = array.submit(Request::read(Offset(at), ByteCount(len))).await.expect("read");
            data.pieces().iter().for_each(|piece| hasher.update(piece.bytes()));
            at += len;
        }
        let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, digest, "{name}: the content");
        if healthy && parity {
            let report = array.check(array.whole(), SyncPriority::High).await.expect("checked");
            assert_eq!(report.mismatched_sectors, 0, "{name}: {:?}", report.mismatches.first());
        }
    });
    ran.expect("the test ends");
}

fn verify_all(names: &[&str]) {
    if let Some(folder) = folder() {
        some(names, 2).into_iter().for_each(|name| verify(&folder, name));
    }
}

#[test]
fn striped_and_mirrored_arrays_of_the_real_md_read_back() {
    fixtures::takes_long!();
    verify_all(&[
        "linear-2",
        "raid0-2",
        "raid0-3-zones",
        "raid1-2-bitmap",
        "raid1-2-degraded",
        "raid1-2-v090",
    ]);
    verify_all(&[
        "raid1-3-v10",
        "raid10-f2-4",
        "raid10-n2-3",
        "raid10-n2-4",
        "raid10-n2-4-degraded",
        "raid10-o2-4",
    ]);
}

#[test]
fn raid_4_and_5_of_the_real_md_read_back_and_their_parity_is_right() {
    fixtures::takes_long!();
    verify_all(&[
        "raid4-3",
        "raid5-ls-4",
        "raid5-la-4",
        "raid5-ra-4",
        "raid5-rs-4",
        "raid5-3-512k-bitmap",
    ]);
    verify_all(&[
        "raid5-3-grown-to-4",
        "raid5-3-spare-rebuilt",
        "raid5-3-v11",
        "raid5-4-degraded",
        "raid5-4-v090",
    ]);
}

#[test]
fn raid_6_of_the_real_md_reads_back_and_its_parity_is_right() {
    fixtures::takes_long!();
    verify_all(&["raid6-5", "raid6-4-ra", "raid6-5-ddf", "raid6-5-la6", "raid6-6-512k-bitmap"]);
    verify_all(&["raid6-5-degraded-1", "raid6-5-degraded-2"]);
}
