//! The sequence carried out by the OpenZFS kernel, in a machine: written out as a script, of which one boot runs several.

use super::deeds::{Content, Deed, FileDeed};
use super::ours::SETTINGS;
use crate::DEVICE;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the machine does for each: names of its functions are those of the script.
const PROGRAM: &str = r#"
import ctypes, fcntl, mmap, os, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def sh(*words):
    subprocess.run(words, check=True)
def at(of, path):
    return "/m/" + of.split("/")[1] + "/" + path
def create(path):
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
def write(path, place, bytes):
    file = os.open(path, os.O_RDWR)
    assert os.pwrite(file, bytes, place) == len(bytes)
    os.close(file)
def append(path, bytes):
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    assert os.write(file, bytes) == len(bytes)
    os.close(file)
def punch(path, place, count):
    file = os.open(path, os.O_RDWR)
    assert libc.fallocate(file, 3, ctypes.c_long(place), ctypes.c_long(count)) == 0, ctypes.get_errno()
    os.close(file)
def volume_write(of, place, bytes):
    file = os.open("/dev/zvol/" + of, os.O_RDWR)
    assert os.pwrite(file, bytes, place) == len(bytes)
    os.fsync(file)
    os.close(file)
def discard(of, place, count):
    file = os.open("/dev/zvol/" + of, os.O_RDWR)
    fcntl.ioctl(file, 0x1277, struct.pack("QQ", place, count))
    os.close(file)
def sync():
    sh("zpool", "sync", "tank")
    lines = [line.split() for line in open("/proc/spl/kstat/zfs/tank/txgs") if line[0].isdigit()]
    assert lines[-1][2] == "O", lines[-1]
    print("mark", lines[-1][0], flush=True)
"#;

/// One sequence that is to be run: its pool's image, its content, what is done.
pub(super) struct Task<'a> {
    pub(super) ashift: u64,
    pub(super) deeds: &'a [Deed],
    pub(super) content: &'a [u8],
}

/// Runs all of them in one boot. Gives the image of each pool, and the first group after each commit; nothing, said aloud, where
/// there is no machine.
pub(super) fn run(
    folder: &Path,
    features: &[&str],
    tasks: &[Task<'_>],
) -> Option<Vec<(PathBuf, Vec<u64>)>> {
    let oracle: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return None;
    }
    // No group begins by itself while operations of one interval go on.
    let mut script = String::from(
        "set -e\nmodprobe zfs\necho 36000 > /sys/module/zfs/parameters/zfs_txg_timeout\n\
         mkdir /p; mount -t tmpfs -o size=2g none /p\n",
    );
    let mut machine = Command::new(&oracle);
    machine.args(["--mem", "3000", "--cache", "unsafe", "--timeout", "1500"]);
    for (n, task) in tasks.iter().enumerate() {
        let (image, content) =
            (folder.join(format!("theirs{n}")), folder.join(format!("content{n}")));
        std::fs::File::create(&image).and_then(|file| file.set_len(DEVICE)).expect("a disk");
        let mut bytes = task.content.to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(1 << 20), 0);
        std::fs::write(&content, bytes).expect("room");
        machine.arg("--disk").arg(image).arg("--disk").arg(content);
        script += &one(n, features, task);
    }
    script += "sync\n";
    let path = folder.join("work.sh");
    std::fs::write(&path, script).expect("a script");
    let output = machine.arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let mut all = said.split("begins\n").skip(1).zip(0..).map(|(said, n)| {
        let marks = said.lines().filter_map(|line| line.trim().strip_prefix("mark "));
        let marks = marks.map(|txg| txg.parse().expect("a group")).collect();
        (folder.join(format!("theirs{n}")), marks)
    });
    Some(all.by_ref().collect())
}

/// The place of a disk in the machine, by its number.
fn disk(number: usize) -> char {
    char::from(b'a' + u8::try_from(number).expect("few disks"))
}

fn one(n: usize, features: &[&str], task: &Task<'_>) -> String {
    let enabled: String =
        features.iter().map(|name| format!(" -o feature@{name}=enabled")).collect();
    let set: String =
        SETTINGS.iter().map(|(name, _, value)| format!(" -O {name}={value}")).collect();
    let mut script = format!(
        "echo begins; truncate -s {DEVICE} /p/pool{n}\n\
         zpool create -d{enabled} -o ashift={} -O mountpoint=/r{set} tank /p/pool{n}\n\
         sleep 1\n\
         cat > /work.py <<'END'\n{PROGRAM}\n",
        task.ashift
    );
    let (image, content) = (disk(2 * n), disk(2 * n + 1));
    script += &format!("content = open('/dev/vd{content}', 'rb').read()\n");
    for deed in task.deeds {
        writeln!(script, "{}", line(deed)).expect("room");
    }
    script += &format!(
        "END\npython3 /work.py\nzpool wait -t free tank\nzpool export tank\n\
         dd if=/p/pool{n} of=/dev/vd{image} bs=1M status=none\nrm /p/pool{n}\n"
    );
    script
}

fn bytes(of: Content) -> String {
    format!("content[{}:{}]", of.at, of.at + of.len)
}

/// Where a file system is mounted: nowhere in another.
fn at(name: &str) -> String {
    format!("mountpoint=/m/{}", name.rsplit('/').next().expect("a name"))
}

fn line(deed: &Deed) -> String {
    match deed {
        Deed::File(of, deed) => file_line(of, deed),
        Deed::VolumeWrite(of, at, content) => {
            format!("volume_write({of:?}, {at}, {})", bytes(*content))
        }
        Deed::VolumeDiscard(of, at, len) => format!("discard({of:?}, {at}, {len})"),
        Deed::CreateFiles(name, record) => {
            let at = at(name);
            format!("sh('zfs', 'create', '-o', 'recordsize={record}', '-o', '{at}', {name:?})")
        }
        Deed::CreateVolume(name, bytes, block) => format!(
            "sh('zfs', 'create', '-s', '-V', '{bytes}', '-o', 'volblocksize={block}', {name:?})\n\
             sh('udevadm', 'settle')"
        ),
        Deed::Snapshot(name) => format!("sh('zfs', 'snapshot', {name:?})"),
        Deed::Clone(snapshot, name, is_volume) => {
            let at = if *is_volume { String::new() } else { format!("'-o', '{}', ", at(name)) };
            format!("sh('zfs', 'clone', {at}{snapshot:?}, {name:?})\nsh('udevadm', 'settle')")
        }
        Deed::Rollback(snapshot) => format!("sh('zfs', 'rollback', {snapshot:?})"),
        Deed::DestroySnapshot(name) | Deed::Destroy(name) => {
            format!("sh('udevadm', 'settle')\nsh('zfs', 'destroy', {name:?})")
        }
        Deed::Promote(name) => format!("sh('zfs', 'promote', {name:?})"),
        Deed::Bookmark(snapshot, mark) => format!("sh('zfs', 'bookmark', {snapshot:?}, {mark:?})"),
        Deed::Set(of, (name, _, value)) => format!("sh('zfs', 'set', '{name}={value}', {of:?})"),
        Deed::Sync => "sync()".to_owned(),
    }
}

fn file_line(of: &str, deed: &FileDeed) -> String {
    let at = |path: &str| format!("at({of:?}, {path:?})");
    match deed {
        FileDeed::Create(path) => format!("create({})", at(path)),
        FileDeed::Mkdir(path) => format!("os.mkdir({}, 0o755)", at(path)),
        FileDeed::Rmdir(path) => format!("os.rmdir({})", at(path)),
        FileDeed::Write(path, place, content) => {
            format!("write({}, {place}, {})", at(path), bytes(*content))
        }
        FileDeed::Append(path, content) => format!("append({}, {})", at(path), bytes(*content)),
        FileDeed::Truncate(path, len) => format!("os.truncate({}, {len})", at(path)),
        FileDeed::Punch(path, place, len) => format!("punch({}, {place}, {len})", at(path)),
        FileDeed::Rename(from, to) => format!("os.rename({}, {})", at(from), at(to)),
        FileDeed::Link(from, to) => format!("os.link({}, {})", at(from), at(to)),
        FileDeed::Symlink(to, path) => format!("os.symlink({to:?}, {})", at(path)),
        FileDeed::Unlink(path) => format!("os.unlink({})", at(path)),
        FileDeed::Chmod(path, mode) => format!("os.chmod({}, {mode})", at(path)),
        FileDeed::Chown(path, user, group) => format!("os.chown({}, {user}, {group})", at(path)),
        FileDeed::SetValue(path, content) => {
            format!("os.setxattr({}, 'user.v', {})", at(path), bytes(*content))
        }
    }
}
