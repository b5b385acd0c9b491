//! File systems on the RAID sets that the real md made, mounted by the real kernel through the NBD export.
//!
//! What could break: a layout that is right where our own tests look and wrong elsewhere, a degraded set whose
//! reconstructed blocks are another's, an answer that the kernel's NBD client takes otherwise than ours. Each set is
//! served for reading; the machine mounts all of them, and holds every file's content, kind, mode and owner against
//! what stood there when md wrote the set.
//!
//! It boots a machine, which takes some minutes, so it runs when it is asked for: `cargo test -p spindle --test
//! md_mount_oracle -- --ignored`. Where the machine or the fixtures are not there it is skipped.

use serde_json::Value;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Block devices that the kernel's NBD client has unless it is told otherwise.
const SETS_MAX: usize = 16;

fn beside(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path)
}

/// A set that is served, and its port.
struct Serving {
    child: Child,
    port: String,
}

impl Serving {
    fn start(folder: &Path, name: &str) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["-d", &folder.display().to_string(), "md", "serve", name])
            .args(["--readonly", "--nbd", "127.0.0.1:0"])
            .env_remove("SPINDLE_DEVICES")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut ready = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut ready).expect("a line");
        let port = ready.trim_end().rsplit(':').next().unwrap_or_default().to_owned();
        assert!(!port.is_empty(), "{name} is not served");
        Serving { child, port }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // One that has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a shell's list can carry a path without quoting.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// What the file system is to hold: lines of sha256sum, and lines of find.
fn expected(entries: &[Value]) -> (String, Vec<String>) {
    let (mut sums, mut lines) = (String::new(), Vec::new());
    for entry in entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let path = text("path");
        if !is_plain(&path) || path == "." {
            continue;
        }
        let kind = match &*text("type") {
            "file" => "f",
            "dir" => "d",
            "symlink" => "l",
            "blockdev" => "b",
            "chardev" => "c",
            "fifo" => "p",
            other => panic!("an entry of the kind {other}"),
        };
        let mode = text("mode");
        let mode = mode.trim_start_matches('0');
        let mode = if mode.is_empty() { "0" } else { mode };
        lines.push(format!("{kind} {mode} {} {} {path}", entry["uid"], entry["gid"]));
        if kind == "f" {
            writeln!(sums, "{}  {path}", text("sha256")).expect("a string takes it");
        }
    }
    lines.sort_unstable();
    (sums, lines)
}

#[test]
#[ignore = "boots a machine, which takes minutes"]
fn the_kernel_mounts_the_file_systems_of_all_sets_and_finds_every_file() {
    let (Some(from), oracle) = (fixtures::folder("md"), beside("oracle/oracle")) else { return };
    if !oracle.is_file() {
        return println!("skipped: the oracle machine is not there");
    }
    let folder = fixtures::scratch::folder();
    let mut manifests: Vec<PathBuf> = std::fs::read_dir(&from)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    manifests.sort_unstable();
    let mut machine = Command::new(&oracle);
    machine.args(["--net", "--timeout", "580"]);
    let mut script = "set -e\nmkdir -p /m\n".to_owned();
    let mut serving = Vec::new();
    for manifest in manifests {
        let text = std::fs::read_to_string(&manifest).expect("a text");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let name = manifest["name"].as_str().expect("a name");
        let Some(entries) = manifest["filesystem"]["entries"].as_array() else { continue };
        let kind = manifest["filesystem"]["type"].as_str().expect("a kind");
        let n = serving.len();
        let own = folder.path().join(name);
        std::fs::create_dir(&own).expect("a folder");
        fixtures::unpack_to(&from, name, &own);
        // Sets with old superblocks have no name, so a set is called by a member.
        let member = std::fs::read_dir(&own).expect("a folder").next().expect("a disk");
        let served = Serving::start(&own, &member.expect("an entry").path().display().to_string());
        let (sums, lines) = expected(entries);
        assert!(sums.lines().count() > 100 && lines.len() > 150, "{name} holds a tree");
        for (what, text) in [("sums", sums), ("lines", lines.join("\n") + "\n")] {
            writeln!(script, "cat > /{what} <<'END OF LIST'\n{text}END OF LIST")
                .expect("a string takes it");
        }
        let options = if kind == "xfs" { "ro,norecovery,nouuid" } else { "ro,noload" };
        write!(
            script,
            "nbd-client -R 10.0.2.2 {} /dev/nbd{n} > /dev/null\n\
             mount -t {kind} -o {options} /dev/nbd{n} /m\n\
             cd /m\n\
             sha256sum --quiet -c /sums\n\
             find . -mindepth 1 -printf '%y %m %U %G %P\\n' | sort > /found\n\
             sort /lines | comm -23 - /found > /lacking\n\
             if [ -s /lacking ]; then echo {name}; cat /lacking; exit 1; fi\n\
             cd / && umount /m && nbd-client -d /dev/nbd{n} > /dev/null\n\
             echo {name} is whole\n",
            served.port
        )
        .expect("a string takes it");
        serving.push(served);
        assert!(serving.len() <= SETS_MAX, "more sets than /dev/nbd devices");
    }
    assert!(serving.len() > 10, "the fixtures hold file systems");
    let path = folder.path().join("script.sh");
    std::fs::write(&path, format!("export LC_ALL=C\n{script}")).expect("a script");
    let output = machine.arg(&path).output().expect("the machine starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let whole = text.lines().filter(|line| line.ends_with("is whole")).count();
    assert_eq!(whole, serving.len(), "{text}");
}
