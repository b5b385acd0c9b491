//! Disks in a folder, the program on them, and the judge.

use std::path::Path;
use std::process::{Command, Output};

/// Empty disks in a folder of their own.
pub fn disks(names: &[&str], bytes: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        let file = std::fs::File::create(folder.path().join(name)).expect("a disk");
        file.set_len(bytes).expect("a size");
    }
    folder
}

/// The program, to be started in a folder of disks.
pub fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.current_dir(folder).args(["-d", "."]).args(arguments);
    command.env_remove("SPINDLE_DEVICES");
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    program(folder, arguments).output().expect("the program starts")
}

/// What it prints, and says.
#[track_caller]
pub fn done(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

#[track_caller]
pub fn refused(folder: &Path, arguments: &[&str], why: &str) {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
    assert!(said.contains(why), "{arguments:?}: {said}");
}

/// What `zdb` prints with these options for a pool, where it is installed.
pub fn zdb(folder: &Path, options: &[&str]) -> Option<String> {
    let mut zdb = Command::new("zdb");
    let Ok(said) = zdb.args(["-e", "-p"]).arg(folder).args(options).output() else {
        println!("skipped: zdb is not there (Debian: zfsutils-linux)");
        return None;
    };
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    Some(text)
}

/// `zdb` finds nothing wrong with a pool.
pub fn judge(folder: &Path, pool: &str) {
    if let Some(text) = zdb(folder, &["-bcc", pool]) {
        assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
    }
}
