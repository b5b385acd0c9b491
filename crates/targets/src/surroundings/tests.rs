//! What could break: a disk below a volume manager that is not found, a partition held against the wrong
//! disk's blocks, a virtual disk believed to turn, a fact made up where the kernel says nothing.
//!
//! [`Host`] is a made-up `/proc` and `/sys`, with the links that the real ones have.

use super::counters::HostCounters;
use super::*;
use lab::measure::{DiskView, HostView};
use lab::pitfalls::{Grid, LinkSpan};
use std::os::unix::fs::symlink;

struct Host {
    folder: tempfile::TempDir,
    kernel: Kernel,
}

impl Host {
    fn new() -> Host {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (proc, sys) = (folder.path().join("proc"), folder.path().join("sys"));
        let host = Host { kernel: Kernel { proc, sys }, folder };
        host.write("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
        host.write("proc/cpuinfo", "flags : fpu vme\n");
        host
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn link(&self, link: &str, to: &str) {
        let path = self.folder.path().join(link);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        symlink(self.folder.path().join(to), path).expect("linked");
    }

    /// A disk or an array: its folder below `sys/devices`, and its number.
    fn device(&self, folder: &str, number: &str, queue: &[(&str, &str)]) {
        self.write(&format!("{folder}/dev"), number);
        self.write(&format!("{folder}/stat"), "10 0 80 5 20 0 160 9 0 30 14 2 0 8 1 7 40\n");
        for (file, value) in queue {
            self.write(&format!("{folder}/queue/{file}"), value);
        }
        self.link(&format!("sys/dev/block/{number}"), folder);
    }

    fn partition(&self, folder: &str, number: &str, start: u64) {
        self.device(folder, number, &[]);
        self.write(&format!("{folder}/partition"), "1\n");
        self.write(&format!("{folder}/start"), &format!("{start}\n"));
    }

    /// A SATA disk of 4 KiB blocks that turns, on a port of its own, with one partition.
    fn sata(&self, port: u32, name: &str, minor: u32, start: u64) -> String {
        let queue = [
            ("physical_block_size", "4096\n"),
            ("minimum_io_size", "4096\n"),
            ("optimal_io_size", "33553920\n"),
            ("rotational", "1\n"),
            ("write_cache", "write back\n"),
            ("fua", "0\n"),
        ];
        let folder = format!("sys/devices/pci0/ata{port}/host{port}/block/{name}");
        self.device(&folder, &format!("8:{minor}"), &queue);
        self.write(&format!("{folder}/device/model"), "ST3750640AS     \n");
        self.write(&format!("sys/class/ata_link/link{port}/sata_spd"), "3.0 Gbps\n");
        let part = format!("{folder}/{name}1");
        self.partition(&part, &format!("8:{}", minor + 1), start);
        part
    }

    fn stack(&self, major: u64, minor: u64) -> Stack {
        self.kernel.stack(&[minor | major << 8])
    }
}

#[test]
fn a_partition_is_held_against_the_blocks_of_its_disk() {
    let host = Host::new();
    host.sata(1, "sda", 0, 63);
    let stack = host.stack(8, 1);
    let [partition] = stack.partitions.as_slice() else { panic!("{stack:?}") };
    assert_eq!((partition.name.as_str(), partition.start), ("sda1", ByteCount(63 * 512)));
    // The row of 32 MiB less a bit is what a disk says that has nothing to say.
    assert_eq!(partition.grids, [(Grid::PhysicalBlock, ByteCount::kib(4))]);
    let [disk] = stack.disks.as_slice() else { panic!("{stack:?}") };
    assert_eq!((disk.name.as_str(), disk.rotational), ("sda1", Some(true)));
    assert_eq!(disk.model.as_deref(), Some("ST3750640AS"));
    // A whole disk has no partition to be misaligned.
    assert_eq!(host.stack(8, 0).partitions, []);
    assert_eq!(host.stack(9, 0), Stack::default(), "there is none");
}

#[test]
fn below_a_volume_manager_on_a_raid_set_lie_the_disks_of_the_set() {
    let host = Host::new();
    let parts = [host.sata(1, "sda", 0, 2048), host.sata(2, "sdb", 16, 63)];
    let queue = [
        ("physical_block_size", "4096\n"),
        ("minimum_io_size", "65536\n"),
        ("optimal_io_size", "327680\n"),
    ];
    host.device("sys/devices/virtual/block/md0", "9:0", &queue);
    for (slave, part) in ["sda1", "sdb1"].iter().zip(&parts) {
        host.link(&format!("sys/devices/virtual/block/md0/slaves/{slave}"), part);
    }
    host.partition("sys/devices/virtual/block/md0/md0p1", "259:0", 2048);
    host.device("sys/devices/virtual/block/dm-0", "253:0", &[]);
    host.link("sys/devices/virtual/block/dm-0/slaves/md0p1", "sys/dev/block/259:0");
    let stack = host.stack(253, 0);
    let names: Vec<&str> = stack.disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["sda1", "sdb1"]);
    let names: Vec<&str> = stack.partitions.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["md0p1", "sda1", "sdb1"]);
    let grids = &stack.partitions[0].grids;
    assert!(grids.contains(&(Grid::Chunk, ByteCount::kib(64))), "{grids:?}");
    assert!(grids.contains(&(Grid::Stripe, ByteCount::kib(320))), "{grids:?}");
    let facts = host.kernel.flush_facts(&stack, None);
    assert_eq!((facts.volatile_cache, facts.rotational), (Some(true), Some(true)));
    assert_eq!((facts.fua, facts.honoured), (Some(false), None));
    let view = KernelView::of_disk(&stack.disks[0]).expect("it counts");
    assert_eq!((view.name().as_str(), view.sample().flushes.map(|f| f.ios)), ("sda1", Some(7)));
}

/// What stands on itself, or on a thousand layers, must not take the program down.
#[test]
fn a_device_on_itself_comes_to_an_end() {
    let host = Host::new();
    let folder = "sys/devices/virtual/block/dm-0";
    host.device(folder, "253:0", &[]);
    host.link(&format!("{folder}/slaves/dm-0"), folder);
    assert_eq!(host.stack(253, 0), Stack::default());
}

#[test]
fn a_virtual_machine_is_not_believed_that_its_disks_turn() {
    let host = Host::new();
    host.sata(1, "sda", 0, 63);
    let facts = |host: &Host| host.kernel.flush_facts(&host.stack(8, 1), None);
    assert_eq!(facts(&host).rotational, Some(true));
    host.write("proc/cpuinfo", "flags\t\t: fpu hypervisor vme\n");
    assert_eq!(facts(&host).rotational, None);
    let queue = [("rotational", "1\n"), ("write_cache", "write back\n")];
    host.device("sys/devices/pci0/virtio1/block/vda", "254:0", &queue);
    host.write("proc/cpuinfo", "Features : fp asimd\n");
    assert_eq!(host.kernel.flush_facts(&host.stack(254, 0), None).rotational, None);
}

#[test]
fn a_mount_without_barriers_is_known_to_ignore_flushes() {
    let host = Host::new();
    let place = tempfile::tempdir().expect("a temporary folder");
    let at = place.path().canonicalize().expect("it is there");
    let line = |options: &str| {
        format!(
            "1 0 8:9 / / rw - ext4 /dev/sdz rw\n2 1 8:1 / {} rw,noatime - ext4 /dev/sda1 {options}\n",
            at.display()
        )
    };
    host.write("proc/self/mountinfo", &line("rw,nobarrier"));
    let facts = host.kernel.facts(&[&at], true);
    assert_eq!(facts.surroundings.flush.honoured, Some(false));
    let told = &facts.lines["file system"];
    assert!(told.starts_with("ext4 on ") && told.ends_with(" (rw,noatime,nobarrier)"), "{told}");
    host.write("proc/self/mountinfo", &line("rw"));
    assert_eq!(host.kernel.facts(&[&at], true).surroundings.flush.honoured, None);
}

#[test]
fn links_carry_less_than_their_line() {
    let host = Host::new();
    host.sata(1, "sda", 0, 2048);
    let link = host.kernel.link(&host.stack(8, 0)).expect("a port");
    assert_eq!(link.span, LinkSpan::EachDisk);
    assert!((270.0..285.0).contains(&link.limit_mb_s) && !link.full_duplex, "{link:?}");
    let function = "sys/devices/pci0/0000:01:00.0";
    host.write(&format!("{function}/current_link_speed"), "8.0 GT/s PCIe\n");
    host.write(&format!("{function}/current_link_width"), "4\n");
    host.device(&format!("{function}/nvme/nvme0/nvme0n1"), "259:5", &[]);
    let link = host.kernel.link(&host.stack(259, 5)).expect("a link");
    assert!((3_450.0..3_550.0).contains(&link.limit_mb_s) && link.full_duplex, "{link:?}");
    // Two limits are none, and so is nothing.
    let both = host.kernel.stack(&[8 << 8, (259 << 8) | 5]);
    assert_eq!((both.disks.len(), host.kernel.link(&both)), (2, None));
    assert_eq!(host.kernel.link(&Stack::default()), None);
}

#[test]
fn memory_is_what_the_control_group_leaves() {
    let host = Host::new();
    assert_eq!(host.kernel.memory(), Some(ByteCount::gib(1)));
    host.write("sys/fs/cgroup/memory.max", "max\n");
    assert_eq!(host.kernel.memory(), Some(ByteCount::gib(1)));
    host.write("sys/fs/cgroup/memory.max", "268435456\n");
    assert_eq!(host.kernel.memory(), Some(ByteCount::mib(256)));
}

#[test]
fn records_are_believed_of_those_who_have_some() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("file");
    std::fs::write(&file, [1; 100]).expect("written");
    let block = std::fs::metadata(&file).expect("it is there").blksize();
    for path in [file.as_path(), place.path()] {
        assert_eq!(record(Some("zfs"), path, false), Some(ByteCount(block)));
        assert_eq!(record(Some("ext4"), path, false), None, "direct I/O goes past the pages");
        // What a server likes to be asked for is no record.
        assert_eq!(record(Some("nfs4"), path, true), None);
        assert_eq!(record(None, path, true), None);
    }
    assert_eq!(record(Some("ext4"), &file, true), Some(ByteCount(block)));
    std::fs::remove_file(&file).expect("it was there");
    assert_eq!(record(Some("zfs"), place.path(), true), None, "no file tells");
}

#[test]
fn the_subvolumes_of_btrfs_lie_on_all_of_its_devices() {
    let host = Host::new();
    let parts = [host.sata(1, "sda", 0, 2048), host.sata(2, "sdb", 16, 2048)];
    for (name, part) in ["sda1", "sdb1"].iter().zip(&parts) {
        host.link(&format!("sys/fs/btrfs/uuid/devices/{name}"), part);
    }
    host.write("dev/sdb1", "");
    let mount = Mount {
        point: PathBuf::from("/"),
        kind: "btrfs".to_owned(),
        source: host.folder.path().join("dev/sdb1").display().to_string(),
        options: Vec::new(),
    };
    let numbers = host.kernel.numbers_below(0x2a, Some(&mount));
    assert_eq!(numbers, [0x801, 0x811]);
    let other = Mount { kind: "nfs4".to_owned(), ..mount };
    assert!(host.kernel.numbers_below(0x2a, Some(&other)).is_empty());
    assert_eq!(host.kernel.numbers_below(0x801, None), [0x801]);
}

#[test]
fn processor_time_is_read_as_the_kernel_writes_it() {
    let host = Host::new();
    let counters = HostCounters::told_by(host.kernel.clone());
    assert_eq!(counters.sample(), lab::measure::HostSample::default(), "it says nothing");
    host.write("proc/stat", "cpu  10 1 5 100 40 2 3 4 6 0\ncpu0 1 2 3\n");
    host.write("proc/thread-self/schedstat", "1500000000 76038 1\n");
    let sample = counters.sample();
    let all = sample.all.expect("eight fields");
    assert_eq!((all.busy, all.total), (25, 165));
    assert_eq!(sample.load_thread, Some(std::time::Duration::from_millis(1500)));
    host.write("proc/stat", "cpu  10 1 five\n");
    assert_eq!(counters.sample().all, None);
}

#[test]
fn this_host_tells_what_it_can_and_nothing_of_what_is_not_there() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let facts = HostFacts::of(place.path(), true);
    assert!(facts.surroundings.cores.is_some_and(|cores| cores > 0));
    assert!(facts.surroundings.memory.is_some_and(|memory| memory > ByteCount::mib(64)));
    let (free, total) = facts.surroundings.space.expect("a mounted file system");
    assert!(free <= total);
    let none = HostFacts::of(Path::new("/nothing/at/all"), true);
    assert!(none.disks.is_empty() && none.surroundings.space.is_none() && none.lines.is_empty());
}
