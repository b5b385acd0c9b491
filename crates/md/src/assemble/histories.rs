//! Members that count as many events, and are of different histories.
//!
//! md writes the superblocks of a set in passes, each with one event more and, to all members, one update time. Two copies of a set that were
//! used apart may count as many events when they are stopped; only the times differ then. Members of both put together look whole and clean,
//! and their content is that of neither.
//!
//! Seconds are compared: what else a superblock has of the time is not the pass's.
//!
//! Source: Linux `drivers/md/md.c` (`md_update_sb` takes the time once, `super_1_sync` and `super_90_sync` write it).

use super::choice::Choice;
use super::found::Found;
use std::collections::BTreeMap;
use std::fmt;

/// Members that were written last at another time than most, though with as many events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histories {
    /// They.
    pub odd: Vec<String>,
    /// Those that most were written together with; of equally many, the latest.
    pub most: Vec<String>,
    /// So many seconds lie between the times, at the most.
    pub seconds: u64,
}

impl fmt::Display for Histories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (was, counts) = match self.odd.len() {
            1 => ("was", "it counts"),
            _ => ("were", "they count"),
        };
        write!(
            f,
            "{} {was} written last at another time than {} ({} s lie between), though {counts} as many events: copies of the set were used apart, \
             and what is read of both together is of neither: name the devices of one alone, with -d {}",
            self.odd.join(", "),
            self.most.join(", "),
            self.seconds,
            self.most.join(" -d ")
        )
    }
}

impl Choice {
    /// Members of different histories; nothing where all that count as many events as the freshest were written with it.
    pub fn histories(&self) -> Option<Histories> {
        let mut sides: BTreeMap<u64, Vec<&Found>> = BTreeMap::new();
        let equals = self.slots.iter().flatten();
        for found in equals.filter(|found| found.superblock.events() == self.facts.events()) {
            sides.entry(found.superblock.updated_s()).or_default().push(found);
        }
        let most = sides.iter().max_by_key(|(time, found)| (found.len(), **time));
        let time = *most?.0;
        let names = |found: &[&Found]| found.iter().map(|one| one.name()).collect::<Vec<_>>();
        let most = names(&sides.remove(&time)?);
        let seconds = sides.keys().map(|other| other.abs_diff(time)).max()?;
        let odd = sides.values().flat_map(|found| names(found)).collect();
        Some(Histories { odd, most, seconds })
    }
}
