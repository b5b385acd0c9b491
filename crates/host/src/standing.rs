//! Who stands in a directory: a process whose working directory, or whose root, it is or lies below; and who has a file open there.
//!
//! The kernel keeps a mount as long as one does, and a server of files isn't told: to it such a directory isn't open. Links of `/proc` are
//! read without asking who serves what they lead to, so a process may look for what it serves itself. Whose links may not be read is
//! passed over.

use std::path::Path;

/// A process that stands there; `directory` is a whole path, without links.
pub fn standing_in(directory: &Path) -> Option<u32> {
    first(|process| stands_in(process, directory))
}

/// Another process that stands there or has a file open there; `directory` is a whole path, without links.
pub fn using(directory: &Path) -> Option<u32> {
    let own = std::process::id().to_string();
    first(|process| {
        let is_other = !process.ends_with(&own);
        is_other && (stands_in(process, directory) || has_open_in(process, directory))
    })
}

/// The first process of which that is so, asked by its directory in `/proc`.
fn first(is_it: impl Fn(&Path) -> bool) -> Option<u32> {
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        is_it(&process.path()).then_some(number)
    })
}

fn leads_into(link: &Path, directory: &Path) -> bool {
    std::fs::read_link(link).is_ok_and(|path| path.starts_with(directory))
}

fn stands_in(process: &Path, directory: &Path) -> bool {
    ["cwd", "root"].iter().any(|link| leads_into(&process.join(link), directory))
}

fn has_open_in(process: &Path, directory: &Path) -> bool {
    let open = std::fs::read_dir(process.join("fd")).into_iter().flatten();
    open.flatten().any(|link| leads_into(&link.path(), directory))
}
