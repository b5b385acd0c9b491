//! What users, groups and projects take and may take, from the outside: in OpenZFS's words, held against what OpenZFS itself says.
//!
//! What could break: a line that scripts of OpenZFS's users don't know; a sum that the kernel would reckon otherwise; a limit that
//! doesn't hold, or holds back who has not reached it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

const DISK_BYTES: u64 = 128 << 20;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.current_dir(folder).args(["-d", "."]).args(arguments);
    command.env_remove("SPINDLE_DEVICES").output().expect("the program starts")
}

#[track_caller]
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str], why: &str) {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
    assert!(errors.contains(why), "{arguments:?}: {errors}");
}

fn disk(folder: &Path, name: &str) {
    let file = std::fs::File::create(folder.join(name)).expect("a disk");
    file.set_len(DISK_BYTES).expect("a size");
}

/// What `zdb` says of a pool, where it is installed.
fn judge(folder: &Path, pool: &str) {
    let place = folder.to_str().expect("a path");
    let Some(said) = fixtures::zdb::zdb(["-e", "-p", place, "-bcc", pool]) else { return };
    let text = said.text;
    assert!(said.is_well, "{text}{}", said.errors);
    assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
}

/// Files of the host that belong to users and groups: a name, its owner, its bytes.
fn files(folder: &Path, all: &[(&str, u32, u32, usize)]) -> bool {
    std::fs::create_dir_all(folder).expect("a folder");
    for (name, user, group, len) in all {
        let bytes: Vec<u8> =
            (0..*len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        std::fs::write(folder.join(name), bytes).expect("a file");
        let own = std::os::unix::fs::chown(folder.join(name), Some(*user), Some(*group));
        if own.is_err() {
            println!("skipped: only root gives files away");
            return false;
        }
    }
    true
}

#[test]
fn userspace_says_line_by_line_what_openzfs_says() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "names-quotas");
    let text = std::fs::read_to_string(folder.join("names-quotas.d/userspace.txt"));
    let expected = text.expect("a text");
    let at = disks.path();
    let dataset = "t_names_quotas/quota";
    let said = done(at, &["zfs", "userspace", "-np", dataset])
        + &done(at, &["zfs", "groupspace", "-np", dataset])
        + &done(at, &["zfs", "projectspace", "-p", dataset]);
    assert_eq!(said, expected);
    let names = done(at, &["zfs", "userspace", "-H", "-o", "name,used", dataset]);
    let at_line = |line: &str| names.lines().position(|known| known == line);
    let (root, number) = (at_line("root\t4.50K"), at_line("1001\t2K"));
    assert!(root.is_some() && root < number.or(Some(7)), "this host's names come first: {names}");
    let by_size = done(at, &["zfs", "userspace", "-npH", "-o", "used", "-S", "used", dataset]);
    let sizes: Vec<u64> = by_size.lines().map(|size| size.parse().expect("a size")).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes.len() == 7, "{sizes:?}");
    let all = done(at, &["zfs", "userspace", "-nH", "-t", "all", "-o", "type", dataset]);
    assert_eq!(all.lines().filter(|line| *line == "POSIX Group").count(), 7, "{all}");
    refused(at, &["zfs", "projectspace", "-n", dataset], "invalid option 'n'");
    refused(at, &["zfs", "userspace", "-o", "avail", dataset], "invalid type 'avail'");
    refused(at, &["zfs", "userspace", "-s", "avail", dataset], "invalid field 'avail'");
    refused(at, &["zfs", "userspace", "-t", "user", dataset], "invalid type 'user'");
    refused(at, &["zfs", "userspace", "t_names_quotas/none"], "does not exist");
}

#[test]
fn limits_are_set_shown_and_hold() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    disk(at, "a");
    done(at, &["zpool", "create", "-O", "compression=off", "tank", "a"]);
    let home = at.join("home");
    let all = [("one", 1001, 2001, 300_000), ("two", 1002, 2001, 40_000), ("six", 1002, 2001, 1)];
    if !files(&home, &all) {
        return;
    }
    done(at, &["zfs", "create", "-o", "groupobjquota@5=6", "tank/home"]);
    let get = |name: &str| done(at, &["zfs", "get", "-Hpo", "value", name, "tank/home"]);
    assert_eq!((&*get("userused@0"), &*get("userobjused@0")), ("512\n", "1\n"));
    assert_eq!(get("groupobjquota@5"), "6\n");
    done(at, &["zfs", "cp", "./home/one", "tank/home:one"]);
    let one: u64 = get("userused@1001").trim().parse().expect("a number");
    assert!((300_000..600_000).contains(&one), "{one}");
    assert_eq!(&*get("groupused@2001"), &*get("userused@1001"));
    done(at, &["zfs", "set", "userquota@1001=400K", "groupobjquota@2001=2", "tank/home"]);
    assert_eq!((&*get("userquota@1001"), &*get("groupobjquota@2001")), ("409600\n", "2\n"));
    let shown = done(at, &["zfs", "groupspace", "-nH", "tank/home"]);
    assert!(shown.contains("POSIX Group\t2001\t") && shown.ends_with("\tnone\t1\t2\n"), "{shown}");
    done(at, &["zfs", "cp", "./home/two", "tank/home:two"]);
    // The group has its two objects.
    refused(at, &["zfs", "cp", "./home/six", "tank/home:six"], "the quota is used up");
    done(at, &["zfs", "set", "groupobjquota@2001=none", "tank/home"]);
    done(at, &["zfs", "cp", "./home/six", "tank/home:six"]);
    done(at, &["zfs", "set", "userquota@1001=200K", "tank/home"]);
    files(&home, &[("more", 1001, 2001, 10)]);
    refused(at, &["zfs", "cp", "./home/more", "tank/home:more"], "the quota is used up");
    done(at, &["zfs", "set", "userquota@1001=none", "projectquota@7=1M", "tank/home"]);
    done(at, &["zfs", "cp", "./home/more", "tank/home:more"]);
    assert_eq!((&*get("userquota@1001"), &*get("projectquota@7")), ("0\n", "1048576\n"));
    done(at, &["zfs", "create", "-V", "8M", "tank/volume"]);
    for (given, of, why) in [
        ("userused@1001=5", "tank/home", "'userused@1001' is readonly"),
        ("userquota@nobodyatall=5", "tank/home", "there is no user 'nobodyatall'"),
        ("userquota@1001=much", "tank/home", "bad numeric value 'much'"),
        ("projectquota@4294967295=5", "tank/home", "there is no project"),
        ("userquota@1001=5M", "tank/volume", "does not apply to datasets of this type"),
    ] {
        refused(at, &["zfs", "set", given, of], why);
    }
    let history = done(at, &["zpool", "history", "tank"]);
    assert!(history.contains("set userquota@1001=400K"), "{history}");
    let uses = done(at, &["zpool", "get", "-Ho", "value", "feature@project_quota", "tank"]);
    assert_eq!(uses, "active\n");
    refused(at, &["zfs", "userspace", "tank/volume"], "only applicable to filesystems");
    judge(at, "tank");
}

#[test]
fn projects_are_given_handed_down_and_taken() {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    disk(at, "a");
    done(at, &["zpool", "create", "tank", "a"]);
    let home = at.join("home");
    if !files(&home, &[("one", 1, 1, 10_000), ("two", 1, 1, 10_000)]) {
        return;
    }
    done(at, &["zfs", "cp", "-r", "./home", "tank:"]);
    done(at, &["zfs", "cp", "./home/one", "tank:alone"]);
    assert_eq!(done(at, &["zfs", "project", "-d", "tank:home"]), "    0 - tank:/home\n");
    done(at, &["zfs", "project", "-s", "-r", "-p", "7", "tank:home"]);
    let listed = done(at, &["zfs", "project", "tank:home"]);
    assert_eq!(listed, "    7 P tank:/home\n    7 P tank:/home/one\n    7 P tank:/home/two\n");
    done(at, &["zfs", "cp", "./home/two", "tank:home/three"]);
    let three = done(at, &["zfs", "project", "tank:home/three"]);
    assert_eq!(three, "    7 P tank:/home/three\n");
    let shown = done(at, &["zfs", "projectspace", "-Hp", "-o", "name,objused", "tank"]);
    assert_eq!(shown, "0\t2\n7\t4\n");
    done(at, &["zfs", "project", "-C", "tank:home/one"]);
    assert!(done(at, &["zfs", "project", "-c", "tank:home"]).contains("(0/7)"));
    let shown = done(at, &["zfs", "projectspace", "-Hp", "-o", "name,objused", "tank"]);
    assert_eq!(shown, "0\t3\n7\t3\n");
    done(at, &["zfs", "set", "projectobjquota@7=3", "tank"]);
    refused(at, &["zfs", "cp", "./home/one", "tank:home/four"], "the quota is used up");
    refused(
        at,
        &["zfs", "project", "-r", "-p", "3", "tank:alone"],
        "'-r' option on non-dir target",
    );
    refused(at, &["zfs", "project", "-p", "4294967295", "tank:alone"], "invalid project ID");
    refused(at, &["zfs", "project", "-p", "3", "tank:none"], "there is no such file");
    judge(at, "tank");
}

/// Who takes what, by the kernel: its own words, and each file's blocks added up, which it counts with the dnode.
fn ask(label: &str, dataset: &str) -> String {
    let mut script = String::new();
    for (command, whose) in [("userspace", 'U'), ("groupspace", 'G')] {
        let _ = write!(
            script,
            "echo = {label} {whose}; zfs {command} -nHp -o name,used,objused {dataset}\n\
             echo = {label} find {whose}; find /{dataset} -xdev -printf '%{whose} %b\\n' \
             | awk '{{s[$1]+=512*$2; n[$1]++}} END {{for (i in s) printf \"%s\\t%d\\t%d\\n\", i, s[i], n[i]}}'\n"
        );
    }
    let projects = format!("zfs projectspace -Hp -o name,used,objused {dataset}\necho =\n");
    script + &format!("echo = {label} P; {projects}")
}

/// The parts of an answer, each with its lines in order.
fn parts(said: &str) -> BTreeMap<String, Vec<String>> {
    let mut parts = BTreeMap::new();
    for part in said.split("= ").skip(1) {
        let mut lines = part.lines();
        let head = lines.next().unwrap_or_default().to_owned();
        let rest = lines.map(str::to_owned).filter(|line| line.contains('\t'));
        let mut rest: Vec<String> = rest.collect();
        rest.sort();
        parts.insert(head, rest);
    }
    parts
}

/// What Spindle says, as the kernel was asked.
fn told(at: &Path, dataset: &str, command: &str, numbers: &str) -> Vec<String> {
    let said = done(at, &["zfs", command, numbers, "-o", "name,used,objused", dataset]);
    let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Runs a script in the oracle machine on these disks.
fn machine(oracle: &Path, at: &Path, names: &[&str], script: &str) -> String {
    let mut whole = String::from("set -e\nmkdir /p; mount -t tmpfs -o size=1500m none /p\n");
    for (name, node) in names.iter().zip('a'..) {
        let _ = writeln!(whole, "dd if=/dev/vd{node} of=/p/{name} bs=1M conv=sparse status=none");
    }
    whole += script;
    for (name, node) in names.iter().zip('a'..) {
        let _ = writeln!(whole, "dd if=/p/{name} of=/dev/vd{node} bs=1M status=none");
    }
    whole += "sync\n";
    let path = at.join("check.sh");
    std::fs::write(&path, whole).expect("a script");
    let mut machine = Command::new(oracle);
    machine.args(["--mem", "3000", "--cache", "unsafe", "--timeout", "280"]);
    for name in names {
        machine.arg("--disk").arg(at.join(name));
    }
    let output = machine.arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The real OpenZFS goes on counting where Spindle stopped, and Spindle where it did.
#[test]
#[ignore = "boots a machine twice: two minutes"]
fn the_kernel_counts_on_what_spindle_counted_and_gives_it_back() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return;
    }
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    ["a", "b", "k"].into_iter().for_each(|name| disk(at, name));
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    done(at, &["zfs", "create", "tank/home"]);
    let home = at.join("home");
    let all = [
        ("one", 1001, 2001, 300_000),
        ("two", 1002, 2001, 1_500_000),
        ("three", 1003, 2003, 1),
        ("four", 1004, 2003, 0),
    ];
    if !files(&home, &all) {
        return;
    }
    done(at, &["zfs", "cp", "-r", "./home", "tank/home:"]);
    done(at, &["zfs", "snapshot", "tank/home@before"]);
    done(at, &["zfs", "set", "userquota@1001=1M", "userobjquota@1004=3", "tank/home"]);
    let before = told(at, "tank/home", "userspace", "-nHp");
    let mut script = String::from("zpool import -d /p tank\n");
    script += &ask("before", "tank/home");
    script += "echo limits $(zfs get -Hpo value userquota@1001,userobjquota@1004 tank/home)\n\
        cd /tank/home; cd $(dirname $(find . -name one))\n\
        dd if=/dev/urandom of=big bs=128k count=9 status=none; chown 1001 big; sync; zpool sync\n\
        dd if=/dev/urandom of=big bs=128k count=9 seek=9 conv=notrunc 2>&1 | grep -o 'quota exceeded' || true\n\
        touch f1 f2; chown 1004 f1 f2; zpool sync; touch f3\n\
        chown 1004 f3 2>&1 | grep -o 'quota exceeded' || true\n\
        rm two; chown 1005:2005 one; mkdir d; chown 1005 d; ln -s x d/l; chown -h 1006 d/l; mkfifo p\n\
        zfs project -p 7 -s d; zfs project -p 7 three; echo hello > d/inherits\n\
        setfattr -n user.long -v $(head -c 3000 /dev/zero | tr '\\0' x) three; cd /; zpool sync\n";
    script += &ask("after", "tank/home");
    // What is not written here yet is left out; all else is as OpenZFS makes it.
    script += "zpool create -o feature@log_spacemap=disabled -o feature@head_errlog=disabled \
        -o feature@vdev_zaps_v2=disabled -O compression=lz4 kern /p/k\n\
        zfs create kern/fs; cd /kern/fs; mkdir e; chown 1001:2001 e\n\
        for i in $(seq 40); do head -c ${i}000 /dev/urandom > e/f$i; \
        chown 10$((i%7)):20$((i%5)) e/f$i; done; cd /; zpool sync\n";
    script += &ask("kern", "kern/fs");
    script += "zpool export tank; zpool export kern\n";
    let disks = ["a", "b", "k"];
    let said = machine(&oracle, at, &disks, &script);
    let first = parts(&said);
    assert_eq!(first["before U"], before, "the kernel reads what Spindle counted");
    for (label, dataset) in
        [("before", None), ("after", Some("tank/home")), ("kern", Some("kern/fs"))]
    {
        for (whose, command, numbers) in
            [("U", "userspace", "-nHp"), ("G", "groupspace", "-nHp"), ("P", "projectspace", "-Hp")]
        {
            let told_there = &first[&format!("{label} {whose}")];
            assert!(!told_there.is_empty(), "{label} {whose}: {said}");
            if let Some(found) = first.get(&format!("{label} find {whose}")) {
                assert_eq!(told_there, found, "{label} {whose}: files by the kernel: {said}");
            }
            if let Some(dataset) = dataset {
                assert_eq!(&told(at, dataset, command, numbers), told_there, "{label} {whose}");
            }
        }
    }
    assert!(said.contains("limits 1048576 3"), "{said}");
    assert_eq!(said.matches("quota exceeded").count(), 2, "{said}");
    assert!(first["after P"].iter().any(|line| line.starts_with("7\t")), "{said}");
    // Spindle goes on with both: more, others in the place of some, and a stock pool.
    files(&home, &[("two", 1007, 2007, 200_000), ("five", 1001, 2001, 90_000)]);
    std::fs::remove_file(home.join("one")).expect("it goes");
    done(at, &["zfs", "set", "userquota@1001=none", "userobjquota@1004=none", "tank/home"]);
    done(at, &["zfs", "cp", "-r", "./home", "tank/home:again"]);
    done(at, &["zfs", "cp", "-r", "./home", "kern/fs:e/home"]);
    done(at, &["zfs", "snapshot", "kern/fs@spindle"]);
    done(at, &["zfs", "create", "kern/new"]);
    done(at, &["zfs", "cp", "-r", "./home", "kern/new:h"]);
    for pool in ["tank", "kern"] {
        judge(at, pool);
    }
    let datasets = ["tank/home", "kern/fs", "kern/new"];
    let mut script = String::from("zpool import -d /p tank; zpool import -d /p kern\n");
    datasets.iter().for_each(|dataset| script += &ask(dataset, dataset));
    script += "rm -r /kern/fs/e /tank/home/again; zpool sync\n";
    for dataset in datasets {
        script += &ask(&format!("gone {dataset}"), dataset);
    }
    script += "zpool export tank; zpool export kern\n";
    let said = machine(&oracle, at, &disks, &script);
    let last = parts(&said);
    for dataset in datasets {
        for label in [dataset.to_owned(), format!("gone {dataset}")] {
            for whose in ["U", "G"] {
                let (told, found) =
                    (&last[&format!("{label} {whose}")], &last[&format!("{label} find {whose}")]);
                assert!(!told.is_empty(), "{label}: {said}");
                assert_eq!(told, found, "{label} {whose}: {said}");
            }
        }
    }
    for pool in ["tank", "kern"] {
        judge(at, pool);
    }
}
