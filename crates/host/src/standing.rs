//! Who stands in a directory: a process whose working directory, or whose root, it is or lies below.
//!
//! The kernel keeps a mount as long as one does, and a server of files isn't told: to it such a directory isn't open. Links of `/proc` are
//! read without asking who serves what they lead to, so a process may look for what it serves itself. Whose links may not be read is
//! passed over.

use std::path::Path;

/// A process that stands there; `directory` is a whole path, without links.
pub fn standing_in(directory: &Path) -> Option<u32> {
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        let is_there = |link: &str| {
            let leads_to = std::fs::read_link(process.path().join(link));
            leads_to.is_ok_and(|path| path.starts_with(directory))
        };
        (is_there("cwd") || is_there("root")).then_some(number)
    })
}
