//! What could break: a file that IOMeter wrote is not read; a wrong one is read as something else, or
//! its error points to the wrong place.

use super::*;
use crate::iometer::icf::*;
use std::time::Duration;
use stdx::ByteCount;

/// A file in the form that IOMeter 1.1 writes, with all four sections.
const WHOLE: &str = include_str!("../../../../../workloads/iometer-servers.icf");

fn error(text: &str) -> String {
    parse("x.icf", text).expect_err("it is wrong").to_string()
}

#[test]
fn a_whole_file_is_read() {
    let icf = parse("x.icf", WHOLE).expect("ours");
    assert_eq!(icf.version, "1.1.0");
    assert_eq!(icf.setup.run_time, Duration::from_secs(30));
    assert_eq!(icf.setup.ramp_up, Duration::from_secs(5));
    assert_eq!(icf.setup.test_type, TestType::CycleOutstandingIos);
    assert_eq!(icf.setup.queue_end, 16);
    let names: Vec<&str> = icf.specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["File server", "Web server", "Database", "Workstation"]);
    let file_server = &icf.specs[0].lines;
    assert_eq!(file_server.len(), 8);
    assert_eq!(file_server[2].size, ByteCount::kib(4));
    assert_eq!((file_server[2].share_percent, file_server[2].reads_percent), (60, 80));
    let workers = &icf.managers[0].workers;
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].targets, ["iobw"]);
    assert_eq!(workers[0].size_sectors, 2_097_152);
    assert_eq!(workers[0].pattern, DataPattern::FullRandom);
}

#[test]
fn line_ends_case_empty_lines_and_a_mark_of_byte_order_change_nothing() {
    let expected = parse("x.icf", WHOLE).expect("ours");
    let windows = format!("\u{feff}{}", WHOLE.replace('\n', "\r\n"));
    assert_eq!(parse("x.icf", &windows).expect("the same"), expected);
    let empty = WHOLE.replace("'Worker type", "\n\n'WORKER TYPE");
    assert_eq!(parse("x.icf", &empty).expect("the same"), expected);
}

#[test]
fn each_section_may_be_missing_and_stand_anywhere() {
    let icf = parse("x.icf", "Version 2006.07.27 \n").expect("nothing is a configuration");
    assert_eq!(icf, Icf { version: "2006.07.27".to_owned(), ..Icf::default() });
    let [head, tail] = WHOLE.split("'MANAGER LIST").collect::<Vec<_>>()[..] else {
        panic!("one list");
    };
    let [setup, specs] = head.split("'ACCESS").collect::<Vec<_>>()[..] else {
        panic!("one list");
    };
    let turned = format!("{setup}'MANAGER LIST{tail}\n'ACCESS{specs}");
    let expected = parse("x.icf", WHOLE).expect("ours");
    assert_eq!(parse("x.icf", &turned).expect("the same"), expected);
}

#[test]
fn files_of_older_versions_are_read() {
    // No names, no alignment, numbers for words, no end of the test setup.
    let old = "Version 1998.01.05\n'TEST SETUP ====\n'Test Description\n\tfirst\n'Run Time\n\
               '\thours minutes seconds\n\t0 2 30\n'Default Workers to Spawn\n\t0\n\
               'Record Results\n\t1\n'Test Type\n\t1\n'END test setup\n\
               'ACCESS SPECIFICATIONS ===\n'size % of size % reads % random delay burst\n\
               \t4096 100 67 100 0 1\n\t512 40 100 0 0 1\n\t8192 60 0 0 5 4\n";
    let icf = parse("x.icf", old).expect("an old one");
    assert_eq!(icf.setup.run_time, Duration::from_secs(150));
    assert_eq!(icf.setup.disk_workers, WorkerCount::Processors);
    assert_eq!(icf.setup.record, Record::NoTargets);
    assert_eq!(icf.setup.test_type, TestType::CycleTargets);
    assert_eq!(icf.specs[0].name, "4 KiB random 67% reads");
    assert_eq!(icf.specs[1].lines[1].delay, Duration::from_millis(5));
    assert_eq!(icf.specs[1].lines[1].burst.get(), 4);
}

#[test]
fn what_belongs_to_a_key_may_be_empty() {
    for address in ["\t\n", "\n", ""] {
        let text =
            WHOLE.replace("'Manager network address\n\t127.0.0.1\n", "'MANAGER NETWORK ADDRESS\n@");
        let icf = parse("x.icf", &text.replace('@', address)).expect("no address");
        assert_eq!(icf.managers[0].workers.len(), 1);
    }
}

#[test]
fn errors_name_the_place_and_the_mend() {
    let head = "Version 1.1.0\n'ACCESS SPECIFICATIONS\n'Access specification name,default \
                assignment\n\tA,NONE\n'size,% of size,% reads,% random,delay,burst,align,reply\n";
    let cases = [
        (
            "hello",
            "x.icf:1:1: an .icf file begins with a line like 'Version 1.1.0', not with 'hello'",
        ),
        ("", "x.icf:1:1: an .icf file begins with a line like 'Version 1.1.0', not with ''"),
        (
            "Version 1.1.0\n'TEST SETUP\n",
            "x.icf:2:1: the file ends within TEST SETUP; it lacks ''END test setup'",
        ),
        (
            "Version 1.1.0\n'TEST SETUP\n'Colour\n\tred\n",
            "x.icf:3:1: TEST SETUP has no key ''Colour'; correct it or remove it with its value",
        ),
        (
            "Version 1.1.0\n'TEST SETUP\n'Test Type\n\tSLOW\n",
            "x.icf:4:2: 'Test Type is one of NORMAL, CYCLE_TARGETS, CYCLE_WORKERS, INCREMENT_TARGETS_PARALLEL, INCREMENT_TARGETS_SERIAL, CYCLE_WORKERS_AND_TARGETS, CYCLE_OUTSTANDING_IOS, CYCLE_OUTSTANDING_IOS_AND_TARGETS, not 'SLOW'",
        ),
        (
            "Version 1.1.0\n'Queue Depth Cycling\n\t0 4 1 LINEAR\n",
            "x.icf:2:1: ''Queue Depth Cycling' is no section; there are 'TEST SETUP, 'RESULTS DISPLAY, 'ACCESS SPECIFICATIONS and 'MANAGER LIST (a comment has a space after its ')",
        ),
        (
            "Version 1.1.0\n'TEST SETUP\n'Queue Depth Cycling\n\t0 4 1 LINEAR\n",
            "x.icf:4:2: the start of a cycling is 0; it must lie between 1 and 9999",
        ),
        (
            &format!(
                "{head}\t4096,60,100,0,0,1,0,0\n\t512,30,0,0,0,1,0,0\n'END access specifications\n"
            ),
            "x.icf:4:2: the shares ('% of size') of the access specification 'A' add up to 90, not to 100",
        ),
        (
            &format!("{head}\t4096,100,101,0,0,1,0,0\n"),
            "x.icf:6:11: '% reads' is 101; it must lie between 0 and 100",
        ),
        (
            &format!("{head}\t4096,100,x,0,0,1,0,0\n"),
            "x.icf:6:11: '% reads' is a whole number, not 'x'",
        ),
        (
            &format!("{head}\t4096,100,0,0,0\n"),
            "x.icf:6:16: the burst length is a whole number, not ''",
        ),
        (
            &format!("{head}\t4096,100,0,0,0,1,0,0,7\n"),
            "x.icf:6:23: expected 8 numbers in a line, found '7'",
        ),
        (
            &format!("{head}\t4096,100,0,0,0,1,0,512\n"),
            "x.icf:6:2: the access specification 'A' asks for a reply of 512 B, which only network tests have; set it to 0",
        ),
        (
            &WHOLE.replace("\tDatabase\n'End", "\tData\n'End"),
            "there is no access specification 'Data'; define it under 'ACCESS SPECIFICATIONS",
        ),
        (
            &WHOLE.replace("'Worker type\n\tDISK", "'Worker type\n\tNETWORK,TCP"),
            "the worker 'Worker 1' is a network worker; only DISK workers can run: remove it",
        ),
        (
            &WHOLE.replace("DISABLED,1,", "ENABLED,1,"),
            "testing the connection rate is not supported; set it to DISABLED",
        ),
    ];
    for (text, expected) in cases {
        let error = error(text);
        assert!(error.ends_with(expected), "{error}\nexpected {expected}");
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_a_shorter_configuration_but_no_panic() {
    for end in 0..WHOLE.len() {
        if let Some(text) = WHOLE.get(..end) {
            let _ = parse("x.icf", text);
        }
    }
    for (at, _) in WHOLE.match_indices(['\'', ',', '\t', '0']) {
        for other in ["", "é", "\n", "-1", "99999999999999999999", "''"] {
            let text = format!("{}{other}{}", &WHOLE[..at], &WHOLE[at + 1..]);
            let _ = parse("x.icf", &text);
        }
    }
}
