//! Whether a stranger can build on the answers of the lab's layout studies.
//!
//! What could break (all found by newcomers): a rebuild beside load worked out six times too short where the study
//! measures none; an order of layouts that turns with a setting behind a winner that stays; two runs between which layouts
//! change places, and a comparison that finds no difference; words that contradict the figure beside them.

use crate::lab_runs::{json, printed, refused, written};
use fixtures::extent::{by_extent, some};
use serde_json::Value;

/// Eight disks of 20 TB in three layouts, and what follows.
const LAYOUTS: &str = r#"
title = "Eight disks of 20 TB"
question = "Which layout?"
repeats = 2
[steady]
round = "500ms"
window = 3
rounds_max = 4
[machine]
kind = "simulated"
host = "epyc-2024"
disk = "exos-x20"
disks = 9
[layouts.raid5-8]
level = "raid5"
disks = 8
[layouts.raid6-8]
level = "raid6"
disks = 8
[layouts.raid10-8]
level = "raid10"
disks = 8
[[factor]]
name = "layout"
levels = ["raid5-8", "raid6-8", "raid10-8"]
"#;

/// A study of these layouts in a folder of its own.
fn study(rest: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("s.toml"), format!("{LAYOUTS}{rest}")).expect("written");
    dir
}

/// What the results say of a layout.
#[track_caller]
fn layout<'a>(results: &'a Value, name: &str) -> &'a Value {
    let layouts = results["layouts"].as_array().expect("layouts");
    layouts.iter().find(|layout| layout["name"] == name).expect(name)
}

#[test]
fn a_rebuild_beside_load_that_is_worked_out_is_as_long_as_one_that_is_measured() {
    fixtures::takes_long!();
    let loads = [("4k", 2, false), ("16k", 4, false), ("4k", 16, true)];
    for (size, depth, saturated) in some(loads, 1) {
        let load = format!(
            "[[workload]]\nname = \"random\"\nkind = \"random\"\nread_share = 0.7\nblock_size = \"{size}\"\n\
             queue_depth = {depth}\n"
        );
        let rebuild = "[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"random\"\n\
             sampled = { strata = 4, per_stratum = 2, sample = \"16m\" }\n";
        let run = |rest: &str| {
            let dir = study(rest);
            json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]))
        };
        let (worked_out, measured) = (run(&load), run(&format!("{load}{rebuild}")));
        for name in ["raid5-8", "raid6-8", "raid10-8"] {
            let (ours, theirs) = (layout(&worked_out, name), layout(&measured, name));
            assert_eq!(
                (&ours["rebuild_measured"], &theirs["rebuild_measured"]),
                (&false.into(), &true.into())
            );
            let seconds = |layout: &Value, key: &str| layout[key].as_f64().expect(key);
            let (is, truth) =
                (seconds(ours, "rebuild_loaded_s"), seconds(theirs, "rebuild_loaded_s"));
            assert!((is / truth - 1.0).abs() < 0.25, "{name}, {size} × {depth}: {is} for {truth}");
            let (low, high) =
                (seconds(ours, "rebuild_loaded_low_s"), seconds(ours, "rebuild_loaded_high_s"));
            assert!(
                low * 0.99 <= truth && truth <= high * 1.03,
                "{name}: {truth} in {low} to {high}"
            );
            assert_eq!(high > 1.75 * low, saturated, "{name}, {size} × {depth}: {low} to {high}");
            assert!(theirs["rebuild_loaded_low_s"].is_null(), "what is measured is no estimate");
            // What may happen meanwhile follows the time.
            let risk = seconds(ours, "second_loss") / seconds(theirs, "second_loss");
            assert!((risk - 1.0).abs() < 0.25, "{name}: {risk}");
        }
    }
}

/// Of RAID 60 one set mends, and the load goes over both: in the pauses that it leaves to the one the rebuild has the disks, and
/// where it leaves none the load gathers there.
#[test]
fn a_rebuild_of_one_set_of_several_is_worked_out_by_the_load_that_comes_to_it() {
    fixtures::takes_long!();
    let sets = "[layouts.raid60]\nlevel = \"raid0\"\nsets = 2\nof = { level = \"raid6\", disks = 8 }\n[[factor]]";
    let header = LAYOUTS.replace("disks = 9", "disks = 17").replace("[[factor]]", sets);
    let header = header.replace("\"raid5-8\", \"raid6-8\", \"raid10-8\"", "\"raid60\"");
    let mut times = Vec::new();
    for depth in [1, 4, 16] {
        let load = format!(
            "[[workload]]\nname = \"random\"\nkind = \"random\"\nread_share = 0.7\nqueue_depth = {depth}\n"
        );
        let rebuild = "[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"random\"\n\
             sampled = { strata = 4, per_stratum = 2, sample = \"32m\" }\n";
        let run = |rest: &str| {
            let dir = tempfile::tempdir().expect("a folder");
            std::fs::write(dir.path().join("s.toml"), format!("{header}{rest}")).expect("written");
            json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]))
        };
        let (worked_out, measured) = (run(&load), run(&format!("{load}{rebuild}")));
        let (ours, theirs) = (layout(&worked_out, "raid60"), layout(&measured, "raid60"));
        let seconds = |layout: &Value, key: &str| layout[key].as_f64().expect(key);
        let (is, truth) = (seconds(ours, "rebuild_loaded_s"), seconds(theirs, "rebuild_loaded_s"));
        let range = seconds(ours, "rebuild_loaded_low_s")..seconds(ours, "rebuild_loaded_high_s");
        assert!((is / truth - 1.0).abs() < 0.25, "depth {depth}: {is} for {truth}");
        assert!(range.contains(&truth), "depth {depth}: {truth} in {range:?}");
        times.push(is / seconds(ours, "rebuild_idle_s"));
    }
    // A single set takes 12.5 times the idle time at depths 1 and 4.
    assert!(times[0] < 0.5 * times[1] && times[1] < 12.0 && times[2] > 12.5, "{times:?}");
}

/// Beside a light load a rebuild takes the floor's time and no less, however few samples it is measured by.
#[test]
fn what_is_measured_by_short_samples_lies_not_below_what_the_rate_allows() {
    let dir = study(
        "[[workload]]\nname = \"random\"\nkind = \"random\"\n\
         [[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"random\"\n\
         sampled = { strata = 4, per_stratum = 2, sample = \"64m\" }\n",
    );
    let short = "workload.rebuild.sampled.sample=16m";
    let run = ["lab", "run", "s.toml", "--set", short, "--format", "json"];
    let results = json(&printed(dir.path(), &run));
    let floor = 20e12 / (16.0 * 1024.0 * 1024.0);
    for name in ["raid5-8", "raid6-8", "raid10-8"] {
        let took = layout(&results, name)["rebuild_loaded_s"].as_f64().expect("measured");
        assert!((0.99 * floor..1.1 * floor).contains(&took), "{name}: {took} for {floor}");
    }
}

#[test]
fn rebuilds_of_another_priority_do_not_stand_among_those_of_normal_priority() {
    let load = "[[workload]]\nname = \"random\"\nkind = \"random\"\n";
    let rebuild = |priority: &str| {
        format!(
            "{load}[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"random\"\npriority = {priority}\n\
             sampled = {{ strata = 2, per_stratum = 2, sample = \"4m\" }}\nonly = {{ layout = \"raid5-8\" }}\n"
        )
    };
    let days = |rest: &str| {
        let dir = study(rest);
        let text = printed(dir.path(), &["lab", "run", "s.toml"]);
        let results = written(dir.path(), "spindle-results/s");
        let five = layout(&results, "raid5-8").clone();
        (five["rebuild_loaded_s"].as_f64().expect("it is told") / 86_400.0, five, text)
    };
    // A low one takes most of a year: there is no other figure, since the load is no cell of its own.
    let (low, five, text) = days(&rebuild("\"low\""));
    assert!(low > 100.0 && five["rebuild_priority"] == "low", "{five}");
    assert!(text.contains("(low priority)"), "{text}");
    let (both, five, text) = days(&rebuild("[\"low\", \"normal\"]"));
    // 13.8 days; four stretches of 4 MiB tell it to a third of a day.
    assert!((13.0..15.0).contains(&both) && five["rebuild_priority"].is_null(), "{five}");
    assert!(!text.contains("(low priority)"), "{text}");
    // Another load is a cell of its own, and what is worked out beside it is of normal priority.
    let other = "[[workload]]\nname = \"other\"\nkind = \"random\"\n";
    let (worked_out, five, _) = days(&format!("{other}{}", rebuild("\"low\"")));
    assert!((13.7..15.0).contains(&worked_out), "{five}");
    assert_eq!(
        (&five["loaded_by"], &five["rebuild_measured"]),
        (&"layout=raid5-8/other".into(), &false.into())
    );
}

/// Found by newcomers: the rebuild on an idle set was that of the priority that stands last; a rebuild that is measured beside a light
/// load hid that nothing bounds it beside a heavier one.
#[test]
fn a_rebuild_that_is_measured_says_beside_which_load_and_on_an_idle_set_is_the_normal_one() {
    fixtures::takes_long!();
    let stretches = "sampled = { strata = 2, per_stratum = 2, sample = \"4m\" }\n";
    let light = "[[workload]]\nname = \"light\"\nkind = \"random\"\nrate_iops = 10\n";
    let heavy = "[[workload]]\nname = \"heavy\"\nkind = \"stream\"\nop = \"write\"\n";
    let rebuild = |rest: &str| {
        format!("[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\n{rest}\n{stretches}")
    };
    let run = |rest: &str| {
        let dir = study(rest);
        let mirrors = ["lab", "run", "s.toml", "--set", "factor.layout=raid10-8"];
        let text = printed(dir.path(), &mirrors).split_whitespace().collect::<Vec<_>>().join(" ");
        (written(dir.path(), "spindle-results/s"), text)
    };
    let (results, text) = run(&format!("{light}{}{heavy}", rebuild("load = \"light\"")));
    let mirrors = layout(&results, "raid10-8");
    assert_eq!(
        (&mirrors["rebuild_measured"], &mirrors["loaded_by"]),
        (&true.into(), &"light".into())
    );
    assert!(text.contains("The rebuild beside load was measured beside light."), "{text}");
    assert!(text.contains("beside layout=raid10-8/heavy it is ≥ 13 days"), "{text}");
    let (_, text) = run(&format!("{light}{}", rebuild("load = \"light\"")));
    assert!(text.contains("(light: ") && !text.contains("it is ≥"), "{text}");
    let (_, text) = run(heavy);
    assert!(text.contains("The rebuild beside load is longest beside heavy."), "{text}");

    let (results, _) = run(&rebuild("priority = [\"low\", \"normal\", \"high\"]"));
    let cells = results["cells"].as_array().expect("cells");
    let took = |priority: &str| {
        let cell = cells.iter().find(|cell| cell["factors"]["priority"] == priority);
        cell.expect(priority)["metrics"]["duration_s"]["mean"].clone()
    };
    assert_eq!(layout(&results, "raid10-8")["rebuild_idle_s"], took("normal"));
    assert_ne!(took("high"), took("normal"), "they are repeats of other seeds");
}

/// Found by a newcomer: the bound beside a stream of a given rate was a tenth of what a rebuild takes, though it leaves no pause.
#[test]
fn a_rebuild_beside_a_load_of_a_given_rate_takes_no_less_than_its_bound_and_no_pause_that_there_is_not()
 {
    fixtures::takes_long!();
    let days = |rate: u32| {
        let load = format!("kind = \"stream\"\nrate_iops = {rate}\n");
        let stretches = "sampled = { strata = 2, per_stratum = 2, sample = \"16m\" }\n";
        let of = |rest: &str, field: &str| {
            let dir = study(rest);
            let run = ["lab", "run", "s.toml", "--format", "json"];
            let results = json(&printed(dir.path(), &run));
            layout(&results, "raid6-8")[field].as_f64().expect("a time") / 86_400.0
        };
        let bound = of(&format!("[[workload]]\nname = \"s\"\n{load}"), "rebuild_loaded_low_s");
        let rebuild = "[[workload]]\nname = \"r\"\nkind = \"rebuild\"\nload = \"s\"\n";
        let measured = format!("[[workload]]\nname = \"s\"\n{load}{rebuild}{stretches}");
        (bound, of(&measured, "rebuild_loaded_s"))
    };
    for (rate, least) in [(100, 0.95), (50, 0.0), (5, 0.0)] {
        let (bound, measured) = days(rate);
        assert!(bound <= measured * 1.01, "{rate}: {bound} of {measured} days");
        assert!(bound >= measured * least, "{rate}: {bound} of {measured} days");
    }
}

#[test]
fn a_load_beside_which_a_rebuild_hardly_goes_on_is_named() {
    let warned = |depth: u32| {
        let dir = study(&format!(
            "[[workload]]\nname = \"random\"\nkind = \"random\"\nqueue_depth = {depth}\n"
        ));
        let results = json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]));
        layout(&results, "raid6-8")["warnings"].to_string().contains("it may not end while")
    };
    assert!(warned(1024) && !warned(16));
}

/// The rebuild of this layout beside its load has a lower bound, and no upper one.
#[track_caller]
fn is_bounded_below_alone(layout: &Value) {
    assert!(
        layout["rebuild_loaded_high_s"].is_null() && layout["rebuild_loaded_low_s"].is_number(),
        "{layout}"
    );
}

/// A stream's next block is always the nearest one: how long a rebuild waits behind it, its latency does not tell.
#[test]
fn a_rebuild_beside_streams_at_the_disks_limit_is_bounded_below_and_says_so() {
    fixtures::takes_long!();
    let dir =
        study("[[workload]]\nname = \"write\"\nkind = \"stream\"\nop = \"write\"\nstreams = 4\n");
    let text = printed(dir.path(), &["lab", "run", "s.toml"]);
    let results = written(dir.path(), "spindle-results/s");
    is_bounded_below_alone(layout(&results, "raid5-8"));
    assert!(text.contains("≥ 13 days"), "{text}");
}

/// What pauses, streams, or is answered by a disk's cache has no upper end, be the disks busy or not; and the rebuild that is measured
/// beside it takes no less than the lower one.
#[test]
fn a_rebuild_beside_what_does_not_tell_how_long_it_waits_is_bounded_below_alone() {
    fixtures::takes_long!();
    let loads = [
        "kind = \"stream\"\nblock_size = \"64k\"\nqueue_depth = 1\n",
        "kind = \"stream\"\nop = \"write\"\n",
        "kind = \"random\"\nread_share = 0\nblock_size = \"16k\"\nqueue_depth = 2\n",
        "kind = \"slob\"\nreaders = 2\nprocessor_time = \"40ms\"\n",
    ];
    for load in some(loads, 1) {
        let load = format!("[[workload]]\nname = \"load\"\n{load}");
        let rebuild = "[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"load\"\n\
             sampled = { strata = 2, per_stratum = 2, sample = \"8m\" }\n";
        let run = |rest: &str| {
            let dir = study(rest);
            let mirrors = ["--set", "factor.layout=raid10-8", "--format", "json"];
            let run = [&["lab", "run", "s.toml"][..], &mirrors].concat();
            layout(&json(&printed(dir.path(), &run)), "raid10-8").clone()
        };
        let (bounded, measured) = (run(&load), run(&format!("{load}{rebuild}")));
        let seconds = |layout: &Value, key: &str| layout[key].as_f64().expect(key);
        assert!(bounded["rebuild_loaded_high_s"].is_null(), "{load}: {bounded}");
        let (bound, took) =
            (seconds(&bounded, "rebuild_loaded_low_s"), seconds(&measured, "rebuild_loaded_s"));
        assert!(bound <= 1.02 * took, "{load}: {bound} for {took}");
        // What the load got meanwhile stands beside it.
        assert!(seconds(&measured, "load_mb_s") > 0.0, "{measured}");
    }
}

/// All layouts are asked alike by a load of a given rate, beside a rebuild as well; one that can't be reached is said to be that.
#[test]
fn a_load_of_a_given_rate_keeps_to_it_beside_a_rebuild_and_says_where_it_did_not() {
    fixtures::takes_long!();
    let load = |rate: u32, depth: u32| {
        format!(
            "[[workload]]\nname = \"load\"\nkind = \"random\"\nrate_iops = {rate}\nqueue_depth = {depth}\n"
        )
    };
    let rebuild = "[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"load\"\n\
         sampled = { strata = 2, per_stratum = 2, sample = \"64m\" }\n";
    let run = |rest: &str| {
        let dir = study(rest);
        json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]))
    };
    let mean = |cell: &Value, metric: &str| cell["metrics"][metric]["mean"].as_f64().expect(metric);
    for (results, metric) in
        [(run(&load(100, 4)), "iops"), (run(&format!("{}{rebuild}", load(100, 16))), "load_iops")]
    {
        for cell in results["cells"].as_array().expect("cells") {
            let rate = mean(cell, metric);
            assert!((95.0..101.0).contains(&rate), "{}: {rate}", cell["id"]);
            assert!(!cell["warnings"].to_string().contains("did not reach its rate"), "{cell}");
        }
    }
    // Beside so light a load the rebuild has the disks most of the time, and the bound says no more than that.
    let (bounded, measured) = (run(&load(10, 4)), run(&format!("{}{rebuild}", load(10, 4))));
    let seconds =
        |results: &Value, key: &str| layout(results, "raid10-8")[key].as_f64().expect(key);
    let took = seconds(&measured, "rebuild_loaded_s");
    assert!(
        seconds(&bounded, "rebuild_loaded_low_s") <= 1.02 * took && took < 13.0 * 86_400.0,
        "{took}"
    );
    // Streams have a rate of bytes; a disk makes some 80 random reads of one after another.
    let streams =
        run("[[workload]]\nname = \"s\"\nkind = \"stream\"\nstreams = 2\nrate = \"20m\"\n");
    for cell in streams["cells"].as_array().expect("cells") {
        let rate = mean(cell, "throughput_mb_s") / 1.048_576;
        assert!((19.0..20.2).contains(&rate), "{}: {rate}", cell["id"]);
    }
    let slow = run("[[workload]]\nname = \"s\"\nkind = \"random\"\nrate_iops = 1000\n");
    assert!(slow["cells"].to_string().contains("'s' did not reach its rate: "), "{slow}");
    let dir =
        study("[[workload]]\nname = \"s\"\nkind = \"random\"\nrate_iops = 10\nrate = \"1m\"\n");
    assert!(refused(dir.path(), &["lab", "run", "s.toml"]).contains("leave out one of them"));
}

/// A tool on files may pause, and be a stream while it does not.
#[test]
fn a_rebuild_beside_a_tool_is_bounded_below_alone() {
    fixtures::takes_long!();
    let text =
        LAYOUTS.replace("disks = 9\n", "disks = 9\nfilesystem = \"xfs\"\npage_cache = \"64m\"\n");
    let text = by_extent(text.replace("\"raid6-8\", ", ""), text);
    let dir = tempfile::tempdir().expect("a folder");
    let bonnie = "[[workload]]\nname = \"bonnie\"\nkind = \"bonnie\"\nsize = \"128m\"\nfiles = 1\nbytes = 0\n\
                  [verdict]\nby = \"layout\"\n";
    std::fs::write(dir.path().join("s.toml"), format!("{text}{bonnie}")).expect("written");
    let text = printed(dir.path(), &["lab", "run", "s.toml"]);
    let results = written(dir.path(), "spindle-results/s");
    is_bounded_below_alone(layout(&results, "raid5-8"));
    assert!(text.contains("≥") && !text.contains("≈ 13"), "{text}");
    // Its phases stand in the terminal, and the verdict says where the order turns between them.
    for phase in ["output block", "rewrite", "input block", "random seeks", "sequential create"] {
        assert!(text.contains(phase), "{phase}: {text}");
    }
    let verdict = results["verdict"].as_str().expect("words");
    assert!(verdict.contains("phase") && verdict.contains("over their time together"), "{verdict}");
    assert!(text.contains("page cache has its own") && !text.contains("direct reads"), "{text}");
}

#[test]
fn a_layout_that_survives_no_lost_disk_is_named_beside_its_speed() {
    let rest = "[[workload]]\nname = \"random\"\nkind = \"random\"\nqueue_depth = 8\n[verdict]\nby = \"layout\"\n";
    let dir = study(rest);
    let text = format!("{LAYOUTS}{rest}")
        .replace("[[factor]]", "[layouts.raid0-8]\nlevel = \"raid0\"\ndisks = 8\n[[factor]]")
        .replace("levels = [", "levels = [\"raid0-8\", ");
    std::fs::write(dir.path().join("s.toml"), text).expect("written");
    let results = json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]));
    let verdict = results["verdict"].as_str().expect("words");
    assert!(verdict.contains("raid0-8 survives no lost disk"), "{verdict}");
}

/// The README's study on other disks: what `--set` can't do is said with what can.
#[test]
fn a_layout_that_a_study_lacks_is_refused_with_what_to_write_instead() {
    let dir = tempfile::tempdir().expect("a folder");
    for (option, mend) in [
        ("layouts.raid6-8.level=raid6", "write [layouts.raid6-8]"),
        ("factor.layout=raid6-8", "adds no level"),
    ] {
        let line = refused(dir.path(), &["lab", "run", "raid-layouts", "--set", option]);
        assert!(line.contains(mend), "{line}");
        assert!(line.contains("`spindle lab show raid-layouts --text > mine.toml`"), "{line}");
        assert!(!line.contains("did you mean 'raid1-2'"), "{line}");
    }
    let text = printed(dir.path(), &["lab", "show", "raid-layouts", "--text"]);
    assert_eq!(text, include_str!("../../../../studies/raid-layouts.toml"));
    // What it prints is a study; its cells are shown by name, or some of them.
    std::fs::write(dir.path().join("mine.toml"), text).expect("written");
    let line =
        refused(dir.path(), &["lab", "run", "mine.toml", "--set", "layouts.raid6-8.level=raid6"]);
    assert!(line.contains("into mine.toml") && !line.contains("--text"), "{line}");
    let shown = printed(dir.path(), &["lab", "show", "mine.toml", "--only", "raid5"]);
    assert!(shown.contains("layout=raid5-6/") && !shown.contains("layout=disk/"), "{shown}");
    let none = refused(dir.path(), &["lab", "show", "mine.toml", "--only", "no such cell"]);
    assert!(none.contains("no such cell"), "{none}");
}

#[test]
fn what_a_setting_makes_untrue_of_a_studys_words_is_noted() {
    let dir = study("[[workload]]\nname = \"random\"\nkind = \"random\"\n");
    let arguments = [
        "lab",
        "run",
        "s.toml",
        "--quick",
        "--only",
        "raid5",
        "--set",
        "machine.disk=hua723030ala640",
        "--set",
        "layouts.raid5-8.disks=4",
        "--format",
        "json",
    ];
    let results = json(&printed(dir.path(), &arguments));
    let notes = results["notes"].to_string();
    assert!(notes.contains("may speak of another machine: machine.disk was changed"), "{notes}");
    assert!(notes.contains("whatever those say: layouts.raid5-8.disks was changed"), "{notes}");
}

#[test]
fn a_drive_that_there_is_not_is_looked_for_among_drives() {
    let dir = study("[[workload]]\nname = \"random\"\nkind = \"random\"\n");
    let of = |name: &str| {
        refused(dir.path(), &["lab", "show", "s.toml", "--set", &format!("machine.disk={name}")])
    };
    assert!(of("wd").contains("those that begin so are wd5000aaks, "), "{}", of("wd"));
    assert!(
        of("floppy").contains("there are: st3750640as") && !of("floppy").contains("hba"),
        "{}",
        of("floppy")
    );
    assert!(of("exos").contains("did you mean 'exos-x20'?"), "{}", of("exos"));
}
