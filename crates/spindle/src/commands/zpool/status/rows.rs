//! Rows of vdevs, and what is the matter with a pool: what the status of each pool has, whoever tells of it.

use crate::commands::zfs::json;
use crate::commands::zpool::lacking::Lacking;
use crate::commands::zpool::reason::{PAGES, Reason};
use crate::commands::zpool::tree::{self, Devices, Naming};
use crate::printable;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use zfs::health::{Health, VdevHealth};
use zfs::show;
use zfs_format::vdev::VdevKind;
use zfs_store::alloc::Class;

/// How a status is written.
pub(super) struct Form<'a> {
    pub(super) naming: Naming,
    pub(super) verbose: bool,
    pub(super) width: usize,
    pub(super) literal: bool,
    pub(super) numbers: bool,
    pub(super) clock: show::Clock<'a>,
}

pub(super) fn troubles_json(object: &mut Map<String, Value>, reason: Reason) {
    if let Some((status, action)) = reason.of_open() {
        object.insert("status".to_owned(), status.into());
        object.insert("action".to_owned(), action.into());
    }
    if let Some(page) = reason.page() {
        object.insert("msgid".to_owned(), page.into());
        object.insert("moreinfo".to_owned(), format!("{PAGES}/{page}").into());
    }
}

/// The head of the rows of vdevs.
pub(super) fn head(out: &mut String, form: &Form<'_>) {
    let width = form.width;
    let _ = write!(
        out,
        "config:\n\n\t{:<width$}  {:<8} {:>5} {:>5} {:>5}\n",
        "NAME", "STATE", "READ", "WRITE", "CKSUM"
    );
}

/// What rows of vdevs say besides how they are.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) devices: &'a Devices,
    pub(super) errors: &'a BTreeMap<u64, [u64; 3]>,
    pub(super) lacking: &'a Lacking,
}

/// A vdev and what is below it; the root by the name of its `pool`.
pub(super) fn vdev(
    out: &mut String,
    rows: Rows<'_>,
    node: &VdevHealth,
    pool: Option<&str>,
    depth: usize,
    form: &Form<'_>,
) {
    if matches!(node.vdev.kind, VdevKind::Indirect(_)) {
        return;
    }
    let name = match pool {
        Some(pool) => printable::word(pool).into_owned(),
        None => tree::shown(&node.vdev, node.children.len(), rows.devices, form.naming),
    };
    let (width, state) = (form.width.saturating_sub(depth), node.health.name());
    let errors = rows.errors.get(&node.vdev.guid).copied().unwrap_or_default();
    let [read, write, checksum] = errors.map(|errors| match form.literal {
        true => errors.to_string(),
        false => show::count(errors),
    });
    let _ =
        write!(out, "\t{:depth$}{name:<width$}  {state:<8} {read:>5} {write:>5} {checksum:>5}", "");
    let is_gone = node.vdev.is_leaf() && node.health == Health::Unavailable && !node.is_short();
    match (&node.vdev.path, node.cause) {
        (Some(path), _) if is_gone => {
            let _ = write!(out, "  was {}", printable::bytes(path.as_bytes()));
        }
        (_, Some(cause)) => {
            let _ = write!(out, "  {}", cause.text());
        }
        _ => {}
    }
    if let Some(note) = rows.lacking.note(node) {
        let _ = write!(out, "  {note}");
    }
    let says = |name| node.vdev.other_number(name) == Some(1);
    if says("removing") {
        out.push_str("  (removing)");
    } else if says("non_allocating") {
        out.push_str("  (non-allocating)");
    }
    out.push('\n');
    let is_root = pool.is_some();
    for child in &node.children {
        let apart = is_root && Class::of(&child.vdev) != Class::Normal;
        if !apart && !matches!(child.vdev.kind, VdevKind::Hole | VdevKind::Missing) {
            vdev(out, rows, child, None, depth + 2, form);
        }
    }
}

pub(super) fn count(number: u64, form: &Form<'_>) -> Value {
    let text = if form.literal { number.to_string() } else { show::count(number) };
    json::value(&text, form.numbers)
}
