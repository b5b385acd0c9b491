//! `zpool iostat`: what pools and their devices are asked for, by the second.
//!
//! ```text
//!               capacity     operations     bandwidth
//! pool        alloc   free   read  write   read  write
//! ----------  -----  -----  -----  -----  -----  -----
//! tank        1.21G  7.29G     12    340  96.0K  41.2M
//! ```
//!
//! Who holds a pool counts what its devices are asked for, and is asked for that. The first report is of the time since then, as
//! OpenZFS's is of the time since the start; each further one of the time since the one before. Of a pool that nobody holds
//! nothing is asked. Vdevs that are made of others have the sums of these.
//!
//! What it doesn't print: latencies, queues and histograms (`-l`, `-q`, `-w`, `-r`), scripts (`-c`), the time (`-T`, which
//! stands for a transaction group here).
//!
//! Source: OpenZFS 2.3, `zpool_main.c` (`zpool_do_iostat`), `zpool-iostat(8)`.

use super::list::auxiliary;
use super::opened::{All, Opened, no_pool};
use super::repeated::Wanted;
use super::tree::{self, CLASSES, Naming};
use crate::events::events_of_a_change;
use crate::output::{Failure, print};
use attach::pools::running::client;
use attach::pools::running::protocol::{Ask, Counts, LeafCounts};
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use std::collections::BTreeMap;
use zfs::health::VdevHealth;
use zfs::show;

/// The names' column is at least so wide.
const NAME_MIN: usize = 10;
/// Every column of numbers is.
const NUMBER: usize = 5;
/// Its columns.
const COLUMNS: [&str; 6] = ["alloc", "free", "read", "write", "read", "write"];
/// Reports after which the heads are printed again.
const HEADS_EVERY: u64 = 20;
const NANOSECONDS: u128 = 1_000_000_000;

#[derive(Args)]
pub struct IostatArgs {
    /// With vdevs
    #[arg(short = 'v')]
    verbose: bool,
    /// Leave out the first report, which is of the time since the pool is held
    #[arg(short = 'y')]
    skip_first: bool,
    /// For scripts: no heads, columns divided by tabs
    #[arg(short = 'H')]
    scripted: bool,
    /// Numbers in full
    #[arg(short = 'p')]
    literal: bool,
    /// Heads only once
    #[arg(short = 'n')]
    heads_once: bool,
    /// Devices by their whole paths
    #[arg(short = 'P')]
    paths: bool,
    /// Vdevs by their GUIDs
    #[arg(short = 'g')]
    guids: bool,
    /// Pools, all where none are named; then seconds between reports, and how many
    #[arg(value_name = "POOL... [INTERVAL [COUNT]]")]
    words: Vec<String>,
}

/// What was asked for in a second.
#[derive(Clone, Copy, Default)]
struct Rates([u64; 4]);

impl Rates {
    fn add(self, other: Rates) -> Rates {
        Rates(std::array::from_fn(|n| self.0[n] + other.0[n]))
    }
}

/// What leaves were asked for between two looks.
fn rates(before: &Counts, now: &Counts) -> BTreeMap<u64, Rates> {
    let known: BTreeMap<u64, &LeafCounts> =
        before.leaves.iter().map(|leaf| (leaf.guid, leaf)).collect();
    // Who holds it now may be another than before: then it counts from its own beginning.
    let is_same = now.nanoseconds >= before.nanoseconds;
    let span = now.nanoseconds - if is_same { before.nanoseconds } else { 0 };
    let numbers =
        |leaf: &LeafCounts| [leaf.reads, leaf.writes, leaf.bytes_read, leaf.bytes_written];
    let of = |leaf: &LeafCounts| {
        let old = known.get(&leaf.guid).filter(|_| is_same).map_or([0; 4], |old| numbers(old));
        let new = numbers(leaf);
        let rate = |n: usize| {
            let more = u128::from(new[n].saturating_sub(old[n])) * NANOSECONDS;
            more.checked_div(u128::from(span)).unwrap_or(0) as u64
        };
        (leaf.guid, Rates(std::array::from_fn(rate)))
    };
    now.leaves.iter().map(of).collect()
}

/// Reports until all that was asked for is printed.
///
/// # Errors
/// With the line to print.
pub fn run(args: &IostatArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let wanted = Wanted::of(&args.words)?;
    // That somebody writes to a pool is what is looked at here.
    let (devices, options, events) = (place.devices, place.options, events_of_a_change());
    let (command, held, directory) = Default::default();
    let place = &PoolPlace { devices, options, events, command, held, directory };
    let mut before: BTreeMap<u64, Counts> = BTreeMap::new();
    let (mut looks, mut printed) = (0_u64, 0_u64);
    loop {
        let pools = Pools::find(place)?;
        let All { opened, failed, .. } = Opened::all(&pools, &wanted.pools, no_pool)?;
        if failed {
            return Err(Failure::said());
        }
        let mut reports = Vec::new();
        for one in &opened {
            let guid = one.spa.guid();
            let found = pools.found.iter().find(|found| found.guid == guid);
            let counts: Option<Counts> = match found {
                Some(found) => client::ask(&pools, found, Ask::Counts)?,
                None => None,
            };
            let counts = counts.unwrap_or_default();
            let since = before.insert(guid, counts.clone()).unwrap_or_default();
            reports.push((one, rates(&since, &counts)));
        }
        looks += 1;
        if looks > 1 || !args.skip_first || wanted.interval.is_none() {
            let heads = match args.heads_once {
                true => printed == 0,
                false => printed % HEADS_EVERY == 0,
            };
            print(&as_text(&reports, args, heads && !args.scripted))?;
            printed += 1;
        }
        let Some(interval) = wanted.interval.filter(|_| Some(printed) != wanted.reports) else {
            return Ok(());
        };
        let rt = pools.rt();
        pools.wait(async move { rt.sleep(interval).await });
    }
}

/// Where the lines of a report go.
struct Table<'a> {
    text: String,
    args: &'a IostatArgs,
    width: usize,
    naming: Naming,
}

impl Table<'_> {
    fn line(&mut self, depth: usize, name: &str, cells: &[String; 6]) {
        if self.args.scripted {
            self.text.push_str(&format!("{name}\t{}\n", cells.join("\t")));
            return;
        }
        let width = self.width.saturating_sub(depth);
        self.text.push_str(&format!("{:depth$}{name:<width$}", ""));
        for cell in cells {
            self.text.push_str(&format!("  {cell:>NUMBER$}"));
        }
        self.text.push('\n');
    }

    fn heads(&mut self) {
        let width = self.width;
        let between = format!("{:width$}    capacity     operations     bandwidth \n", "");
        self.text.push_str(&between);
        self.line(0, "pool", &COLUMNS.map(str::to_owned));
        self.rule();
    }

    fn rule(&mut self) {
        let dashes = "-".repeat(self.width);
        self.line(0, &dashes, &COLUMNS.map(|_| "-".repeat(NUMBER)));
    }

    fn number(&self, number: u64) -> String {
        if self.args.literal { number.to_string() } else { show::count(number) }
    }

    fn cells(&self, space: Option<(u64, u64)>, rates: Rates) -> [String; 6] {
        let none = || "-".to_owned();
        let (allocated, free) = match space {
            Some((allocated, free)) => (self.number(allocated), self.number(free)),
            None => (none(), none()),
        };
        let [reads, writes, bytes_read, bytes_written] = rates.0.map(|rate| self.number(rate));
        [allocated, free, reads, writes, bytes_read, bytes_written]
    }

    fn vdev(
        &mut self,
        one: &Opened,
        node: &VdevHealth,
        depth: usize,
        leaves: &BTreeMap<u64, Rates>,
    ) {
        let vdev = &node.vdev;
        let is_top = one.spa.vdevs().children.iter().any(|top| top.guid == vdev.guid);
        let space = one.view.space.vdevs.get(&vdev.id).filter(|_| is_top);
        let space =
            space.map(|space| (space.allocated, space.size.saturating_sub(space.allocated)));
        let name = tree::shown(vdev, node.children.len(), &one.devices, self.naming);
        let cells = self.cells(space, sum(node, leaves));
        self.line(depth, &name, &cells);
        for child in &node.children {
            self.vdev(one, child, depth + 2, leaves);
        }
    }

    fn class(&mut self, name: &str) {
        self.line(0, name, &COLUMNS.map(|_| "-".to_owned()));
    }
}

/// What a vdev was asked for: what its leaves were.
fn sum(node: &VdevHealth, leaves: &BTreeMap<u64, Rates>) -> Rates {
    let own = leaves.get(&node.vdev.guid).copied().unwrap_or_default();
    node.children.iter().fold(own, |all, child| all.add(sum(child, leaves)))
}

fn as_text(reports: &[(&Opened, BTreeMap<u64, Rates>)], args: &IostatArgs, heads: bool) -> String {
    let naming = Naming { paths: args.paths, guids: args.guids, missing_by_guid: true };
    let width = reports.iter().fold(NAME_MIN, |width, (one, _)| {
        let pool = Some(one.view.name.as_str());
        let own = match args.verbose {
            true => tree::width(&one.health, pool, 0, &one.devices, naming),
            false => crate::printable::word(&one.view.name).len(),
        };
        width.max(own)
    });
    let mut table = Table { text: String::new(), args, width, naming };
    if heads {
        table.heads();
    }
    for (one, leaves) in reports {
        let space = &one.view.space;
        let total = (space.allocated, space.size.saturating_sub(space.allocated));
        let cells = table.cells(Some(total), sum(&one.health, leaves));
        table.line(0, &crate::printable::word(&one.view.name), &cells);
        if !args.verbose {
            continue;
        }
        for top in tree::normal(&one.health) {
            table.vdev(one, top, 2, leaves);
        }
        for (class, name) in CLASSES {
            let tops = tree::of_class(&one.health, class);
            if !tops.is_empty() {
                table.class(name);
            }
            for top in tops {
                table.vdev(one, top, 2, leaves);
            }
        }
        if !one.state.cache.is_empty() {
            table.class("cache");
        }
        for device in &one.state.cache {
            table.vdev(one, &auxiliary(one, device), 2, leaves);
        }
        if !args.scripted {
            table.rule();
        }
    }
    if reports.len() > 1 && !args.verbose && !args.scripted {
        table.rule();
    }
    table.text
}

#[cfg(test)]
mod tests {
    //! What could break: rates over a change of who holds the pool, a division by no time.

    use super::*;

    #[test]
    fn rates_are_of_the_time_between() {
        let leaf = |reads, bytes_read| {
            vec![LeafCounts { guid: 7, reads, bytes_read, ..LeafCounts::default() }]
        };
        let first = Counts { nanoseconds: 2_000_000_000, leaves: leaf(10, 1000) };
        let then = Counts { nanoseconds: 4_500_000_000, leaves: leaf(35, 3500) };
        let of = |before: &Counts, now: &Counts| rates(before, now)[&7].0;
        assert_eq!(of(&Counts::default(), &first), [5, 0, 500, 0]);
        assert_eq!(of(&first, &then), [10, 0, 1000, 0]);
        assert_eq!(of(&then, &then), [0; 4]);
        assert_eq!(of(&then, &first), [5, 0, 500, 0], "another holds it");
        assert_eq!(of(&Counts::default(), &Counts { nanoseconds: 0, leaves: leaf(1, 1) }), [0; 4]);
    }
}
