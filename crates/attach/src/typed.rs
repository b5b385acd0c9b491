//! Commands as people type them: the next one, told at the end of another.

use std::fmt::Write;
use std::path::PathBuf;

/// How `spindle` is called for these devices.
pub fn spindle(devices: &[PathBuf]) -> String {
    let mut text = "spindle".to_owned();
    for device in devices {
        // Writing to a string can't fail.
        let _ = write!(text, " -d {}", quoted(&device.to_string_lossy()));
    }
    text
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a name from a disk that does something in the shell of whoever copies the line.
    #[test]
    fn a_word_is_one_word_for_the_shell() {
        for word in ["", "a b", "$(reboot)", "it's", "a;b", "`x`", "-", "*"] {
            let text = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh").args(["-c", &text]).output().expect("sh");
            assert_eq!(String::from_utf8_lossy(&out.stdout), word);
        }
        assert_eq!(spindle(&["/a b".into(), "c".into()]), "spindle -d '/a b' -d c");
    }
}
