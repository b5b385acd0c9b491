//! What could break: a key that is read as another, or a file that is taken for a disk.

use super::*;
use std::fs;

const SPECS: &str = "disksim_disk TINY {
   Model = source elsewhere/tiny_validate.model, # it lies beside, under another name
   Per-request overhead time = 0.1,
   Time scale for overheads = 2.0,
   Bulk sector transfer time = 0.1,
   Max queue length = 4,
   Scheduler = disksim_ioqueue { Scheduling policy = 1 },
   Number of buffer segments = 2,
   Maximum number of write segments = 1,
   Segment size (in blks) = 128,
   Set watermark by reqsize = 1,
   High (read) water mark = 0.5,
   Buffer continuous read = 1,
   Maximum read-ahead (blks) = 64,
   Fast write level = 1,
   Read hit over. after read = 0.25,
   Read miss over. after write = 0.5,
   Immediate buffer read = 1,
   Extra write disconnect = 1
}
";

const MODEL: &str = "dm_disk TINY_DISK {
   Block count = 2399000,
   Number of data surfaces = 4,
   Number of cylinders = 6000,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = 9,
      Rangesize for sparing = 1,
      Skew units = revolutions,
      Zones = [ dm_layout_g1_zone {
         First cylinder number = 0, Last cylinder number = 5999,
         Blocks per track = 100, Offset of first block = 0.25,
         Empty space at zone front = 40,
         Skew for track switch = 0.2, Skew for cylinder switch = 0.5,
         Number of spares = 60, slips = [ 7, 9 ], defects = [ 11, 2399999 ] } ]
   },
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = hplplus10,
      Add. write settling delay = -0.25,
      HPL seek equation values = [ 400, 3.0, 0.25, 6.0, 0.005, -1.0 ],
      First ten seek times = [ 1, 2, 3, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7 ],
      Head switch time = 0.9,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   }
}
";

fn files(specs: &str, model: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tiny.diskspecs"), specs).expect("written");
    fs::write(folder.path().join("tiny.model"), model).expect("written");
    folder
}

fn disk(folder: &Path, name: &str) -> DiskProfile {
    match load(&folder.join(name)) {
        Ok(Profile::Disk(disk)) => *disk,
        other => panic!("{other:?}"),
    }
}

fn value<T: Copy>(given: &Option<Given<T>>) -> Option<T> {
    given.as_ref().map(|given| given.value)
}

#[test]
fn each_key_comes_out_in_its_place_with_its_unit() {
    let folder = files(SPECS, MODEL);
    let disk = disk(folder.path(), "tiny.diskspecs");
    assert_eq!((disk.name.as_str(), disk.title.as_str()), ("tiny", "TINY DISK"));
    assert_eq!((disk.rpm.value, disk.heads.value), (6000.0, 4));
    assert_eq!(disk.sectors.value, 6000 * 400 - 60 - 40, "what the zones hold");
    // Twice what is given, and 0.1 ms before each command.
    assert_eq!(value(&disk.read_hit_us), Some(600.0));
    assert_eq!(value(&disk.read_miss_after_write_us), Some(1100.0));
    assert_eq!(value(&disk.write_settle_ms), Some(-0.25));
    assert!((disk.interface_mb_s.value - 5.12).abs() < 1e-9);
    assert_eq!((disk.queue_depth.value, disk.reorder_depth.value), (4, 1));
    assert_eq!((disk.read_segments.value, disk.read_ahead_kb.value), (2, 32));
    assert_eq!(value(&disk.read_ahead_until), Some(ReadAheadUntil::Track));
    assert_eq!(value(&disk.read_on_arrival), Some(true));
    assert_eq!(value(&disk.write_on_arrival), Some(false));
    assert_eq!(value(&disk.extra_write_disconnect), Some(true));
    assert_eq!(value(&disk.read_watermark_percent), Some(50.0));
    assert!(disk.write_cache_enabled.value);
    assert_eq!(value(&disk.numbering), Some(Numbering::Serpentine));
    assert_eq!(value(&disk.sparing), Some(Sparing::ZoneEnd));
    let zones = &disk.zone_table.as_ref().expect("zones").value.0;
    let zone = &zones[0];
    assert_eq!((zone.first_sector_at, zone.track_skew, zone.cylinder_skew), (25.0, 20.0, 50.0));
    assert_eq!((zone.reserved_sectors, zone.slips.as_slice()), (40, &[7, 9][..]));
    assert_eq!(zone.remapped, [(11, 2_399_999)]);
    let seeks = &disk.seek_table.as_ref().expect("seeks").value;
    for (cylinders, ms) in
        [(1, 1.0), (10, 3.7), (100, 5.5), (399, 7.99375), (400, 8.0), (5000, 31.0)]
    {
        assert!((seeks.ms(cylinders) - ms).abs() < 0.01, "{cylinders}: {}", seeks.ms(cylinders));
    }
    assert!(disk.lacks().is_empty(), "{:?}", disk.lacks());
    // Either file names the disk.
    assert_eq!(super::load(&folder.path().join("tiny.model")).expect("sound").name(), "tiny");
}

#[test]
fn the_slowest_bus_on_the_way_counts_where_the_machine_is_described() {
    let folder = files(SPECS, MODEL);
    let machine =
        "disksim_bus B0 { Read block transfer time = 0.0, Write block transfer time = 0.0 }
        disksim_bus B1 { Read block transfer time = 0.16, Write block transfer time = 0.2 }
        disksim_ctlr C { Bulk sector transfer time = 0.05 }
        source tiny.diskspecs
        topology disksim_iodriver d [ disksim_bus b0 [ ] ]\n";
    fs::write(folder.path().join("tiny.parv"), machine).expect("written");
    let disk = disk(folder.path(), "tiny.diskspecs");
    assert!((disk.interface_mb_s.value - 3.2).abs() < 1e-9);
    assert!((value(&disk.interface_write_mb_s).expect("given") - 2.56).abs() < 1e-9);
    let unsaid = files(&SPECS.replace("transfer time = 0.1", "transfer time = 0.0"), MODEL);
    let guess = super::tests::disk(unsaid.path(), "tiny.diskspecs").interface_mb_s;
    assert!(matches!(guess.origin, Origin::Guessed(_)) && (guess.value - 3.2).abs() < 1e-9);
}

#[test]
fn what_makes_no_disk_is_refused_by_file_line_and_key() {
    for (specs, model, parts) in [
        (SPECS.replace("= 128", "= many"), MODEL.to_owned(), ["tiny.diskspecs:10", "Segment size"]),
        (
            SPECS.replace("disksim_disk", "disk"),
            MODEL.to_owned(),
            ["tiny.diskspecs:1", "disksim_disk"],
        ),
        (
            SPECS.to_owned(),
            MODEL.replace("dm_layout_g1 {", "dm_layout_g4 {"),
            ["tiny.model", "dm_layout_g4"],
        ),
        (SPECS.to_owned(), MODEL.replace("hplplus10", "guess"), ["tiny.model:19", "Seek type"]),
        (SPECS.to_owned(), MODEL.replace("hplplus10", "extracted"), ["tiny.seek", "readable"]),
        (SPECS.to_owned(), MODEL.replace("5999", "-3"), ["tiny.model:11", "Last cylinder number"]),
        (
            SPECS.to_owned(),
            MODEL.replace("trackSwitchPlusRotation", "constant"),
            ["tiny.model:18", "Access time"],
        ),
    ] {
        let folder = files(&specs, &model);
        let error = load(&folder.path().join("tiny.diskspecs")).expect_err("refused").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let folder = files(SPECS, &MODEL.replace("hplplus10", "extracted"));
    let seek = |text: &str| fs::write(folder.path().join("tiny.seek"), text).expect("written");
    seek("Seek distances measured: 2\n1,\t0.5\n5000,\t12.5\n");
    let far = disk(folder.path(), "tiny.diskspecs").full_stroke_ms.value;
    let line = 12.5 + 999.0 * 12.0 / 4999.0;
    assert!((far - line).abs() < 1e-6, "beyond the last point its line goes on: {far}");
    seek("Seek distances measured: 2\n5,\t0.5\n1,\t12.5\n");
    let error = load(&folder.path().join("tiny.diskspecs")).expect_err("refused").to_string();
    assert!(error.contains("tiny.seek:3"), "{error}");
}
