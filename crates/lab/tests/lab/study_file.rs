//! What a study file may hold, and what is said of one that is wrong: one line that names the place
//! and the mend.

use crate::scripted;

use lab::design::cells;
use lab::study::{Kind, Options, ProbeExtent, Sampling, Study, WorkingSet};
use scripted::{set, study, study_with};
use std::time::Duration;
use stdx::ByteCount;

const RAID: &str = r#"
title = "RAID layouts"
question = "Which layout?"
repeats = 3

[machine]
kind = "simulated"
disks = 12

[layouts.disk]
level = "single"
[layouts.raid5-6]
level = "raid5"
disks = 6

[[factor]]
name = "layout"
levels = ["disk", "raid5-6"]

[[workload]]
name = "random"
kind = "random"
read_share = 0.33
block_size = ["4k", "32k"]
queue_depth = [1, 4, 16]
working_set = 0.5

[[workload]]
name = "rebuild"
kind = "rebuild"
except = { layout = "disk" }
load = ["idle", "office"]
sampled = { strata = 4, sample = "64m" }

[[workload]]
name = "office"
kind = "slob"
readers = 3
writers = 1

[[workload]]
name = "probe"
kind = "probe"
total = "1g"

[[claim]]
id = "faster"
text = "RAID 5 is faster"
source = "folk wisdom"
published = "twice"
check = { metric = "iops", of = { layout = "raid5-6", workload = "random" }, relation = "above", to = { layout = "disk" }, factor = 2 }

[verdict]
by = "layout"
[[verdict.use]]
name = "random I/O"
of = { workload = "random", block_size = 4096 }
"#;

/// The one line that a study with `from` replaced by `to` gets.
fn refusal(from: &str, to: &str) -> String {
    assert!(RAID.contains(from), "{from}");
    refusal_of(&RAID.replacen(from, to, 1), &[])
}

fn refusal_of(text: &str, settings: &[&str]) -> String {
    let error = Study::parse("x", "studies/x.toml", text, &set(settings)).map(|_| text);
    let line = error.expect_err("it is wrong").to_string();
    assert!(!line.contains('\n'), "more than a line: {line}");
    line
}

#[test]
fn a_whole_study_is_read_as_it_was_meant() {
    let study = study(RAID);
    assert_eq!((study.repeats, study.confidence, study.seed), (3, 0.95, 1));
    assert_eq!(study.machine["disks"].as_integer(), Some(12));
    let cells = cells(&study).expect("it has cells");
    assert_eq!(cells.len(), 2 * 6 + 2 + 2);
    let layout = study.layout_of(&cells[cells.len() - 1]).expect("a layout");
    assert_eq!((layout.0, layout.1["disks"].as_integer()), ("raid5-6", Some(6)));

    let random = &cells[0];
    assert_eq!(random.id, "layout=disk/random/block_size=4k,queue_depth=1");
    assert_eq!(random.workload.working_set, WorkingSet::Share(0.5));
    let Kind::Random(parameters) = &random.workload.kind else { panic!("{random:?}") };
    assert_eq!(parameters.align, ByteCount::kib(4));

    let rebuild = cells.iter().find(|cell| cell.id == "layout=raid5-6/rebuild/load=office");
    let Kind::Operation(operation) = &rebuild.expect("a rebuild").workload.kind else { panic!() };
    let sampling = Sampling { strata: 4, per_stratum: 3, sample: ByteCount::kib(64 * 1024) };
    assert_eq!(operation.sampled, Some(sampling));
    let load = operation.load.as_ref().expect("under load");
    assert!(matches!(&load.kind, Kind::Slob(slob) if (slob.readers, slob.writers) == (3, 1)));
    assert!(!cells.iter().any(|cell| cell.workload.name == "office"), "a load is no cell");

    let probe = cells.iter().find(|cell| cell.workload.name == "probe").expect("a probe");
    assert!(matches!(&probe.workload.kind, Kind::Probe(probe)
        if probe.extent == ProbeExtent::Total(ByteCount::gib(1))));
}

#[test]
fn a_wrong_study_is_refused_in_one_line_with_place_and_mend() {
    for (from, to, line) in [
        (
            "repeats = 3",
            "repeat = 3",
            "studies/x.toml:4: unknown key 'repeat' in the study; did you mean 'repeats'?",
        ),
        (
            "repeats = 3",
            "repeats = 0",
            "studies/x.toml:4: 'repeats' in the study is 0; it must be a whole number from 1 to 1000",
        ),
        (
            "repeats = 3",
            "repeats = ",
            "studies/x.toml:4: this is no TOML: string values must be quoted, expected literal string",
        ),
        (
            "question = \"Which layout?\"\n",
            "",
            "studies/x.toml: the study has no 'question'; write question = \"...?\", which the study \
             answers",
        ),
        (
            "repeats = 3",
            "design = \"plackett-burman\"",
            "studies/x.toml:4: the study: the design \"plackett-burman\" is planned but not there yet; \
             write design = \"full\", and shorten lists if that takes too long",
        ),
        (
            "levels = [\"disk\", \"raid5-6\"]",
            "levels = [\"disk\", \"raid5_6\"]",
            "studies/x.toml:18: factor 'layout' names the layout 'raid5_6', which [layouts] does not \
             have; did you mean 'raid5-6'?",
        ),
        (
            "levels = [\"disk\", \"raid5-6\"]",
            "levels = [\"disk\", \"disk\"]",
            "studies/x.toml:18: level 'disk' stands twice in factor 'layout'; give each a name of its \
             own",
        ),
        (
            "kind = \"random\"",
            "kind = \"randon\"",
            "studies/x.toml:22: 'kind' in workload 'random' is \"randon\"; it must be \"stream\" or \
             \"random\" or \"slob\" or \"probe\" or \"initialise\" or \"clone\" or \"rebuild\" or \"check\" or \"rebalance\" or \"filebench\" or \"fio\" or \"bonnie\" or \"tiobench\" or \"iometer\" or \"smallfiles\"",
        ),
        (
            "queue_depth = [1, 4, 16]",
            "queue_dept = [1, 4, 16]",
            "studies/x.toml:25: unknown key 'queue_dept' in workload 'random'; did you mean \
             'queue_depth'?",
        ),
        (
            "queue_depth = [1, 4, 16]",
            "queue_depth = [1, 4, 4]",
            "studies/x.toml:25: level '4' stands twice in 'queue_depth' of workload 'random'; give each \
             a name of its own",
        ),
        (
            "queue_depth = [1, 4, 16]",
            "queue_depth = []",
            "studies/x.toml:25: 'queue_depth' in workload 'random' is []; it must be a value or a list \
             of some",
        ),
        (
            "except = { layout = \"disk\" }",
            "except = { layot = \"disk\" }",
            "studies/x.toml:31: 'except' of workload 'rebuild' names the factor 'layot', which the study \
             does not have; did you mean 'layout'?",
        ),
        (
            "load = [\"idle\", \"office\"]",
            "load = \"offices\"",
            "studies/x.toml:32: workload 'rebuild' names the workload 'offices', which the study does \
             not have; did you mean 'office'?",
        ),
        (
            "load = [\"idle\", \"office\"]",
            "load = \"random\"",
            "studies/x.toml:32: workload 'rebuild': its load 'random' has a list as 'block_size'; give a \
             load one value for each parameter",
        ),
        (
            "name = \"probe\"",
            "name = \"random\"",
            "studies/x.toml:42: workload 'random' stands twice in the study; give each a name of its own",
        ),
        (
            "relation = \"above\"",
            "relation = \"over\"",
            "studies/x.toml:51: 'relation' in 'check' of claim 'faster' is \"over\"; it must be \"above\" \
             or \"below\" or \"about\" or \"equal\" or \"rising\" or \"falling\" or \"repeatable\"",
        ),
        (
            "workload = \"random\" }, relation",
            "workload = \"random\", queue_depth = 2 }, relation",
            "studies/x.toml:51: claim 'faster': no cell of the study has layout raid5-6 and queue_depth 2 \
             and workload random; correct it; `spindle lab show STUDY` lists the cells and their names",
        ),
        (
            "block_size = 4096",
            "blocksize = 4096",
            "studies/x.toml:57: unknown key 'blocksize' in 'of' of use 'random I/O' of [verdict]; did you \
             mean 'block_size'?",
        ),
        (
            "by = \"layout\"",
            "by = \"disks\"",
            "studies/x.toml:54: [verdict] names the factor 'disks', which the study does not have; there \
             are: layout",
        ),
    ] {
        assert_eq!(refusal(from, to), line);
    }
}

#[test]
fn a_file_that_is_not_there_is_named_with_the_mend() {
    let error = Study::load("no/such.toml".as_ref(), &Options::default()).map(|study| study.name);
    let line = error.expect_err("there is none").to_string();
    assert!(line.starts_with("no/such.toml: the study can't be read: "), "{line}");
    assert!(line.ends_with("`spindle lab list` shows the studies that ship"), "{line}");
}

#[test]
fn options_take_the_place_of_keys() {
    let changed = study_with(
        RAID,
        &set(&[
            "repeats=7",
            "steady.round=1s",
            "machine.disks=6",
            "machine.controller.cache=2g",
            "layouts.raid5-6.chunk=64k",
            "factor.layout=raid5-6",
            "workload.random.queue_depth=1,4",
            "workload.probe.total=2g",
            "workload.random.read_share=1",
            "title=Other words",
        ]),
    );
    assert_eq!(changed.repeats, 7);
    assert_eq!(changed.steady.round, Duration::from_secs(1));
    assert_eq!(changed.machine["disks"].as_integer(), Some(6));
    assert_eq!(changed.machine["controller"]["cache"].as_str(), Some("2g"));
    assert_eq!(changed.layouts["raid5-6"]["chunk"].as_str(), Some("64k"));
    assert_eq!(changed.title, "Other words");
    assert_eq!(changed.notes[0], "--set repeats=7");
    assert_eq!(cells(&changed).expect("cells").len(), 4 + 2 + 1);
}

#[test]
fn keys_of_a_workloads_table_are_set_one_by_one_or_all_at_once() {
    let whole = "workload.rebuild.sampled={ strata = 2, per_stratum = 5, sample = \"16m\" }";
    for (settings, [strata, per_stratum, mib]) in [
        (&["workload.rebuild.sampled.sample=16m"][..], [4, 3, 16]),
        (&["workload.rebuild.sampled.sample=16m", "workload.rebuild.sampled.strata=9"], [9, 3, 16]),
        (&[whole], [2, 5, 16]),
    ] {
        let cells = cells(&study_with(RAID, &set(settings))).expect("cells");
        let rebuild = cells.iter().find(|cell| cell.workload.name == "rebuild").expect("one");
        let Kind::Operation(operation) = &rebuild.workload.kind else { panic!() };
        let sampling = Sampling { strata, per_stratum, sample: ByteCount::mib(mib.into()) };
        assert_eq!(operation.sampled, Some(sampling), "{settings:?}");
    }
}

#[test]
fn a_wrong_option_is_refused_by_its_own_text() {
    for (setting, line) in [
        (
            "workload.rebuild.sampled.samples=16m",
            "--set workload.rebuild.sampled.samples=16m: unknown key 'samples' in 'sampled' of workload 'rebuild'; did \
             you mean 'sample'?",
        ),
        (
            "workload.rebuild.load.sample=16m",
            "--set workload.rebuild.load.sample=16m: the option: 'workload[1].load' is no table; name a key of a table",
        ),
        (
            "repeats=x",
            "--set repeats=x: 'repeats' in the study is \"x\"; it must be a whole number from 1 to 1000",
        ),
        ("repeat=3", "--set repeat=3: unknown key 'repeat' in the study; did you mean 'repeats'?"),
        (
            "repeats",
            "--set repeats: the option: there is no '='; write --set KEY=VALUE, as --set repeats=3",
        ),
        (
            "steady.windows=3",
            "--set steady.windows=3: unknown key 'windows' in [steady]; did you mean 'window'?",
        ),
        (
            "factor.layout=raid6",
            "--set factor.layout=raid6: the option names the level 'raid6', which factor 'layout' does \
             not have; there are: disk, raid5-6; --set adds no level; write it into studies/x.toml",
        ),
        (
            "layouts.raid5.chunk=4k",
            "--set layouts.raid5.chunk=4k: unknown key 'raid5' in [layouts]; did you mean 'raid5-6'?; --set adds no \
             layout; write [layouts.raid5], and its name among the factor's levels, into studies/x.toml",
        ),
        (
            "workload.rnd.queue_depth=3",
            "--set workload.rnd.queue_depth=3: unknown key 'rnd' in the workloads; there are: random, \
             rebuild, office, probe",
        ),
        (
            "workload.random.depth=3",
            "--set workload.random.depth=3: unknown key 'depth' in workload 'random'; there are: \
             working_set, read_share, block_size, queue_depth, align, rate, rate_iops, only, except",
        ),
        (
            "machine=3",
            "--set machine=3: the option: 'machine' is no single value; write steady.KEY, machine.KEY, \
             layouts.NAME.KEY, factor.NAME or workload.NAME.PARAMETER",
        ),
        (
            "mashine.disks=3",
            "--set mashine.disks=3: unknown key 'mashine' in the study; did you mean 'machine'?",
        ),
    ] {
        assert_eq!(refusal_of(RAID, &[setting]), line);
    }
}

#[test]
fn an_option_does_not_excuse_what_is_wrong_in_the_file() {
    let text = RAID.replacen("by = \"layout\"", "by = \"disks\"", 1);
    assert!(refusal_of(&text, &["repeats=2"]).starts_with("studies/x.toml:54: "));
}

#[test]
fn quick_shortens_what_no_option_has_fixed_and_says_so() {
    let quick = |settings: &[&str]| study_with(RAID, &Options { quick: true, ..set(settings) });
    let short = quick(&[]);
    assert!(short.quick);
    assert_eq!((short.repeats, short.steady.window, short.steady.rounds_max), (2, 3, 6));
    assert_eq!(short.steady.round, Duration::from_millis(500));
    assert_eq!(
        short.notes,
        ["--quick: 2 repeats instead of 3, rounds of 500ms instead of 2s, 3 rounds in the window \
             instead of 5, 6 rounds at most instead of 25, 2 stretches a stratum of sampled operations; \
             a first look, no basis for a decision"]
    );
    let fixed = quick(&["repeats=4", "steady.round=3s"]);
    assert_eq!((fixed.repeats, fixed.steady.round), (4, Duration::from_secs(3)));
}

#[test]
fn lists_that_make_too_many_cells_are_refused_before_they_are_made() {
    let many: Vec<u32> = (1..=1000).collect();
    let list = |key: &str| format!("{key} = {many:?}\n");
    let text = RAID.replacen("queue_depth = [1, 4, 16]\n", &list("queue_depth"), 1);
    let sizes: Vec<u32> = (1..=1000).map(|n| n * 512).collect();
    let text =
        text.replacen("block_size = [\"4k\", \"32k\"]", &format!("block_size = {sizes:?}"), 1);
    let line = refusal_of(&text, &[]);
    assert!(
        line.contains("its lists make 1000000 combinations, over the limit of 10000"),
        "{line}"
    );
}

/// A guide whose examples do not work is worse than none.
#[test]
fn every_whole_study_in_the_guide_can_be_read() {
    let guide = include_str!("../../../../docs/guide/studies.md");
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole: Vec<&str> = blocks.filter(|block| block.starts_with("title")).collect();
    assert!(!whole.is_empty(), "the guide has an example");
    for block in whole {
        assert!(!cells(&study(block)).expect("it has cells").is_empty());
    }
}

/// Found by a tester: a claim on a misspelt metric ran for hours before it was said.
#[test]
fn a_claim_on_a_metric_that_nothing_measures_is_refused_before_anything_runs() {
    let text = "title = 't'\nquestion = 'q?'\nmachine = {}\n[[workload]]\nname = 'w'\nkind = 'random'\n\
                [[claim]]\nid = 'c'\ntext = 't'\nsource = 's'\npublished = 'p'\n\
                check = { metric = 'iopz', of = { workload = 'w' }, relation = 'above', value = 1 }\n";
    let error =
        lab::study::Study::parse("s", "s.toml", text, &Default::default()).expect_err("refused");
    let line = error.to_string();
    assert!(line.contains("iopz") && line.contains("iops") && !line.contains('\n'), "{line}");
}

#[test]
fn a_factor_may_change_the_machine_and_run_a_command_for_each_level() {
    let text = "title = 't'\nquestion = 'q?'\nmachine = {}\n[[factor]]\nname = 'mount'\n\
                levels = ['relatime', 'noatime']\nsettings = { noatime = { directory = '/b' } }\n\
                before = { noatime = 'mount -o remount,noatime /b' }\n\
                [[workload]]\nname = 'w'\nkind = 'smallfiles'\nfiles = [10, 100]\nset = { x = 1 }\n";
    let read = study(text);
    let factor = &read.factors[0];
    assert_eq!(factor.settings["noatime"]["directory"].as_str(), Some("/b"));
    assert!(factor.before["noatime"].starts_with("mount") && factor.before.len() == 1);
    let ids: Vec<String> =
        cells(&read).expect("it has cells").into_iter().map(|cell| cell.id).collect();
    assert_eq!(ids[0], "mount=relatime/w/files=10");
    assert_eq!(ids.len(), 4);

    let misspelt = text.replacen("before = { noatime", "before = { notime", 1);
    let line = refusal_of(&misspelt, &[]);
    assert!(line.contains("notime") && line.contains("did you mean 'noatime'"), "{line}");
}

/// What can't be checked is said before anything runs.
#[test]
fn a_claim_that_says_nothing_is_refused_with_the_mend() {
    let refused = |keys: &str| {
        let text = format!(
            "title = 't'\nquestion = 'q?'\nmachine = {{}}\nlayouts = {{ a = {{}}, b = {{}} }}\n\
             [[factor]]\nname = 'layout'\nlevels = ['a', 'b']\n\
             [[workload]]\nname = 'random'\nkind = 'random'\n\
             [[claim]]\nid = 'c'\ntext = 't'\nsource = 's'\npublished = 'p'\n{keys}"
        );
        let read = Study::parse("x", "studies/x.toml", &text, &Options::default());
        read.expect_err("it is refused").to_string()
    };
    let check = |rest: &str| {
        refused(&format!("check = {{ metric = 'iops', of = {{ workload = 'random' }}, {rest} }}"))
    };
    assert!(refused("kind = 'ratio'").contains("only a conjecture can do without"));
    assert!(check("relation = 'rising', value = 3").contains("needs 'along'"));
    assert!(check("relation = 'repeatable'").contains("write tolerance = 0.02"));
    assert!(check("relation = 'repeatable', tolerance = 0.1, value = 3").contains("nothing else"));
    assert!(
        check("relation = 'rising', along = { layout = ['a'] }").contains("one key and its values")
    );
    assert!(check("relation = 'equal', value = 3").contains("needs 'to'"));
    assert!(
        check("relation = 'above', to = { layout = 'a' }, along = { layout = ['a', 'b'] }")
            .contains("'along' goes with")
    );
    assert!(
        check("relation = 'above', to = { layout = 'a' }, take = 'largest'")
            .contains("'take' goes with")
    );
}
