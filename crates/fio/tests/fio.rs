//! fio's jobs over a tree in memory, in virtual time.
//!
//! What could break: jobs that do more or less than they say, in another order, at another pace; output
//! that readers of fio's JSON can't read; damage that verification does not see.

#[path = "fio/asked.rs"]
mod asked;

use fio::{FioError, FioOutcome, Machine, Plan, Rooms, Setup, Sources, Stamp};
use rt::{FileTree, MemoryTree, OpenHow, Request, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stdx::{ByteCount, Offset};
use workload::content::Form;
use workload::crew::OneRuntime;

struct Text(String);

impl Sources for Text {
    fn text(&self, _path: &Path) -> Result<String, String> {
        Ok(self.0.clone())
    }
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

fn plan(text: &str) -> Plan {
    let machine = Machine { page_bytes: 4096, processors: 2, memory_mib: 1024 };
    fio::read(Path::new("test.fio"), &Text(text.to_owned()), &machine, &[]).expect("well formed")
}

struct World {
    runtime: Runtime,
    tree: Rc<MemoryTree>,
}

impl World {
    fn new() -> World {
        let runtime = Runtime::new(SimReactor::new(Processor::infinite()));
        World { runtime, tree: MemoryTree::new("m") }
    }

    fn run(&self, text: &str) -> FioOutcome {
        self.attempt(text).expect("jobs can begin")
    }

    fn attempt(&self, text: &str) -> Result<FioOutcome, FioError> {
        self.attempt_within(text, None)
    }

    fn attempt_within(
        &self,
        text: &str,
        rooms: Option<Rc<dyn Rooms>>,
    ) -> Result<FioOutcome, FioError> {
        let crew = Rc::new(OneRuntime::new(self.runtime.handle(), Rc::clone(&self.tree) as _));
        let setup = Setup {
            seed: 1,
            form: Form::Bytes,
            destructive: false,
            rooms,
            say: Rc::new(|_: &str| ()),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let plan = Arc::new(plan(text));
        let work = fio::run(crew, plan, setup, stop);
        self.runtime.block_on(work).expect("it ends")
    }

    fn seconds(&self) -> f64 {
        self.runtime.handle().now().as_secs_f64()
    }
}

fn stamp() -> Stamp {
    Stamp { unix_ms: 1_000, text: "Thu Jan  1 00:00:01 1970".into(), version: "fio-3.33".into() }
}

fn job(outcome: &FioOutcome, at: usize) -> serde_json::Value {
    outcome.json(&stamp(), false)["jobs"][at].clone()
}

#[test]
fn a_job_does_what_it_says_and_counts_it() {
    let world = World::new();
    let outcome = world.run("[a]\nrw=randwrite\nsize=1m\nbs=4k\nfsync=64\n");
    let job = job(&outcome, 0);
    assert_eq!(job["write"]["total_ios"], 256);
    assert_eq!(job["write"]["io_bytes"], 1 << 20);
    // After each 64 writes but the last ones: then the job ends, as in fio.
    assert_eq!(job["sync"]["total_ios"], 3);
    assert_eq!(job["read"]["total_ios"], 0);
    let counts = world.tree.counts();
    assert_eq!(counts.requests[&rt::OpKind::Write], 256);
    let status = world.runtime.block_on(world.tree.status(Path::new("a.0.0")));
    assert_eq!(status.expect("ends").expect("is there").size, ByteCount::mib(1));
}

#[test]
fn the_json_has_the_keys_of_fio_in_their_order() {
    let text = "[a]\nrw=randrw\nsize=4m\nbs=4k\nioengine=libaio\niodepth=4\ndirect=1\n";
    let json = World::new().run(text).json(&stamp(), false);
    let mut keys = String::new();
    walk("", &json, &mut keys);
    // Made from the output of fio 3.33 for this job; what it says of disks is not compared.
    let expected = include_str!("fio/json_keys.txt");
    for (line, (ours, theirs)) in keys.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, theirs, "key {line}");
    }
    assert_eq!(keys.lines().count(), expected.lines().count());
    let plus = World::new().run(text).json(&stamp(), true);
    assert!(plus["jobs"][0]["read"]["clat_ns"]["bins"].is_object());
}

fn walk(path: &str, value: &serde_json::Value, keys: &mut String) {
    if let Some(first) = value.as_array().and_then(|list| list.first()) {
        walk(&format!("{path}/0"), first, keys);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        keys.push_str(&path);
        keys.push('\n');
        if !["job options", "disk_util", "percentile"].contains(&key.as_str()) {
            walk(&path, value, keys);
        }
    }
}

#[test]
fn a_rate_and_a_runtime_are_kept() {
    let world = World::new();
    let text = "[a]\nrw=randread\nsize=4m\nbs=4k\nrate_iops=100\nruntime=2\ntime_based\n";
    let job = job(&world.run(text), 0);
    let ios = job["read"]["total_ios"].as_u64().expect("a number");
    assert!((199..=201).contains(&ios), "{ios}");
    assert!((world.seconds() - 2.0).abs() < 0.01, "{}", world.seconds());
}

#[test]
fn pauses_delays_and_walls_put_jobs_in_order() {
    let world = World::new();
    let text = "[global]\nsize=64k\nbs=4k\nrw=write\n[a]\nthinktime=250ms\nthinktime_blocks=4\n[b]\nstonewall\nthinktime=100ms\nthinktime_blocks=4\n[c]\nwait_for=b\nnew_group\nstartdelay=0\n";
    let outcome = world.run(text);
    assert!(outcome.errors.is_empty());
    // Four pauses of a, then four of b, behind the wall; c takes no time.
    assert!((world.seconds() - 1.4).abs() < 0.01, "{}", world.seconds());
    let groups: Vec<_> = (0..3).map(|at| job(&outcome, at)["groupid"].clone()).collect();
    assert_eq!(groups, [0, 1, 2]);
}

#[test]
fn clones_are_told_together_or_apart() {
    let apart = World::new().run("[a]\nsize=64k\nbs=4k\nrw=write\nnumjobs=3\n");
    let count =
        |outcome: &FioOutcome| outcome.json(&stamp(), false)["jobs"].as_array().map_or(0, Vec::len);
    assert_eq!(count(&apart), 3);
    let together = World::new().run("[a]\nsize=64k\nbs=4k\nrw=write\nnumjobs=3\ngroup_reporting\n");
    assert_eq!((count(&together), job(&together, 0)["write"]["total_ios"].clone()), (1, 48.into()));
    let text = together.text(&stamp());
    assert!(text.contains("a: (groupid=0, jobs=3): err= 0: pid=0: Thu Jan"), "{text}");
    assert!(together.terse(&stamp()).starts_with("3;fio-3.33;a;0;0;0;0;0;0;"));
}

/// What programs that read the terse form by its columns stumble over; held against fio 3.33.
#[test]
fn a_direction_in_which_nothing_went_has_its_percentiles_in_the_terse_form() {
    let percentiles = |options: &str| {
        let (world, job) = (World::new(), format!("[a]\nrw=write\nsize=64k\nbs=4k\n{options}"));
        let outcome = world.run(&job);
        let line = outcome.terse(&stamp());
        let fields: Vec<String> = line.split(';').map(str::to_owned).collect();
        let names = |from: usize| -> Vec<String> {
            let named = fields[from..from + 20].iter();
            named.map(|field| field.split('=').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(17), names(58), "reads have the columns of writes");
        assert!(fields[17..37].iter().all(|field| field.ends_with("%=0")), "{line}");
        fields[17..20].join(" ")
    };
    assert_eq!(percentiles(""), "1.000000%=0 5.000000%=0 10.000000%=0");
    assert_eq!(percentiles("percentile_list=50:99\n"), "50.000000%=0 99.000000%=0 0%=0");
    assert_eq!(percentiles("clat_percentiles=0\n"), "0%=0 0%=0 0%=0");
}

#[test]
fn verification_reads_back_and_finds_damage() {
    let world = World::new();
    let written = world.run("[a]\nrw=randwrite\nsize=256k\nbs=4k\nverify=crc32c\nfilename=f\n");
    assert!(written.errors.is_empty());
    assert_eq!(job(&written, 0)["read"]["total_ios"], 64);
    world.write_at("f", &[40_000], &[0xff; 100]);
    let read = world.run("[b]\nrw=read\nsize=256k\nbs=4k\nverify=crc32c\nfilename=f\n");
    let errors: Vec<String> = read.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        ["job b: verify: f at byte 36864, 4096 B: the checksum does not match the bytes"]
    );
}

/// What could break: a job that reads on over damage as if nothing were, or that ends where it was told to go on; damage that is
/// counted and not told.
#[test]
fn a_job_ends_at_the_first_bad_block_unless_it_is_told_to_go_on() {
    // Of 16 blocks the third and the tenth are bad. As fio 3.33 with the same options: blocks that are read, the error, errors
    // in all (where they are told), and whether the job fails.
    for (words, read, errors, fails) in [
        ("", 3, None, true),
        ("verify_fatal=0\n", 3, None, true),
        ("verify_fatal=1\n", 3, None, true),
        ("continue_on_error=io\n", 3, Some(1), true),
        ("continue_on_error=verify\n", 16, Some(2), false),
        ("continue_on_error=all\n", 16, Some(2), false),
        ("ignore_error=,,EILSEQ\n", 16, Some(2), false),
        ("ignore_error=EILSEQ\n", 3, Some(1), true),
        ("continue_on_error=verify\nignore_error=,,EINVAL\n", 3, Some(1), true),
        ("continue_on_error=verify\nverify_fatal=1\n", 3, Some(1), true),
        // Those under way are taken and counted.
        ("ioengine=libaio\niodepth=4\n", 6, None, true),
    ] {
        let world = World::new();
        world.run("[a]\nrw=write\nsize=64k\nbs=4k\nverify=crc32c\ndo_verify=0\nfilename=f\n");
        world.write_at("f", &[2 * 4096 + 100, 9 * 4096 + 100], &[0xff; 100]);
        let text = "rw=read\nsize=64k\nbs=4k\nverify=crc32c\nfilename=f\n";
        let outcome = world.run(&format!("[b]\n{text}{words}"));
        let told = job(&outcome, 0);
        assert_eq!(told["read"]["total_ios"], read, "{words}");
        assert_eq!(told["error"], 84, "{words}");
        assert_eq!(told.get("total_err").cloned(), errors.map(Into::into), "{words}");
        let lines = |list: &[String]| list.join(", ");
        let failed: Vec<String> = outcome.errors.iter().map(ToString::to_string).collect();
        let passed: Vec<String> = outcome.passed_over.iter().map(ToString::to_string).collect();
        let first = "job b: verify: f at byte 8192, 4096 B: the checksum does not match the bytes";
        match fails {
            true => assert_eq!((lines(&failed), lines(&passed)), (first.to_owned(), String::new())),
            false => assert_eq!(
                (lines(&failed), lines(&passed)),
                (String::new(), format!("{first}; the job went on, and met 2 errors in all"))
            ),
        }
    }
    // The same where what was written is read back.
    for (words, read) in [("", 1), ("continue_on_error=verify\n", 16)] {
        let world = World::new();
        let text = "[a]\nrw=write\nsize=64k\nbs=4k\nverify=crc32c\nverify_only\nfilename=f\n";
        world.put("f", &[0; 65_536]);
        let outcome = world.run(&format!("{text}{words}"));
        let told = job(&outcome, 0);
        assert_eq!((&told["read"]["total_ios"], &told["error"]), (&read.into(), &84.into()));
        assert_eq!(outcome.errors.is_empty(), read == 16);
    }
}

/// What could break: columns of the terse form that programs find empty; held against fio 3.33.
#[test]
fn a_job_that_did_not_begin_is_told_as_fio_tells_it() {
    let world = World::new();
    world.put("f", &[0; 65_536]);
    let outcome = world.run(
        "[a]\nrw=read\nfilename=f\nverify=crc32c\nexitall_on_error\nexit_what=all\n\
         [b]\nstonewall\nrw=read\nsize=64k\npercentile_list=50:99\n",
    );
    let lines = outcome.terse(&stamp());
    let fields: Vec<&str> = lines.lines().nth(1).expect("a line").split(';').collect();
    for from in [17, 58] {
        assert_eq!(fields[from..from + 3], ["50.000000%=0", "99.000000%=0", "0%=0"], "{lines}");
    }
    let [began, not] = [0, 1].map(|at| job(&outcome, at));
    assert_eq!(
        (&began["error"], &not["error"], &not["elapsed"]),
        (&84.into(), &0.into(), &1.into())
    );
    assert!(began.get("latency_depth").is_some() && not.get("latency_depth").is_none());
}

/// What could break: nothing is read, and all is said to be well.
#[test]
fn verify_only_reads_what_an_earlier_run_wrote_and_finds_damage() {
    for (rw, writes) in [("write", 64), ("randwrite", 64), ("randrw", 0)] {
        let world = World::new();
        let text = format!("[a]\nrw={rw}\nsize=256k\nbs=4k\nfilename=f\niodepth=4\n");
        let written = world.run(&format!("{text}verify=crc32c\ndo_verify=0\n"));
        assert!(written.errors.is_empty(), "{rw}");
        let of_write = job(&written, 0)["write"]["total_ios"].as_u64().expect("a number");
        assert!(writes == 0 || of_write == writes, "{rw}");
        let bytes = world.content("f");
        let checked = world.run(&format!("{text}verify=crc32c\nverify_only\n"));
        assert!(checked.errors.is_empty(), "{rw}: {:?}", checked.errors);
        assert_eq!(job(&checked, 0)["read"]["total_ios"], of_write, "{rw}");
        assert_eq!(job(&checked, 0)["write"]["total_ios"], 0, "{rw}");
        assert!(world.content("f") == bytes, "{rw}: it is left as it was");
        // Another checksum is none of these; and a byte that changed is found.
        let other = world.run(&format!("{text}verify=sha256\nverify_only\n"));
        assert!(!other.errors.is_empty(), "{rw}");
        let all: Vec<u64> = (0..64).map(|block| block * 4096 + 1000).collect();
        world.write_at("f", &all, &[0xff]);
        let checked = world.run(&format!("{text}verify=crc32c\nverify_only\n"));
        assert!(!checked.errors.is_empty(), "{rw}");
    }
    // What only reads checks what it reads.
    let world = World::new();
    world.run("[a]\nrw=write\nsize=256k\nbs=4k\nverify=crc32c\nfilename=f\n");
    let read =
        world.run("[a]\nrw=read\nsize=256k\nbs=4k\nverify=crc32c\nverify_only\nfilename=f\n");
    assert!(read.errors.is_empty(), "{:?}", read.errors);
    assert_eq!(job(&read, 0)["read"]["total_ios"], 64);
}

#[test]
fn a_backlog_verifies_while_the_job_writes() {
    let text = "[a]\nrw=write\nsize=128k\nbs=4k\nverify=sha256\nverify_backlog=8\n";
    let outcome = World::new().run(text);
    assert_eq!(job(&outcome, 0)["read"]["total_ios"], 32);
}

#[test]
fn a_steady_job_ends_before_its_time() {
    let world = World::new();
    let text = "[a]\nrw=read\nsize=4m\nbs=4k\nrate_iops=50\nruntime=100\ntime_based\nss=iops:10%\nss_dur=4\n";
    let outcome = world.run(text);
    assert_eq!(job(&outcome, 0)["steadystate"]["attained"], 1);
    assert!(world.seconds() < 10.0, "{}", world.seconds());
}

#[test]
fn logs_have_fios_names_and_lines() {
    let text = "[a]\nrw=write\nsize=16k\nbs=4k\nwrite_lat_log=x\nwrite_bw_log\n";
    let outcome = World::new().run(text);
    let names: Vec<&str> = outcome.logs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a_bw.1.log", "x_slat.1.log", "x_clat.1.log", "x_lat.1.log"]);
    let (_, latencies) = &outcome.logs[3];
    assert_eq!(latencies.lines().count(), 4);
    assert!(latencies.lines().all(|line| line.split(", ").count() == 5), "{latencies}");
}

#[test]
fn flows_share_by_weight_and_an_end_takes_the_others_along() {
    let text = "[global]\nsize=40k\nbs=4k\nrw=write\nexitall\nthinktime=1ms\n[a]\nflow=1\nfilename=a\n[b]\nflow=4\nsize=4m\nfilename=b\n";
    let outcome = World::new().run(text);
    let ios = |at| job(&outcome, at)["write"]["total_ios"].as_u64().unwrap_or_default();
    assert_eq!(ios(0), 10);
    assert!((36..=50).contains(&ios(1)), "{}", ios(1));
}

/// What waits for its rate is one I/O, however often it is looked at; and jobs that end at one time end together.
#[test]
fn a_flow_whose_first_job_has_a_rate_shares_by_weight() {
    let text = "[global]\nsize=1m\nbs=4k\nrw=randread\ntime_based\nruntime=2\n[a]\nflow=2\nrate_iops=100\n[b]\nflow=1\n";
    let outcome = World::new().run(text);
    let ios = |at| job(&outcome, at)["read"]["total_ios"].as_u64().unwrap_or_default();
    let (a, b) = (ios(0), ios(1));
    assert!((195..=201).contains(&a) && (2 * b).abs_diff(a) <= 8, "{a} {b}");
}

#[test]
fn reads_lay_out_their_file_and_a_longer_one_is_kept() {
    let world = World::new();
    world.run("[a]\nrw=read\nsize=1m\nbs=64k\nfilename=d/e/f\n");
    let before = world.tree.counts().requests[&rt::OpKind::Write];
    assert_eq!(before, 1, "laid out in blocks of 1 MiB");
    let outcome = world.run("[a]\nrw=read\nsize=512k\nbs=64k\nfilename=d/e/f\n");
    assert_eq!(world.tree.counts().requests[&rt::OpKind::Write], before);
    assert_eq!(job(&outcome, 0)["read"]["total_ios"], 8);
}

#[test]
fn a_job_without_a_size_and_one_with_too_small_a_file_are_refused() {
    for (text, said) in [
        ("[a]\nrw=read\n", "job a: a.0.0 is not there or empty, and no size= is given"),
        ("[a]\nrw=read\nsize=50%\n", "job a: a.0.0 is not there or empty, and no size= is given"),
    ] {
        let error = World::new().attempt(text).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(said));
    }
}

/// A file system of so many bytes for each letter that names begin with.
struct ByLetter(u64);

impl Rooms for ByLetter {
    fn file_system(&self, path: &Path) -> Option<u64> {
        path.to_str().and_then(|path| path.bytes().next()).map(u64::from)
    }

    fn free(&self, _path: &Path) -> Option<ByteCount> {
        Some(ByteCount(self.0))
    }
}

impl World {
    fn put(&self, path: &'static str, content: &[u8]) {
        let (tree, data) = (Rc::clone(&self.tree), rt::SgList::from(rt::Buf::copy_of(content)));
        let put = async move {
            let file = tree.open(Path::new(path), OpenHow::create()).await.expect("made");
            file.submit(Request::write(Offset(0), data)).await.expect("there is room");
        };
        self.runtime.block_on(put).expect("ends");
    }

    fn write_at(&self, path: &'static str, places: &[u64], bytes: &[u8]) {
        let (tree, places) = (Rc::clone(&self.tree), places.to_vec());
        let data = rt::Buf::copy_of(bytes);
        let written = async move {
            let file = tree.open(Path::new(path), OpenHow::write()).await.expect("is there");
            for at in places {
                file.submit(Request::write(Offset(at), data.clone())).await.expect("takes it");
            }
        };
        self.runtime.block_on(written).expect("ends");
    }

    fn content(&self, path: &'static str) -> Vec<u8> {
        let tree = Rc::clone(&self.tree);
        let read = async move {
            let file = tree.open(Path::new(path), OpenHow::read()).await.expect("there");
            let size = file.status().await.expect("told").size;
            file.submit(Request::read(Offset(0), size)).await.expect("read").to_vec()
        };
        self.runtime.block_on(read).expect("ends")
    }

    fn names(&self) -> Vec<String> {
        let list = self.runtime.block_on(self.tree.list(Path::new(""))).expect("ends");
        let mut names: Vec<String> = list
            .expect("listed")
            .into_iter()
            .map(|entry| entry.name.display().to_string())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_layout_that_fails_leaves_what_was_there_and_nothing_else() {
    for job in [
        "rw=read\n",
        "rw=write\n",
        "rw=write\noverwrite=1\n",
        "rw=read\nfallocate=none\n",
        "rw=read\ncreate_serialize=0\n",
    ] {
        let runtime = Runtime::new(SimReactor::new(Processor::infinite()));
        let tree = MemoryTree::with_capacity("m", ByteCount::mib(4));
        let world = World { runtime, tree };
        let precious: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
        world.put("data", &precious);
        // The first job's file is made, the second's does not fit.
        let text =
            format!("[new]\nrw=read\nsize=256k\ndirectory=d\n[a]\n{job}size=8m\nfilename=data\n");
        let attempt = world.attempt(&text);
        let failed = attempt.map_or_else(Some, |done| done.errors.into_iter().next());
        assert!(failed.is_some(), "{job}: 8 MiB do not fit");
        assert!(world.content("data") == precious, "{job}: the file is as it was");
        if !job.contains("create_serialize") {
            assert_eq!(world.names(), ["data"], "{job}");
        }
    }
}

#[test]
fn a_file_that_is_too_short_is_laid_out_anew_where_there_is_room() {
    let world = World::new();
    world.put("data", &[7; 1 << 16]);
    world.run("[a]\nrw=read\nsize=1m\nfilename=data\n");
    let content = world.content("data");
    assert_eq!(content.len(), 1 << 20);
    assert!(content[..1 << 16] != [7; 1 << 16], "written whole, as by fio");
    assert_eq!(world.names(), ["data"]);
}

#[test]
fn room_is_asked_for_all_jobs_together_and_by_file_system() {
    let refused = |text: &str, free: u64| {
        let world = World::new();
        let attempt = world.attempt_within(text, Some(Rc::new(ByLetter(free))));
        match attempt {
            Ok(_) => None,
            Err(error) => {
                assert_eq!(world.names(), [""; 0], "nothing was begun");
                Some(error.to_string())
            }
        }
    };
    let five = "[a]\nrw=read\nsize=60k\nnumjobs=5\n";
    let told = refused(five, 250 << 10).expect("300 KiB do not fit");
    assert!(
        told.starts_with("job a: its files take 300 KiB, and 250 KiB are free where a.0.0"),
        "{told}"
    );
    assert_eq!(refused(five, 300 << 10), None);
    // One file that all share is there once.
    assert_eq!(refused(&format!("{five}filename=f\n"), 60 << 10), None);
    let two = "[a]\nrw=read\nsize=60k\n[b]\nrw=write\nsize=60k\n";
    assert_eq!(refused(two, 60 << 10), None, "two file systems");
    let alike = two.replace("[b]", "[ab]");
    let told = refused(&alike, 60 << 10).expect("one file system");
    assert!(told.starts_with("jobs a, ab: their files take 120 KiB"), "{told}");
}
