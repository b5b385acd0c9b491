//! Checkpoints from the outside: taken, gone back to, discarded, by Spindle and by the real OpenZFS, each of the other's.
//!
//! What could break: an uberblock or a space map that OpenZFS reads otherwise, a pool that is neither as it was nor as it is, words
//! that scripts of OpenZFS's users don't know.

use super::kernel::{Machine, digest, file};
use super::pools::{disks, done, judge, printed_and_said, program, refused, run, zdb};
use super::serving::Serving;

const DISK_BYTES: u64 = 96 << 20;
/// What pools of the kernel have.
const FEATURES: &str = "async_destroy empty_bpobj lz4_compress spacemap_histogram enabled_txg hole_birth spacemap_v2 \
    extensible_dataset bookmarks embedded_data large_blocks zpool_checkpoint log_spacemap";

#[test]
fn a_checkpoint_is_taken_gone_back_to_and_discarded_in_openzfs_words() {
    fixtures::takes_long!();
    let folder = disks(&["a", "b"], DISK_BYTES);
    let at = folder.path();
    let out = fixtures::scratch::folder();
    let (one, two) = (file(out.path(), 1), file(out.path(), 2));
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    done(at, &["zfs", "create", "tank/x"]);
    done(at, &["zfs", "cp", &one, "tank/x:"]);
    refused(at, &["zpool", "checkpoint", "-d", "tank"], "in 'tank': checkpoint does not exist");
    refused(at, &["zpool", "checkpoint", "-w", "tank"], "--wait only valid when --discard");
    refused(at, &["zpool", "checkpoint", "tank/x"], "doesn't work on datasets");
    refused(at, &["zpool", "import", "--rewind-to-checkpoint", "tank"], "has no checkpoint");
    done(at, &["zpool", "checkpoint", "tank"]);
    refused(at, &["zpool", "checkpoint", "tank"], "cannot checkpoint 'tank': checkpoint exists");
    refused(at, &["zpool", "reguid", "tank"], "cannot reguid 'tank': checkpoint exists");
    done(at, &["zfs", "destroy", "tank/x"]);
    done(at, &["zfs", "cp", &two, "tank:"]);
    let status = done(at, &["zpool", "status", "tank"]);
    assert!(status.contains("checkpoint: created ") && status.contains(", consumes "), "{status}");
    let held = done(at, &["zpool", "get", "-Hpo", "value", "checkpoint", "tank"]);
    assert!(held.trim().parse().is_ok_and(|held: u64| held > 2_000_000), "{held}");
    let feature = ["zpool", "get", "-Ho", "value", "feature@zpool_checkpoint", "tank"];
    assert_eq!(done(at, &feature), "active\n");
    let (_, said) = printed_and_said(at, &["zpool", "scrub", "--read-only", "tank"]);
    assert!(said.contains("will not scrub state that belongs to the checkpoint"), "{said}");
    judge(at, "tank");
    zdb(at, &["-kd", "tank"]);
    // Looked at, and taken.
    let back = "--rewind-to-checkpoint";
    done(at, &["zpool", "import", "-o", "readonly=on", back, "tank"]);
    assert!(run(at, &["zfs", back, "cat", "tank/x:file1"]).stdout == std::fs::read(&one).unwrap());
    assert!(run(at, &["zfs", "cat", "tank:file2"]).stdout == std::fs::read(&two).unwrap());
    refused(at, &["zpool", "import", "-F", back, "tank"], "give one of them");
    refused(at, &["zfs", back, "create", "tank/y"], "is only read");
    done(at, &["zpool", "import", back, "tank"]);
    assert!(run(at, &["zfs", "cat", "tank/x:file1"]).stdout == std::fs::read(&one).unwrap());
    assert!(!run(at, &["zfs", "cat", "tank:file2"]).status.success());
    assert_eq!(done(at, &feature), "enabled\n");
    judge(at, "tank");
    // By who holds it.
    done(at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    let socket = format!("unix:{}", out.path().join("socket").display());
    let serve = ["serve", "--volume", "tank/v", "--nbd", &socket];
    let server = Serving::start(&mut program(at, &serve));
    done(at, &["zpool", "checkpoint", "tank"]);
    refused(at, &["zpool", "checkpoint", "tank"], "checkpoint exists");
    done(at, &["zfs", "create", "tank/y"]);
    done(at, &["zpool", "checkpoint", "-d", "-w", "tank"]);
    refused(at, &["zpool", "checkpoint", "-d", "tank"], "checkpoint does not exist");
    server.stop();
    assert_eq!(done(at, &feature), "enabled\n");
    let history = done(at, &["zpool", "history", "-i", "tank"]);
    for text in ["checkpointed uberblock txg=", "started discarding", "finished discarding"] {
        assert!(history.contains(text), "{text}: {history}");
    }
    judge(at, "tank");
}

/// Pools of a disk each: the kernel goes back to Spindle's checkpoint of the first, and discards that of the second; Spindle does so to
/// what the kernel took of the others.
#[test]
#[ignore = "boots a machine, twice: some minutes"]
fn the_kernel_and_spindle_take_each_others_checkpoints() {
    const POOLS: [&str; 4] = ["pa", "pb", "pc", "pd"];
    let Some(machine) = Machine::of(&["a", "b", "c", "d"], DISK_BYTES) else { return };
    let (at, out) = (machine.disks(), machine.out());
    let (one, two) = (file(out, 1), file(out, 2));
    for (pool, disk) in [("pa", "a"), ("pb", "b")] {
        done(at, &["zpool", "create", pool, disk]);
        done(at, &["zfs", "create", &format!("{pool}/x")]);
        done(at, &["zfs", "cp", &one, &format!("{pool}/x:")]);
        done(at, &["zpool", "checkpoint", pool]);
        done(at, &["zfs", "destroy", &format!("{pool}/x")]);
        done(at, &["zfs", "cp", &two, &format!("{pool}:")]);
    }
    let features = FEATURES.split(' ').map(|name| format!(" -o feature@{name}=enabled"));
    let create = format!("zpool create -d{}", features.collect::<String>());
    let work = format!("create='{create}'\n")
        + "zdb -e -p /p -kbcc pa | grep -i -e leak -e '^\\[' || true\n\
         zpool import -d /p --rewind-to-checkpoint pa; sha256sum /pa/x/file1; ls /pa\n\
         zpool import -d /p pb; zpool status pb | grep checkpoint:; sha256sum /pb/file2\n\
         dd if=/dev/urandom of=/pb/more bs=64k count=9 status=none; rm /pb/file2; sync\n\
         zpool checkpoint -d -w pb; zpool status pb | grep checkpoint: || true\n\
         for p in pc pd; do d=$(echo $p | cut -c2)\n\
           $create $p /p/$d; zfs create $p/x; cp /pa/x/file1 /$p/x\n\
           zpool sync $p; zpool checkpoint $p; rm /$p/x/file1; cp /pa/x/file1 /$p/later; zpool sync $p\n\
         done\n\
         for p in pa pb; do zpool scrub -w $p; zpool status $p | grep -e scan: -e errors:; done\n\
         for p in pa pb pc pd; do zpool export $p; done\n";
    let said = machine.run(&work);
    assert!(said.matches(&digest(&one)).count() == 1 && said.contains(&digest(&two)), "{said}");
    assert_eq!(said.matches("checkpoint: created").count(), 1, "{said}");
    assert_eq!(said.matches("scrub repaired 0B").count(), 2, "{said}");
    assert_eq!(said.matches("No known data errors").count(), 2, "{said}");
    for pool in ["pa", "pb"] {
        done(at, &["zfs", "create", &format!("{pool}/after")]);
        judge(at, pool);
    }
    done(at, &["zfs", "cp", &two, "pd:"]);
    done(at, &["zpool", "checkpoint", "-d", "pd"]);
    done(at, &["zpool", "import", "--rewind-to-checkpoint", "pc"]);
    done(at, &["zfs", "cp", &two, "pc:"]);
    for pool in ["pc", "pd"] {
        judge(at, pool);
    }
    let mut work = String::new();
    for pool in POOLS {
        work += &format!(
            "zdb -e -p /p -bcc {pool} 2>&1 | grep -i -e leak -e mismatch || true\n\
             zpool import -d /p {pool}; zpool scrub -w {pool}; zpool status {pool} | grep -e scan: -e checkpoint:\n"
        );
    }
    work += "sha256sum /pc/x/file1 /pc/file2 /pd/later /pd/file2; ls /pc /pd/x\n";
    let said = machine.run(&work);
    assert_eq!(said.matches("scrub repaired 0B").count(), 4, "{said}");
    assert_eq!(said.matches("No leaks (block sum matches").count(), 4, "{said}");
    assert!(!said.contains("checkpoint:") && !said.contains("mismatch"), "{said}");
    for path in [&one, &two] {
        assert_eq!(said.matches(&digest(path)).count(), 2, "{said}");
    }
}
