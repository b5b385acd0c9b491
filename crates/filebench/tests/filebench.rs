//! filebench workloads over a tree in memory, in virtual time.
//!
//! What could break: a rate that is not kept, a thread that waits for ever or is woken too early, an op
//! that counts twice or not at all, files that are left, lost or opened twice, a personality that the
//! engine no longer runs.

#[path = "filebench/slow_tree.rs"]
mod slow_tree;

use filebench::engine::Preparation;
use filebench::statistics::{Figures, FlowopStatistics};
use filebench::{Console, FilebenchError, FilebenchOutcome, Plan, PlanOptions, library, run};
use rt::{MemoryTree, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use sim::profile::{Profile, load};
use slow_tree::SlowTree;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::content::{Content, ContentSpec, Form};
use workload::crew::OneRuntime;

/// Keeps the lines.
#[derive(Default)]
struct Lines(RefCell<Vec<String>>);

impl Console for Lines {
    fn line(&self, at: Duration, text: &str) {
        self.0.borrow_mut().push(filebench::output::stamped(at, text));
    }
    fn progress(&self, _: &Preparation) {}
    fn system(&self, command: &str) -> Result<(), String> {
        Err(format!("{command} is not to be run"))
    }
}

/// What a workload did.
struct Done {
    result: Result<FilebenchOutcome, FilebenchError>,
    lines: Vec<String>,
    tree: Rc<MemoryTree>,
    seconds: f64,
}

impl Done {
    fn figures(&self) -> &Figures {
        let outcome = self.result.as_ref().unwrap_or_else(|error| panic!("{error}"));
        outcome.runs.last().expect("one run")
    }

    fn row(&self, name: &str) -> FlowopStatistics {
        let rows = self.figures().rows_by_name();
        let found = rows.into_iter().find(|(row, _)| **row == *name);
        found.unwrap_or_else(|| panic!("no row {name}")).1
    }

    fn error(&self) -> String {
        self.result.as_ref().expect_err("failed").to_string()
    }
}

fn plan(text: &str, variables: &[(&str, &str)], seconds: Option<u64>) -> Plan {
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let options = PlanOptions {
        directory: "/tmp".into(),
        variables: variables.collect(),
        run_seconds: seconds,
        allow_system: false,
    };
    Plan::read("t.f", text, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn carry_out(plan: Plan, clean: bool) -> Done {
    carry_out_until(plan, clean, None)
}

/// Carries a plan out; with `stop_after`, as if Ctrl-C were pressed then.
fn carry_out_until(plan: Plan, clean: bool, stop_after: Option<Duration>) -> Done {
    let reactor = SimReactor::new(Processor::infinite());
    let runtime = Runtime::new(reactor);
    let rt = runtime.handle();
    let memory = MemoryTree::new("m");
    let tree = SlowTree::over(&rt, Rc::clone(&memory) as _);
    let lines = Rc::new(Lines::default());
    let (console, clock) = (Rc::clone(&lines), rt.clone());
    let stop = Arc::new(AtomicBool::new(false));
    if let Some(after) = stop_after {
        let (rt, stop) = (rt.clone(), Arc::clone(&stop));
        let raise = async move {
            rt.sleep(after).await;
            stop.store(true, Ordering::Relaxed);
        };
        runtime.handle().spawn(raise).detach();
    }
    let result = runtime
        .block_on(async move {
            let crew = OneRuntime::new(rt, tree);
            let spec = ContentSpec { form: Form::Words, ..ContentSpec::default() };
            let content = Content::new(spec, 7);
            run(&crew, &plan, &content, 7, clean, &stop, console).await
        })
        .expect("virtual time goes on");
    let lines = lines.0.borrow().clone();
    Done { result, lines, tree: memory, seconds: clock.now().as_secs_f64() }
}

/// A workload with one thread and these flowops, over two filesets `a` (files there) and `b` (none).
fn thread(before: &str, flowops: &str, run: &str) -> Done {
    let text = format!(
        "define fileset name=a,path=/tmp,entries=100,size=8k,dirwidth=20,prealloc=100\n\
         define fileset name=b,path=/tmp,entries=100,size=8k,dirwidth=20\n{before}\n\
         define process name=p {{ thread name=t {{ {flowops} }} }}\n{run}"
    );
    carry_out(plan(&text, &[], None), false)
}

fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value}, expected {expected}");
}

#[test]
fn an_event_limit_keeps_its_rate() {
    let done = thread(
        "eventgen rate=50",
        "flowop read name=r,filename=a,iosize=4k,random flowop eventlimit name=l",
        "run 20",
    );
    near(done.row("l").ops as f64 / 20.0, 50.0, 0.01);
    near(done.figures().duration.as_secs_f64(), 20.0, 1e-9);
}

#[test]
fn several_threads_share_the_events() {
    let text = "set $r=40\neventgen rate=$r\n\
        define fileset name=a,path=/tmp,entries=10,size=8k,dirwidth=20,prealloc\n\
        define process name=p,instances=2 { thread name=t,instances=5 {\n\
          flowop readwholefile name=r,filename=a\n flowop closefile name=c\n\
          flowop opslimit name=l } }\nset $r=300\nrun 10";
    let done = carry_out(plan(text, &[], None), false);
    // An event for each op: openings, readings, closings.
    let summary = done.figures().summary();
    near(summary.ops_per_second(), 300.0, 0.02);
}

#[test]
fn a_bandwidth_limit_is_a_mebibyte_an_event() {
    let done = thread(
        "define file name=big,path=/tmp,size=64m,prealloc\neventgen rate=10",
        "flowop read name=r,filename=big,iosize=64k flowop bwlimit name=l,target=r",
        "run 20",
    );
    near(done.row("r").bytes as f64 / 20.0, 10.0 * f64::from(1 << 20), 0.02);
    let iops = thread(
        "eventgen rate=100",
        "flowop read name=r,filename=a,iosize=4k,random flowop iopslimit name=l,target=r",
        "run 20",
    );
    near(iops.row("r").ops as f64 / 20.0, 100.0, 0.01);
}

#[test]
fn a_delay_is_in_seconds_and_ends_with_the_run() {
    let done = thread("", "flowop delay name=d,value=3", "run 10");
    assert_eq!(done.row("d").ops, 3);
    near(done.row("d").latency_ms_mean(), 3000.0, 1e-6);
    assert!(done.seconds < 10.5, "{}", done.seconds);
}

#[test]
fn a_semaphore_holds_both_sides() {
    // The poster's mark is 10 and the taker takes 20 at once: 10 posts, then 20 more for each taking.
    let text = "define process name=p {\n\
        thread name=taker { flowop semblock name=s,value=20,highwater=10 flowop delay name=d,value=3 }\n\
        thread name=poster { flowop sempost name=o,target=s,value=1,blocking } }\nrun 10";
    let done = carry_out(plan(text, &[], None), false);
    let (taken, posted) = (done.row("s").ops, done.row("o").ops);
    // At 0, 3, 6 and 9 seconds.
    assert_eq!(taken, 4);
    assert_eq!(posted, 10 + 20 * 4);
    // A poster that does not wait at the mark goes on until it has done what it was to.
    let free = text.replace(",blocking", " flowop finishoncount name=f,value=5000,target=o");
    assert_eq!(carry_out(plan(&free, &[], None), false).row("o").ops, 5000);
}

#[test]
fn a_wakeup_wakes_all_and_is_not_kept() {
    let text = "define process name=p {\n\
        thread name=sleeper,instances=3 { flowop block name=b }\n\
        thread name=waker { flowop delay name=d,value=1 flowop wakeup name=w,target=b } }\nrun 10";
    let done = carry_out(plan(text, &[], None), false);
    // Each wakeup counts an op for each that it wakes; the tenth comes with the run's end.
    let (blocked, woken) = (done.row("b").ops, done.row("w").ops);
    assert!((27..=30).contains(&blocked), "{blocked}");
    assert!((27..=30).contains(&woken), "{woken}");
    near(done.row("b").latency_ms_mean(), 1000.0, 0.01);
}

#[test]
fn a_hog_takes_processor_time() {
    // Each takes a millisecond of the simulated second, and some twenty of whoever waits for the test.
    let text = "define process name=p { thread name=t { flowop hog name=h,value=1000000 \
                flowop finishoncount name=f,value=20,target=h } }\nrun 1";
    let Ok(Profile::Host(profile)) = load("epyc-2024") else { panic!("a host") };
    let runtime = Runtime::new(SimReactor::new(Processor::of_host(&profile)));
    let rt = runtime.handle();
    let plan = plan(text, &[], None);
    let figures = runtime
        .block_on(async move {
            let crew = OneRuntime::new(rt, MemoryTree::new("m"));
            let content =
                Content::new(ContentSpec { form: Form::Words, ..ContentSpec::default() }, 1);
            let (stop, console) = (Arc::default(), Rc::new(Lines::default()));
            run(&crew, &plan, &content, 1, false, &stop, console).await
        })
        .expect("virtual time goes on")
        .expect("runs");
    let (_, hog) = figures.runs[0].rows_by_name().remove(0);
    // A million stores: a store a cycle.
    assert!((0.05..3.0).contains(&hog.latency_ms_mean()), "{}", hog.latency_ms_mean());
}

#[test]
fn counts_and_bytes_end_a_thread_and_the_run() {
    let by_count = thread(
        "",
        "flowop read name=r,filename=a,iosize=4k,random flowop finishoncount name=f,value=50",
        "run 100",
    );
    // The opening is an op, too.
    assert_eq!(by_count.row("r").ops, 50);
    assert!(by_count.seconds < 1.0, "{}", by_count.seconds);
    assert!(by_count.result.as_ref().expect("done").warnings.is_empty());
    let by_target = thread(
        "",
        "flowop openfile name=o,filename=a,fd=1 flowop read name=r,fd=1,iosize=4k \
         flowop closefile name=c,fd=1 flowop finishoncount name=f,value=7,target=r",
        "run 100",
    );
    assert_eq!((by_target.row("r").ops, by_target.row("o").ops), (7, 7));
    let by_bytes = thread(
        "",
        "flowop read name=r,filename=a,iosize=4k,random flowop finishonbytes name=f,value=1m",
        "run 100",
    );
    // More than a mebibyte: one read beyond it.
    assert_eq!(by_bytes.row("r").bytes, (1 << 20) + 4096);
}

#[test]
fn modes_say_what_ends_a_run() {
    let text = |mode: &str| {
        format!(
            "set mode quit {mode}\n\
             define fileset name=a,path=/tmp,entries=40,size=1k,dirwidth=20\n\
             define fileset name=b,path=/tmp,entries=400,size=1k,dirwidth=20\n\
             define process name=p {{\n\
             thread name=few {{ flowop createfile name=ca,filename=a,fd=1 flowop closefile name=x,fd=1 }}\n\
             thread name=many {{ flowop createfile name=cb,filename=b,fd=1 flowop closefile name=y,fd=1 }}\n\
             }}\nrun 30"
        )
    };
    let first = carry_out(plan(&text("firstdone"), &[], None), false);
    assert_eq!(first.row("ca").ops, 40);
    assert!(first.row("cb").ops < 60);
    assert!(first.result.as_ref().expect("done").warnings.is_empty());
    let all = carry_out(plan(&text("alldone"), &[], None), false);
    assert_eq!((all.row("ca").ops, all.row("cb").ops), (40, 400));
    let time = carry_out(plan(&text("timeout"), &[], None), false);
    let warnings = &time.result.as_ref().expect("done").warnings;
    assert!(warnings[0].contains("flowop ca could not obtain a file"), "{warnings:?}");
}

#[test]
fn whole_files_are_read_written_and_copied() {
    let done = thread(
        "set mode quit firstdone",
        "flowop openfile name=o,filename=a,fd=1 flowop readwholefile name=r,fd=1,iosize=1m \
         flowop createfile name=c,filename=b,fd=2 \
         flowop writewholefile name=w,fd=2,srcfd=1,iosize=3k \
         flowop closefile name=x,fd=1 flowop closefile name=y,fd=2",
        "run",
    );
    assert_eq!((done.row("c").ops, done.row("r").bytes), (100, 101 * 8192));
    // filebench rounds 8k up to a multiple of 3k.
    assert_eq!(done.row("w").bytes, 100 * 9 * 1024);
    assert_eq!(done.tree.counts().created, 200);
}

#[test]
fn appends_lengthen_and_deletions_remove() {
    let done = thread(
        "set mode quit firstdone",
        "flowop openfile name=o,filename=a,fd=1 flowop appendfile name=ap,fd=1,iosize=2k \
         flowop appendfilerand name=ar,fd=1,iosize=2k flowop statfile name=s,fd=1 \
         flowop fsync name=f,fd=1 flowop fsyncset name=fs,filename=a \
         flowop closefile name=c,fd=1 flowop readwholefile name=r,filename=a,fd=2,iosize=1k \
         flowop closefile name=d,fd=2 flowop deletefile name=del,fd=1",
        "run",
    );
    assert_eq!((done.row("del").ops, done.row("ap").bytes), (100, 100 * 2048));
    let random = done.row("ar").bytes as f64 / done.row("ar").ops as f64;
    near(random, 1024.0, 0.15);
    assert_eq!(done.row("fs").ops, done.row("f").ops);
    assert_eq!(done.tree.counts().synced, 2 * done.row("f").ops);
    assert_eq!(done.tree.counts().removed, 100);
}

#[test]
fn a_file_that_another_has_open_is_not_deleted() {
    let text = "define fileset name=a,path=/tmp,entries=1,size=1k,dirwidth=20,prealloc\n\
        define process name=p {\n\
        thread name=holder { flowop openfile name=o,filename=a,fd=1 flowop delay name=d,value=100 }\n\
        thread name=remover { flowop deletefile name=del,filename=a flowop delay name=e,value=1 } }\n\
        run 5";
    let done = carry_out(plan(text, &[], None), false);
    assert_eq!((done.row("del").ops, done.tree.counts().removed), (0, 0));
}

#[test]
fn directories_are_made_listed_and_removed() {
    let text = "set mode quit firstdone\n\
        define fileset name=a,path=/tmp,leafdirs=30,dirwidth=5\n\
        define process name=p { thread name=t { flowop makedir name=m,filename=a } }\nrun\n";
    assert_eq!(carry_out(plan(text, &[], None), false).row("m").ops, 30);
    let text = text.replace("dirwidth=5", "dirwidth=5,prealloc").replace("makedir", "removedir");
    assert_eq!(carry_out(plan(&text, &[], None), false).row("m").ops, 30);
    let list = thread("", "flowop listdir name=l,filename=a", "run 1");
    let row = list.row("l");
    // `.` and `..` are 561 bytes, a name of eight 287.
    assert_eq!((row.bytes - row.ops * 561) % 287, 0);
    assert!(row.ops > 100);
}

#[test]
fn writes_under_way_are_collected() {
    let done = thread(
        "define file name=big,path=/tmp,size=1m,prealloc",
        "flowop aiowrite name=w,filename=big,iosize=4k,random,iters=1000 flowop aiowait name=wait \
         flowop finishoncount name=f,value=20000",
        "run 100",
    );
    // A write takes a millisecond: one after the other, twenty thousand take twenty seconds.
    assert!(done.row("w").ops >= 19_000, "{}", done.row("w").ops);
    let seconds = done.figures().duration.as_secs_f64();
    assert!((0.003..0.1).contains(&seconds), "{seconds}");
    // A thousand calls for each collecting; the preparation wrote a hundred and one files.
    let written = done.tree.counts().requests[&rt::OpKind::Write];
    assert_eq!((written - 101) % 1000, 0);
}

#[test]
fn descriptors_that_are_misused_end_the_run_with_the_flowop_named() {
    let message = |flowops: &str| thread("", flowops, "run 1").error();
    assert_eq!(
        message("flowop closefile name=c,fd=3"),
        "flowop c of process (p,1), thread (t,1): descriptor fd=3 is not open; open it first"
    );
    assert!(message("flowop openfile name=o,filename=a,fd=1").contains("fd=1 is open already"));
    assert!(message("flowop read name=r,filename=a").contains("iosize is zero"));
    assert!(message("flowop read name=r,iosize=4k").contains("names no fileset"));
    let large = message("flowop read name=r,filename=a,iosize=1m,random");
    assert!(large.contains("1048576 bytes does not fit into the 8192"), "{large}");
    let other = message(
        "flowop openfile name=o,filename=a,fd=1 flowop createfile name=c,filename=b,fd=2 \
         flowop write name=w,filename=b,fd=1,iosize=1k",
    );
    assert!(other.contains("a file of another fileset"), "{other}");
    assert!(
        message(
            "flowop createfile name=c,filename=b,fd=1,directio \
        flowop appendfile name=a,fd=1,iosize=100"
        )
        .contains("flowop a of")
    );
}

#[test]
fn figures_in_between_come_when_they_should() {
    let text = |period: &str| {
        let flowops = "flowop delay name=d,value=1";
        thread("", flowops, &format!("psrun {period} 10"))
    };
    let sums = |done: &Done| -> Vec<String> {
        let ops = |line: &String| line.split("\nd").nth(1).map(|rest| rest.trim().to_owned());
        let ops: Vec<String> = done.lines.iter().filter_map(ops).collect();
        ops.iter().map(|row| row.split("ops").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(sums(&text("4")), ["4", "8", "10"]);
    assert_eq!(sums(&text("-4")), ["4", "4", "2"]);
}

#[test]
fn the_lines_are_filebenchs() {
    let done =
        thread("echo \"hello $x\"", "flowop read name=r,filename=a,iosize=4k,random", "run 2");
    let lines: Vec<&str> =
        done.lines.iter().map(|line| line.split_once(": ").map_or("", |(_, text)| text)).collect();
    let begin = [
        "hello $x",
        "Populating and pre-allocating filesets",
        "b populated: 100 files, avg. dir. width = 20, avg. dir. depth = 1.5, 0 leafdirs, 0.781MB total size",
        "Removing b tree (if exists)",
        "Pre-allocating directories in b tree",
        "Pre-allocating files in b tree",
    ];
    assert_eq!(lines[..6], begin);
    let end = [
        "Waiting for pre-allocation to finish (in case of a parallel pre-allocation)",
        "Population and pre-allocation of filesets completed",
        "Starting 1 p instances",
        "Running...",
        "Run took 2 seconds...",
    ];
    assert_eq!(lines[10..15], end);
    assert!(lines[15].starts_with("Per-Operation Breakdown\nr "), "{}", lines[15]);
    assert!(lines[16].starts_with("IO Summary: "), "{}", lines[16]);
    assert_eq!(lines[17], "Shutting down processes");
}

#[test]
fn filesets_are_left_reused_or_removed_as_asked() {
    let text = |reuse: &str| {
        format!(
            "define fileset name=a,path=/tmp,entries=20,size=4k,dirwidth=5,prealloc{reuse},paralloc\n\
             define process name=p {{ thread name=t {{ flowop appendfile name=w,filename=a,iosize=4k,iters=3 \
             flowop closefile name=c }} }}\nrun 1"
        )
    };
    let left = carry_out(plan(&text(""), &[], None), false);
    assert_eq!(left.tree.counts().created, 20);
    let space = |done: &Done| done.tree.counts();
    let cleaned = carry_out(plan(&text(""), &[], None), true);
    assert_eq!(space(&cleaned).removed, 20);
}

#[test]
fn ctrl_c_ends_everything_soon() {
    let text = "define process name=p {\n\
        thread name=a { flowop block name=b }\n thread name=c { flowop delay name=d,value=1000 }\n\
        thread name=e { flowop semblock name=s,value=5 } }\nrun 100000";
    let done = carry_out_until(plan(text, &[], None), false, Some(Duration::from_secs(3)));
    assert_eq!(done.error(), "interrupted");
    assert!(done.seconds < 4.0, "{}", done.seconds);
}

#[test]
fn one_seed_is_one_run() {
    let once = || {
        let done = thread(
            "set $io=cvar(type=cvar-exponential,parameters=mean:2000)",
            "flowop readwholefile name=r,filename=a,iosize=$io flowop closefile name=c",
            "run 3",
        );
        (done.row("r"), done.lines)
    };
    assert_eq!(once(), once());
}

#[test]
fn a_random_variable_is_measured() {
    let done = thread(
        "set $v=randvar(type=gamma,min=0,mean=1000,gamma=1500)\nset mode quit firstdone",
        "flowop testrandvar name=v,value=$v,iters=20000 flowop print name=p,value=\"over\" \
         flowop finishoncount name=f,value=0",
        "run",
    );
    let line = done.lines.iter().find(|line| line.contains("testrandvar v")).expect("measured");
    let number = |name: &str| -> f64 {
        let rest = line.split(&format!("{name} =")).nth(1).expect("there");
        rest.split(',').next().expect("a number").trim().parse().expect("a number")
    };
    near(number("mean"), 1000.0, 0.03);
    near(number("stddev"), 1.0 / 1.5f64.sqrt(), 0.03);
    assert!(
        done.lines
            .iter()
            .any(|line| line.ends_with("Message from process (p,1), thread (t,1): over"))
    );
}

#[test]
fn every_personality_runs() {
    for personality in library::PERSONALITIES {
        let mut variables: Vec<(&str, &str)> = Vec::new();
        // Small enough for a test, whatever the personality calls it.
        for (name, value) in [
            ("nfiles", "60"),
            ("ndirs", "60"),
            ("filesize", "64k"),
            ("meanfilesize", "8k"),
            ("logfilesize", "1m"),
            ("nshadows", "10"),
            ("eventrate", "200"),
            ("count", "50"),
            ("bytes", "1m"),
            ("iters", "4"),
            ("numactivevids", "4"),
            ("numpassivevids", "8"),
            ("nthreads", "3"),
            ("writeiters", "8"),
            ("nstreams", "2"),
            ("usermode", "1000"),
        ] {
            if personality.text.contains(&format!("set ${name}=")) {
                variables.push((name, value));
            }
        }
        if personality.text.contains("iosize=1m") && personality.text.contains("set $filesize=") {
            variables.retain(|(name, _)| *name != "filesize");
            variables.push(("filesize", "4m"));
        }
        let plan = Plan::read(
            personality.name,
            personality.text,
            &PlanOptions {
                directory: "/tmp".into(),
                variables: variables
                    .iter()
                    .map(|(name, value)| (name.to_string(), value.to_string()))
                    .collect(),
                run_seconds: Some(1),
                allow_system: false,
            },
        )
        .unwrap_or_else(|error| panic!("{error}"));
        let done = carry_out(plan, true);
        let summary = done.figures().summary();
        assert!(summary.all.ops > 5, "{}: {summary:?}", personality.name);
    }
}
