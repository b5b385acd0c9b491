//! Arrays that `spindle md create` made, judged by the real md in the oracle machine.
//!
//! What could break: anything in the metadata that we read back as we wrote it and md does not. md assembles each
//! array, synchronises it, writes to it, checks it (0 mismatches) and prints the digest of its content; then
//! `spindle md dump` must give the same content, and `mdadm --examine` within the machine must not complain.
//!
//! It boots a machine, which takes half a minute, so it runs when it is asked for: `cargo test -p spindle --test
//! md_oracle -- --ignored`. Where the machine is not there it is skipped.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Size of each disk.
const DISK_BYTES: u64 = 24 << 20;

/// Arguments of `create`, and how many disks they take.
const ARRAYS: [(&str, usize); 9] = [
    ("r5 -l 5 -n 3 -c 64", 3),
    ("r5p -l 5 -n 3 -c 64 -k ppl", 3),
    ("r5b -l 5 -n 3 -c 64 -e 1.1 -b internal -x 1", 4),
    ("r6 -l 6 -n 4 -c 64 -e 1.0 -b internal", 4),
    ("r1 -l 1 -n 2 -b internal", 2),
    ("r10 -l 10 -n 4 -c 64 -p f2 -b internal", 4),
    ("r4 -l 4 -n 3 -c 64 --assume-clean", 3),
    ("r0 -l 0 -n 2 -c 64", 2),
    ("lin -l linear -n 2", 2),
];

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

#[test]
#[ignore = "boots a machine: half a minute"]
fn the_real_md_runs_what_was_created_and_its_content_is_read_back() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return;
    }
    let folder = fixtures::scratch::folder();
    let spindle = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.current_dir(folder.path()).env_remove("SPINDLE_DEVICES");
        command
    };
    let (mut machine, mut script, mut disk) = (Command::new(&oracle), String::new(), 0);
    machine.args(["--cache", "unsafe", "--timeout", "280"]);
    script += "set -e\ncd /dev\n";
    for (n, (arguments, count)) in ARRAYS.iter().enumerate() {
        std::fs::create_dir(folder.path().join(format!("a{n}"))).expect("a folder");
        let mut create = spindle();
        create.args(["md", "create"]).args(arguments.split(' '));
        let mut nodes = String::new();
        for _ in 0..*count {
            let name = format!("a{n}/disk{disk:02}.raw");
            let file = std::fs::File::create(folder.path().join(&name)).expect("a disk");
            file.set_len(DISK_BYTES).expect("a size");
            create.arg(&name);
            machine.arg("--disk").arg(folder.path().join(&name));
            // vda to vdz, then vdaa.
            let letter = char::from(b'a' + disk % 26);
            let _ = write!(nodes, " vd{}{letter}", if disk < 26 { "" } else { "a" });
            disk += 1;
        }
        run(&mut create);
        let _ = write!(
            script,
            "mdadm --assemble /dev/md{n}{nodes} 2>&1\nmdadm --wait /dev/md{n} || true\n\
             dd if=/dev/urandom of=/dev/md{n} bs=64k count=30 seek=3 status=none; sync\n\
             if [ -e /sys/block/md{n}/md/sync_action ]; then\n\
             echo check > /sys/block/md{n}/md/sync_action; mdadm --wait /dev/md{n} || true\n\
             echo mismatches {n} $(cat /sys/block/md{n}/md/mismatch_cnt); fi\n\
             echo content {n} $(sha256sum < /dev/md{n})\nmdadm --stop /dev/md{n} 2>&1\n"
        );
    }
    let path = folder.path().join("check.sh");
    std::fs::write(&path, script).expect("a script");
    let said = run(machine.arg(&path));
    for (n, (arguments, _)) in ARRAYS.iter().enumerate() {
        let name = arguments.split(' ').next().expect("a name");
        let striped = ["r0", "lin"].contains(&name);
        let expected = format!("mismatches {n} 0");
        assert!(striped || said.lines().any(|line| line == expected), "{arguments}: {said}");
        let out = folder.path().join("out.raw");
        let directory = format!("a{n}");
        run(spindle().args(["md", "-d", &directory, "dump", "--overwrite", name]).arg(&out));
        let digest = run(Command::new("sha256sum").arg(&out));
        let digest = digest.split(' ').next().expect("a digest");
        let expected = format!("content {n} {digest} -");
        assert!(said.lines().any(|line| line == expected), "{arguments}: {said}");
    }
}
