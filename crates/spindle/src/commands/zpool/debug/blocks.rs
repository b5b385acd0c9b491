//! `zpool debug blocks`: all blocks by type and level in `zdb`'s table, and whether space is leaked; `spacemap`.

use crate::output::{Failure, print};
use attach::pools::{PoolPlace, Pools};
use std::fmt::Write;
use std::rc::Rc;
use zfs::inspect::claims::{Claims, FaultKind};
use zfs::inspect::count::{BlockCount, Sum};
use zfs::inspect::obsolete::Miscounted;
use zfs::show;
use zfs::spa::Spa;

/// Problems that are printed; the rest is counted.
const TOLD_MAX: usize = 100;

/// What was counted.
struct Census {
    count: BlockCount,
    claims: Claims,
    miscounted: Vec<Miscounted>,
    problems: Vec<String>,
    problem_count: u64,
}

impl Census {
    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < TOLD_MAX {
            self.problems.push(text);
        }
    }
}

async fn take(spa: &Spa) -> Result<Census, zfs::ZfsError> {
    let (count, claims) = (BlockCount::default(), spa.claims().await?);
    let (miscounted, problems) = (Vec::new(), Vec::new());
    let mut census = Census { count, claims, miscounted, problems, problem_count: 0 };
    let mut walk = spa.walk();
    while let Some(met) = walk.next().await {
        match met {
            Err(error) => census.problem(error.to_string()),
            Ok(visited) => {
                census.count.add(&visited);
                if let Some(problem) = &visited.problem {
                    census.problem(problem.to_string());
                }
                if let Err(error) = census.claims.claim(spa, &visited).await {
                    census.problem(error.to_string());
                }
            }
        }
    }
    // Where blocks were not visited nobody knows what names removed vdevs.
    if census.problem_count == 0 {
        census.miscounted = spa.miscounted(&census.claims).await?;
    }
    Ok(census)
}

/// Numbers as they are, or short.
fn shown(number: u64, parsable: bool) -> String {
    if parsable { number.to_string() } else { show::count(number) }
}

fn ratio(of: u64, to: u64) -> f64 {
    if to == 0 { 1.0 } else { of as f64 / to as f64 }
}

fn write_line(out: &mut String, sum: &Sum, total: u64, name: &str, parsable: bool) {
    let short = |number| shown(number, parsable);
    let _ = writeln!(
        out,
        "{:>6}\t{:>5}\t{:>5}\t{:>5}\t{:>5}\t{:>5.2}\t{:>6.2}\t{name}",
        short(sum.blocks),
        short(sum.logical),
        short(sum.physical),
        short(sum.allocated),
        short(sum.allocated.checked_div(sum.blocks).unwrap_or(0)),
        ratio(sum.logical, sum.physical),
        100.0 * sum.allocated as f64 / total.max(1) as f64,
    );
}

fn as_text(census: &Census, parsable: bool) -> String {
    let Census { count, claims, .. } = census;
    let mut out = String::new();
    let total = count.total();
    let left: u64 = claims.left().map(|(_, left)| left.allocated()).sum();
    if left == 0 && claims.fault_count == 0 && census.problem_count == 0 {
        let _ = writeln!(out, "\tNo leaks (block sum matches space maps exactly)\n");
    }
    let average = |bytes: u64| bytes.checked_div(total.blocks).unwrap_or(0);
    let _ = writeln!(out, "\t{:<16} {:>14}", "bp count:", total.blocks);
    let _ = writeln!(out, "\t{:<16} {:>14}", "ganged count:", total.gangs);
    let (bytes, each) = (total.logical, average(total.logical));
    let _ = writeln!(out, "\t{:<16} {bytes:>14}      avg: {each:>6}", "bp logical:");
    for (name, bytes) in [("bp physical:", total.physical), ("bp allocated:", total.allocated)] {
        let (each, by) = (average(bytes), ratio(total.logical, bytes));
        let _ = writeln!(
            out,
            "\t{name:<16} {bytes:>14}      avg: {each:>6}     compression: {by:>6.2}"
        );
    }
    let by = ratio(claims.deduplicated, total.allocated) + 1.0;
    let (bytes, blocks) = (claims.deduplicated, claims.deduplicated_blocks);
    let by = if total.allocated == 0 { 1.0 } else { by };
    let _ = writeln!(
        out,
        "\t{:<16} {bytes:>14}    ref>1: {blocks:>6}   deduplication: {by:>6.2}",
        "bp deduped:"
    );
    let (bytes, blocks) = (claims.cloned, claims.cloned_blocks);
    let _ = writeln!(out, "\t{:<16} {bytes:>14}    count: {blocks:>6}", "bp cloned:");
    let _ = writeln!(out, "\t{:<16} {:>14}", "allocated:", claims.allocated());
    if claims.checkpoint > 0 {
        let _ = writeln!(out, "\t{:<16} {:>14}", "checkpoint:", claims.checkpoint);
    }
    let embedded = count.embedded;
    let _ = writeln!(out, "\n\tadditional, non-pointer bps of type 0: {embedded:>10}");
    let _ = writeln!(out, "\tDittoed blocks on same vdev: {}", count.dittos_on_one_vdev);
    let _ = writeln!(out, "\nBlocks\tLSIZE\tPSIZE\tASIZE\t  avg\t comp\t%Total\tType");
    for line in count.table() {
        match line.level {
            None if line.sum.allocated == 0 => {
                let (six, five) = (format!("{:>6}", "-"), format!("{:>5}", "-"));
                let fives = [five.as_str(); 5].join("\t");
                let _ = writeln!(out, "{six}\t{fives}\t{six}\t{}", line.name);
            }
            None => write_line(&mut out, &line.sum, total.allocated, &line.name, parsable),
            Some(level) => {
                let name = format!("    L{level} {}", line.name);
                write_line(&mut out, &line.sum, total.allocated, &name, parsable);
            }
        }
    }
    write_line(&mut out, &count.metadata(), total.allocated, "Metadata Total", parsable);
    for (vdev, left) in claims.left() {
        for range in left.iter().take(TOLD_MAX) {
            let len = range.end - range.start;
            let _ =
                writeln!(out, "leaked space: vdev {vdev}, offset {:#x}, size {len}", range.start);
        }
    }
    for fault in claims.faults.iter().take(TOLD_MAX) {
        let what = match fault.kind {
            FaultKind::Map => "the space map contradicts itself",
            FaultKind::NotAllocated => "a block lies where nothing is allocated",
            FaultKind::Twice => "two blocks lie there",
            FaultKind::NoLog => "a log of space maps that its metaslab waits for is not there",
        };
        let by = fault.claimed_by.map_or(String::new(), |at| format!(" ({at})"));
        let (vdev, offset, len) = (fault.vdev, fault.offset, fault.len);
        let _ = writeln!(out, "vdev {vdev}, offset {offset:#x}, size {len}: {what}{by}");
    }
    for one in census.miscounted.iter().take(TOLD_MAX) {
        let Miscounted { vdev, entry, counted, unnamed } = one;
        let len = entry.end - entry.start;
        let _ = writeln!(
            out,
            "removed vdev {vdev}, offset {:#x}, size {len}: {counted} bytes are counted as obsolete, and {unnamed} are",
            entry.start
        );
    }
    for problem in &census.problems {
        let _ = writeln!(out, "not visited: {problem}");
    }
    out
}

pub fn run(name: &str, parsable: bool, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let spa = pools.open(name)?;
    let pool = Rc::clone(&spa);
    let census = pools.wait(async move { take(&pool).await });
    let census = census.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    print(&as_text(&census, parsable))?;
    let left: u64 = census.claims.left().map(|(_, left)| left.allocated()).sum();
    match (census.problem_count, census.claims.fault_count, left) {
        (0, 0, 0) if census.miscounted.is_empty() => Ok(()),
        (0, 0, 0) => Err(Failure::failed(format!(
            "pool '{name}': what of removed vdevs is obsolete is counted wrongly"
        ))),
        (0, 0, left) => Err(Failure::failed(format!("pool '{name}': {left} bytes are leaked"))),
        (problems, faults, _) => Err(Failure::failed(format!(
            "pool '{name}': {problems} blocks can't be visited, {faults} have no space of their own"
        ))),
    }
}

pub fn spacemap(name: &str, verbose: bool, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let spa = pools.open(name)?;
    let pool = Rc::clone(&spa);
    let claims = pools.wait(async move { pool.claims().await });
    let claims = claims.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    let mut out = String::new();
    for (vdev, stretches) in claims.left() {
        let (bytes, many) = (stretches.allocated(), stretches.iter().count());
        let _ = writeln!(out, "vdev {vdev}: {bytes} bytes allocated in {many} stretches");
        if verbose {
            for range in stretches.iter() {
                let len = range.end - range.start;
                let _ = writeln!(out, "    {:#014x} to {:#014x}  {len}", range.start, range.end);
            }
        }
    }
    if claims.checkpoint > 0 {
        let _ = writeln!(out, "held by a checkpoint alone: {} bytes", claims.checkpoint);
    }
    print(&out)
}
