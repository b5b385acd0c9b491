//! Programs that judge mounted file systems: found, and run in a limited time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A judge that was installed beside the build, or stands in the path; nothing, said aloud, where it doesn't.
pub fn judge(name: &str) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = std::iter::once(built).chain(found).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: {name} is missing; cargo install --locked --root target/tools {name}");
    }
    found
}

/// What a judge says; it must be content, in time.
pub fn judged(command: &mut Command, limit: Duration) -> String {
    let output = tempfile::NamedTempFile::new().expect("a file");
    let (out, error) = (output.reopen().expect("opened"), output.reopen().expect("opened"));
    let mut child = command.stdout(out).stderr(error).spawn().expect("it starts");
    let begin = std::time::Instant::now();
    let status = loop {
        match child.try_wait().expect("it is ours") {
            Some(status) => break Some(status),
            None if begin.elapsed() > limit => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let said = std::fs::read_to_string(output.path()).expect("text");
    let Some(status) = status else {
        child.kill().expect("it is ours");
        panic!("{command:?} is not done after {limit:?}:\n{said}");
    };
    assert!(status.success(), "{command:?}:\n{said}");
    said
}
