//! What could break: a number without provenance slips in, or an error leaves the reader searching.

use super::*;

const LINK: &str = r#"kind = "link"
name = "wire"
title = "A wire"
rate_mb_s = { value = 100, source = "a test" }
full_duplex = { value = true, guessed = "a test" }
shared = { value = true, guessed = "a test" }
paths = { value = 1, derived = "one wire" }
latency_us = { value = 1.5, guessed = "a test" }
command_limit = { value = 8, guessed = "a test" }
"#;

fn error_of(text: &str) -> String {
    Profile::parse("wire.toml", text).expect_err("refused").to_string()
}

#[test]
fn every_shipped_profile_parses_and_is_called_as_its_file() {
    for name in names() {
        let profile = load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name(), name);
        assert!(!profile.entries().is_empty());
    }
}

#[test]
fn a_profile_shows_each_number_with_its_provenance() {
    let shown = Profile::parse("wire.toml", LINK).expect("sound").show();
    assert!(shown.contains("latency_us      1.5  guessed: a test"), "{shown}");
    assert!(shown.contains("derived: one wire"));
}

#[test]
fn a_disk_of_a_data_sheet_says_what_it_lacks() {
    let shown = |name| load(name).expect("it ships").show();
    let lacks = "not given, so derived from the above: a seek table (seek_table); a zone table";
    assert!(shown("wd5000aaks").contains(lacks), "{}", shown("wd5000aaks"));
    assert!(!shown("cheetah9lp").contains("not given"));
}

#[test]
fn exactly_one_provenance_is_asked_for() {
    for wrong in [
        "{ value = 100 }",
        "{ value = 100, source = \"a\", guessed = \"b\" }",
        "{ value = 100, source = \" \" }",
        "100",
    ] {
        let error = error_of(&LINK.replace("{ value = 100, source = \"a test\" }", wrong));
        assert!(error.starts_with("wire.toml:4: rate_mb_s: "), "{error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn a_guess_may_say_how_far_off_it_may_be_and_nothing_else_may() {
    let with = |range: &str| {
        LINK.replace("{ value = 8, guessed", &format!("{{ value = 8, range = {range}, guessed"))
    };
    let shown = Profile::parse("wire.toml", &with("[4, 32]")).expect("sound").show();
    assert!(shown.contains("8  guessed: a test (between 4 and 32)"), "{shown}");
    for wrong in ["[9, 32]", "[1, 2]", "[4]", "4"] {
        assert!(error_of(&with(wrong)).starts_with("wire.toml:9: command_limit: "), "{wrong}");
    }
    let sourced = LINK.replace("{ value = 100, source", "{ value = 100, range = [1, 200], source");
    assert!(error_of(&sourced).contains("a range is for what is guessed"));
}

#[test]
fn an_error_is_one_line_that_names_file_key_and_mend() {
    let error = error_of(&LINK.replace("paths", "pahts"));
    assert!(error.starts_with("wire.toml:7: pahts: unknown field `pahts`, expected "), "{error}");
    let error = error_of(&LINK.replace("paths = { value = 1, derived = \"one wire\" }", ""));
    assert!(error.contains("missing field `paths`"), "{error}");
    let error = error_of(&LINK.replace("value = 8", "value = 0"));
    assert_eq!(error, "wire.toml:9: command_limit: must be more than 0");
    let error = error_of(&LINK.replace("\"link\"", "\"lynk\""));
    assert!(error.starts_with("wire.toml:1: kind: 'lynk' is no kind: write disk"), "{error}");
    let error = error_of(&LINK.replace("value = 1.5", "value = -1.5"));
    assert_eq!(error, "wire.toml:8: latency_us: write 0, or a number from 0.001 to 1e15");
}

#[test]
fn threads_of_a_core_are_told_with_what_it_gains_by_them() {
    let host = include_str!("../../../../hardware/sparc-t4-4core.toml");
    let flaw = |from: &str, to: &str| {
        assert!(host.contains(from), "{from}");
        Profile::parse("t4.toml", &host.replace(from, to)).expect_err("refused").to_string()
    };
    assert!(
        flaw("threads_gain = { value = 2.8", "threads_gain = { value = 9.0")
            .ends_with("from 1 to threads_per_core")
    );
    assert!(
        flaw("threads_per_core = { value = 8", "threads_per_core = { value = 99")
            .contains("1 to 64")
    );
    let gain = host.lines().find(|line| line.starts_with("threads_gain")).expect("it is there");
    assert!(flaw(gain, "").contains("threads_per_core: say beside it"), "{}", flaw(gain, ""));
}

#[test]
fn a_wrong_name_is_answered_with_the_one_that_was_meant() {
    for (wrong, meant) in [("st375064as", "st3750640as"), ("evo", "870-evo"), ("PM9A4", "pm9a3")] {
        let error = load(wrong).expect_err("unknown").to_string();
        assert!(error.contains(&format!("did you mean '{meant}'?")), "{error}");
    }
    assert!(!load("floppy").expect_err("unknown").to_string().contains("did you mean"));
    let missing = load("/nowhere/disk.toml").expect_err("missing").to_string();
    assert!(missing.starts_with("/nowhere/disk.toml: "), "{missing}");
}
