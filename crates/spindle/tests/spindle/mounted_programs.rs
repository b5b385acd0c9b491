//! Programs of others on a mounted file system: fio with its verification, bonnie++, and a PostgreSQL that is killed, and whose
//! file system is killed under it.
//!
//! What could break: what programs rely on that no test of ours thinks of. Memory maps, files written through several handles, the
//! order of `fsync` and `rename` that a database recovers by. `zdb` judges each pool. Where a program is not installed, or this is not
//! root, the case says so and is skipped.
//!
//! They take a minute or more each, and PostgreSQL and bonnie++ are not among what CI installs: `cargo test --test spindle -- mounted_programs::
//! --ignored`, as root.

use crate::pools;

use pools::{add_disks, done, judge, program};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long something may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A mounted file system; killed when the test fails.
struct Mounted {
    child: Child,
    at: PathBuf,
}

impl Mounted {
    /// Mounts the root of the pool for writing.
    fn start(folder: &Path, more: &[&str]) -> Mounted {
        let at = folder.join("mounted");
        std::fs::create_dir_all(&at).expect("a directory");
        let at_text = at.to_str().expect("text");
        let arguments = [&["mount", "-o", "rw"], more, &["tank", at_text]].concat();
        let child = program(folder, &arguments).stdout(Stdio::null()).spawn();
        let mounted = Mounted { child: child.expect("it starts"), at };
        wait_for("the mount", || is_mounted(&mounted.at));
        mounted
    }

    /// Unmounts it; the program ends well then.
    fn stop(mut self) {
        ran("umount", &[self.at.to_str().expect("text")]);
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }

    /// Ends the program at once; what it mounted is gone with it.
    fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
        ran("umount", &["-l", self.at.to_str().expect("text")]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After `stop` or `kill` there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if is_mounted(&self.at) {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

fn is_mounted(at: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == at.to_str())
}

#[track_caller]
fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn well(program: &str, output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}{errors}");
    said
}

#[track_caller]
fn ran(program: &str, arguments: &[&str]) -> String {
    well(program, Command::new(program).args(arguments).output().expect("it starts"))
}

/// Whether there is such a program, and whether this is root, who may mount.
fn can_run(program: &Path) -> bool {
    let mut found = Command::new(program);
    found.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = found.status().is_ok();
    if !is_there {
        println!("skipped: {} is not installed", program.display());
    }
    let is_root = ran("id", &["-u"]).trim() == "0";
    if !is_root {
        println!("skipped: only root mounts");
    }
    is_there && is_root
}

/// A pool of four disks, raidz1.
fn pool(mib: u64) -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let disks = folder.path().join("disks");
    std::fs::create_dir(&disks).expect("a directory");
    add_disks(&disks, &["a", "b", "c", "d"], mib << 20);
    let paths = ["disks/a", "disks/b", "disks/c", "disks/d"];
    done(folder.path(), &[&["zpool", "create", "tank", "raidz1"], &paths[..]].concat());
    done(folder.path(), &["zfs", "set", "compression=lz4", "tank"]);
    folder
}

#[test]
#[ignore = "minutes, and programs of others: see the head"]
fn what_fio_writes_to_a_mount_it_finds_there() {
    if !can_run(Path::new("fio")) {
        return;
    }
    let folder = pool(256);
    let mounted = Mounted::start(folder.path(), &[]);
    let at = format!("--directory={}", mounted.at.display());
    let common = [
        "--size=24M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--verify_state_save=0",
        &at,
    ];
    for (name, more) in [
        ("blocks", &["--rw=randwrite", "--bs=8k", "--ioengine=psync"][..]),
        ("synced", &["--rw=randwrite", "--bs=4k", "--fsync=16", "--size=2M"]),
        ("mapped", &["--rw=randwrite", "--bs=4k", "--ioengine=mmap", "--size=8M"]),
        ("mixed", &["--rw=randrw", "--bsrange=512-200k", "--ioengine=io_uring", "--iodepth=8"]),
    ] {
        let job = [&["--name", name], &common[..], more].concat();
        ran("fio", &job);
    }
    mounted.stop();
    judge(folder.path(), "tank");
}

#[test]
#[ignore = "minutes, and programs of others: see the head"]
fn bonnie_runs_on_a_mount() {
    if !can_run(Path::new("bonnie++")) {
        return;
    }
    let folder = pool(256);
    let mounted = Mounted::start(folder.path(), &[]);
    let at = mounted.at.to_str().expect("text");
    let said = ran(
        "bonnie++",
        // Without -f it writes single bytes, each a request to the server: minutes that show nothing more.
        &["-d", at, "-f", "-s", "64M", "-r", "32M", "-n", "2:3000:100:4", "-u", "root", "-q"],
    );
    assert!(said.trim().split(',').count() > 20, "its figures: {said}");
    mounted.stop();
    judge(folder.path(), "tank");
}

/// A PostgreSQL of a version that is installed.
struct Postgres {
    programs: PathBuf,
    data: PathBuf,
}

impl Postgres {
    /// Where the programs of an installed one are.
    fn programs() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let versions = versions.filter_map(|found| Some(found.ok()?.path().join("bin")));
        versions.filter(|programs| programs.join("initdb").exists()).max()
    }

    /// One of its programs, as its user: it refuses to be root.
    fn program(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.arg(self.programs.join(name)).args(arguments).current_dir("/");
        command
    }

    #[track_caller]
    fn ran(&self, name: &str, arguments: &[&str]) -> String {
        well(name, self.program(name, arguments).output().expect("it starts"))
    }

    fn start(&self) -> Child {
        let data = self.data.to_str().expect("text");
        let mut command = self.program("postgres", &["-D", data, "-k", data, "-h", ""]);
        let child = command.stderr(Stdio::null()).spawn().expect("it starts");
        wait_for("PostgreSQL", || {
            let asked = self.program("pg_isready", &["-h", data]).stdout(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        });
        child
    }

    #[track_caller]
    fn query(&self, query: &str) -> String {
        let data = self.data.to_str().expect("text");
        self.ran("psql", &["-h", data, "-d", "postgres", "-tAc", query]).trim().to_owned()
    }

    /// What each transaction of pgbench keeps equal.
    fn assert_consistent(&self) -> u64 {
        let sums = self.query(
            "select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers) \
             and (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches) \
             and (select coalesce(sum(delta), 0) from pgbench_history) = (select sum(bbalance) from pgbench_branches)",
        );
        assert_eq!(sums, "t", "the sums agree");
        self.query("select count(*) from pgbench_history").parse().expect("a number")
    }
}

/// Ends a process at once, and all that it began with it.
fn kill(mut child: Child) {
    let id = child.id().to_string();
    let began = Command::new("pgrep").args(["-P", &id]).output().expect("pgrep");
    for one in String::from_utf8_lossy(&began.stdout).lines().chain([id.as_str()]) {
        // It may have ended meanwhile.
        let _ = Command::new("kill").args(["-9", one]).status();
    }
    child.wait().expect("it ends");
}

#[test]
#[ignore = "minutes, and programs of others: see the head"]
fn a_database_on_a_mount_recovers_after_kills() {
    let Some(programs) = Postgres::programs() else {
        println!("skipped: PostgreSQL is not installed (Debian: postgresql)");
        return;
    };
    if !can_run(Path::new("setpriv")) {
        return;
    }
    let folder = pool(512);
    // Its user has to reach the mount.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("it is set");
    done(folder.path(), &["zfs", "set", "recordsize=8K", "tank"]);
    let mounted = Mounted::start(folder.path(), &[]);
    let data = mounted.at.join("data");
    std::fs::create_dir(&data).expect("a directory");
    ran("chown", &["postgres:postgres", data.to_str().expect("text")]);
    let postgres = Postgres { programs, data };
    let at = postgres.data.to_str().expect("text").to_owned();
    postgres.ran("initdb", &["-D", &at, "-U", "postgres", "-A", "trust", "--no-instructions"]);
    let bench = |seconds: &str| {
        ["-h", &at, "-U", "postgres", "-n", "-c", "4", "-T", seconds, "postgres"].map(str::to_owned)
    };
    let server = postgres.start();
    postgres.ran("pgbench", &["-h", &at, "-U", "postgres", "-q", "-i", "-s", "1", "postgres"]);
    // The database is killed amid transactions.
    let mut load = postgres.program("pgbench", &bench("30").each_ref().map(String::as_str));
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(3));
    kill(server);
    load.wait().expect("it ends");
    let _ = std::fs::remove_file(postgres.data.join("postmaster.pid"));
    let server = postgres.start();
    let first = postgres.assert_consistent();
    assert!(first > 0, "some were done");
    // Then the file system under it.
    let mut load = postgres.program("pgbench", &bench("30").each_ref().map(String::as_str));
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(3));
    let known = postgres.assert_consistent();
    assert!(known > first, "it went on");
    mounted.kill();
    kill(server);
    load.wait().expect("it ends");
    let mounted = Mounted::start(folder.path(), &["-f"]);
    let _ = std::fs::remove_file(postgres.data.join("postmaster.pid"));
    let server = postgres.start();
    let second = postgres.assert_consistent();
    assert!(second >= known, "{second} of {known}: none that was answered is lost");
    kill(server);
    mounted.stop();
    judge(folder.path(), "tank");
}
