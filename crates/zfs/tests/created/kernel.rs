//! Pools that the OpenZFS kernel made with logs of space maps, one exported and one not: Spindle writes them, with logs of its own, and
//! exports one of them and not the other; the kernel goes on, Spindle writes them again.
//!
//! What could break: the kernel doesn't open what Spindle's logs say, or finds a space map that is not what it adds up to.

use super::stock::{check_space, of_logs};
use super::{Rig, Seeded, new_file};
use rt::Buf;
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;

/// Each pool: its name, its vdevs, its files.
const POOLS: [(&str, &str, &[&str]); 2] =
    [("exported", "mirror", &["a", "b"]), ("left", "raidz1", &["c", "d", "e"])];
/// What stock pools have, but for what counts files by owner.
const FEATURES: &str = "async_destroy empty_bpobj lz4_compress spacemap_histogram enabled_txg hole_birth spacemap_v2 \
    extensible_dataset bookmarks embedded_data large_blocks large_dnode sha512 skein edonr bookmark_v2 livelist \
    allocation_classes resilver_defer device_rebuild zstd_compress zilsaxattr log_spacemap head_errlog blake3 \
    vdev_zaps_v2 zpool_checkpoint device_removal obsolete_counts block_cloning bookmark_written";
const DISK_BYTES: u64 = 128 << 20;

pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The machine, if it is there.
pub(super) fn oracle() -> Option<PathBuf> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return None;
    }
    Some(oracle)
}

/// Makes files for disks, of so many bytes.
pub(super) fn make_disks(folder: &Path, disks: &[&str], bytes: u64) {
    for disk in disks {
        let file = std::fs::File::create(folder.join(disk)).expect("a disk");
        file.set_len(bytes).expect("a size");
    }
}

/// Runs a script in the machine, on these files, which are copied in and out.
pub(super) fn run(oracle: &Path, folder: &Path, disks: &[&str], work: &str) -> String {
    let mut script = String::from("set -e\nmkdir /p; mount -t tmpfs -o size=2g none /p\n");
    let copies = |from: &dyn Fn(&str, char) -> (String, String)| -> String {
        let copy = |(disk, node): (&&str, char)| {
            let (from, to) = from(disk, node);
            format!("dd if={from} of={to} bs=1M conv=sparse,notrunc status=none\n")
        };
        disks.iter().zip('a'..).map(copy).collect()
    };
    let inside = |disk: &str, node: char| (format!("/dev/vd{node}"), format!("/p/{disk}"));
    let long = |(disk, node): (&&str, char)| {
        format!("truncate -s $(( $(cat /sys/block/vd{node}/size) * 512 )) /p/{disk}\n")
    };
    script += &disks.iter().zip('a'..).map(long).collect::<String>();
    script += &copies(&inside);
    script += work;
    // The whole of it: what was zeroed is to be zeros.
    let outside = |disk: &str, node: char| (format!("/p/{disk}"), format!("/dev/vd{node}"));
    script += &copies(&outside).replace("conv=sparse,notrunc", "conv=notrunc");
    script += "sync\n";
    let path = folder.join("work.sh");
    std::fs::write(&path, script).expect("a script");
    let mut machine = Command::new(oracle);
    machine.args(["--mem", "3000", "--cache", "unsafe", "--timeout", "580"]);
    for disk in disks {
        machine.arg("--disk").arg(folder.join(disk));
    }
    let output = machine.arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Some groups, in which files come and go.
pub(super) fn churn(pool: &str) -> String {
    format!(
        "for i in 1 2 3 4 5 6; do dd if=/dev/urandom of=/{pool}/k$i bs=64k count=20 status=none\n\
         for j in $(seq 30); do echo $i $j > /{pool}/s$j.$i; done; rm -f /{pool}/s1*\n\
         zpool sync {pool}; done\nrm /{pool}/k2; zpool sync {pool}\n"
    )
}

/// Metaslabs are flushed late, so logs are kept; an export leaves few all the same.
const KEEP: &str = "modprobe zfs; echo 0 > /sys/module/zfs/parameters/zfs_min_metaslabs_to_flush\n";

/// One is exported; the other stays as it is at some moment.
const LEAVE: &str = "zpool export exported\nzpool sync left; zpool freeze left; sync\n";

/// Groups that Spindle writes.
const GROUPS: u64 = 12;

/// Spindle takes over a pool's logs, and writes a file and some more, over some groups. Gives how many logs there were.
fn written(folder: &Path, disks: &[&str], name: &str, content: &[u8], exports: bool) -> usize {
    let devices: Vec<_> = (0..)
        .zip(disks.iter().map(|disk| fixtures::Disk::of_file(&folder.join(disk)).device()))
        .collect();
    let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(content.len() as u64))));
    let rig = Rig::over(devices, fresh);
    let (name, content) = (name.to_owned(), content.to_owned());
    let logs = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (logs, has_arrays, uses, _) = of_logs(&spa).await;
        assert!(has_arrays && uses == 1, "{logs} logs");
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let files = live.files(&node).await.expect("it opens");
        let plan = files.objset().change(|_| files.objset().plan_number(1)).await;
        let (number, _) = plan.expect("one is free");
        let root = files.root_number();
        files.create(root, name.as_bytes(), &new_file(number)).await.expect("it is made");
        files.unlink(root, b"k3").await.expect("it goes");
        let end = content.len() as u64;
        files.write(number, 0, &Buf::copy_of(&content), end).await.expect("it is written");
        for group in 0..GROUPS {
            live.sync(async |_| Ok(())).await.expect("it is written");
            check_space(live.spa(), &name).await;
            let at = (group * 200_000).min(end - 70_000);
            let part = Buf::copy_of(&content[at as usize..at as usize + 70_000]);
            files.write(number, at, &part, end).await.expect("it is written");
        }
        match exports {
            true => live.close(LabelState::Exported).await.expect("it is closed"),
            false => live.sync(async |_| Ok(())).await.expect("it is written"),
        }
        logs
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        let (logs, has_arrays, uses, histograms) = of_logs(&spa).await;
        assert!(if exports { logs == 1 } else { logs as u64 > GROUPS }, "{logs} logs");
        assert_eq!((has_arrays, uses), (true, 1));
        assert!(histograms > 0, "the maps have theirs");
        check_space(&spa, "closed").await;
    });
    for ((_, device), disk) in rig.disks.iter().zip(disks) {
        super::dump(device, &folder.join(disk));
    }
    logs
}

#[test]
#[ignore = "boots a machine, twice: some minutes"]
fn the_kernel_goes_on_with_logs_of_space_maps_that_spindle_wrote() {
    let Some(oracle) = oracle() else { return };
    let all: Vec<&str> = POOLS.iter().flat_map(|(_, _, disks)| disks.iter().copied()).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let enabled: String =
        FEATURES.split_whitespace().map(|name| format!(" -o feature@{name}=enabled")).collect();
    let mut make = String::new();
    for (pool, kind, disks) in POOLS {
        make_disks(at, disks, DISK_BYTES);
        let files: String = disks.iter().map(|disk| format!(" /p/{disk}")).collect();
        make += &format!("zpool create -d{enabled} {pool} {kind}{files}\n");
        make += &churn(pool);
        make += &format!("zfs snapshot {pool}@one\n");
    }
    println!("{}", run(&oracle, at, &all, &format!("{KEEP}{make}{LEAVE}")));
    let content = |seed: u64| {
        let mut bytes = vec![0; 3_000_000 + seed as usize];
        Prng::new(seed).fill(&mut bytes);
        bytes
    };
    let mut check = String::new();
    for (pool, _, disks) in POOLS {
        let logs = written(at, disks, "spindle1", &content(1), pool == "exported");
        println!("{pool}: {logs} logs");
        assert!(logs > usize::from(pool == "left"), "{pool}: {logs} logs");
        check += &format!(
            "zdb -e -p /p -bcc {pool} 2>&1 | grep -i -e leak -e mismatch -e unflushed -e error || true\n\
             zpool import -f -d /p {pool}; echo digest $(sha256sum < /{pool}/spindle1)\n\
             zpool scrub -w {pool}; zpool status {pool}; {}\
             dd if=/dev/urandom of=/{pool}/k3 bs=64k count=3 status=none\n\
             zpool get -H -o value feature@log_spacemap {pool}\n",
            churn(pool)
        );
    }
    let said = run(&oracle, at, &all, &format!("{check}{LEAVE}"));
    println!("{said}");
    let times = |text: &str| said.matches(text).count();
    assert_eq!(times("No leaks (block sum matches space maps exactly)"), 2, "{said}");
    assert_eq!((times("mismatch"), times("with 0 errors")), (0, 2), "{said}");
    assert_eq!((times(&digest(&content(1))), times("No known data errors")), (2, 2), "{said}");
    assert_eq!(times("active\n"), 2, "the kernel has logs again: {said}");
    let mut again = String::new();
    for (pool, _, disks) in POOLS {
        written(at, disks, "spindle2", &content(2), pool == "left");
        again += &format!(
            "zdb -e -p /p -bcc {pool} 2>&1 | grep -i -e leak -e mismatch || true\n\
             zpool import -f -d /p {pool}; echo digest $(sha256sum < /{pool}/spindle2)\n"
        );
    }
    let said = run(&oracle, at, &all, &again);
    println!("{said}");
    let times = |text: &str| said.matches(text).count();
    assert_eq!(times("No leaks (block sum matches space maps exactly)"), 2, "{said}");
    assert_eq!((times("mismatch"), times(&digest(&content(2)))), (0, 2), "{said}");
}
