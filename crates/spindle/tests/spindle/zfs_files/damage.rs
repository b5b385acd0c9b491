//! Devices that are missing, and what of the datasets can't be known for that.

use super::fixture::Fixture;

/// What could break: a log that can't be read is taken for an empty one, and what was acknowledged is lost without a word.
#[test]
fn an_intent_log_on_a_missing_device_is_told_of() {
    let Some(fixture) = Fixture::unpack("zil-slog") else { return };
    let target = fixtures::scratch::folder();
    let copy = |name: &str, options: &[&str]| {
        let to = target.path().join(name);
        let to = to.to_str().expect("a path");
        let cp = ["zfs", "-T", "43", "cp", "-r"];
        let output = fixture.output(&[&cp, options, &["t_zil_slog/fs:", to]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = copy("whole", &["--replay-view"]);
    assert!(status == Some(0) && !said.contains("missing"), "{said}");
    std::fs::remove_file(fixture.path().join("disk2.raw")).expect("it was there");
    let cut = "the intent log of t_zil_slog/fs lies on a device that is missing";
    let (status, said) = copy("replayed", &["--replay-view"]);
    assert!(status == Some(1) && said.contains(cut), "{status:?} {said}");
    let (status, said) = copy("plain", &[]);
    assert!(status == Some(0) && said.contains(cut), "{status:?} {said}");
    assert!(!target.path().join("replayed").exists(), "nothing was copied");
    let listed = fixture.output(&["zfs", "-T", "43", "ls", "t_zil_slog/fs:"]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success() && said.contains("writes are not shown"), "{said}");
    let shown = fixture.prints(&["zpool", "-T", "43", "debug", "zil", "t_zil_slog/fs"]);
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("on a device that is missing\n0 records\n"), "{shown}");
}

/// What could break: a pool that was exported has logs without records, and each command warns of them.
#[test]
fn a_missing_log_device_of_an_exported_pool_loses_nothing() {
    let Some(fixture) = Fixture::unpack("log-cache-special") else { return };
    std::fs::remove_file(fixture.path().join("disk2.raw")).expect("it was there");
    let output = fixture.output(&["zfs", "ls", "t_log_cache_special:"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // What it held is not lost, and all the same OpenZFS wants to be told.
    let import = ["zpool", "import", "-o", "readonly=on", "t_log_cache_special"];
    let said = fixture.refusal(&import);
    assert!(said.contains("use '-m' to import the pool anyway:\n\t    "), "{said}");
    assert!(said.contains("one or more devices is currently unavailable"), "{said}");
    fixture.prints(&[&import[..], &["-m"]].concat());
}
