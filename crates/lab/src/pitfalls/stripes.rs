//! How a stream of writes comes to whole stripes: what is told of partial ones.
//!
//! What it does not do: find them ([`super::find`] does).

use super::surroundings::{Stripe, WriteBack};
use crate::duration;
use crate::study::{BLOCK_SIZE_MAX, STREAM_DEPTH_DEFAULT};
use std::time::Duration;
use stdx::ByteCount;

/// How often a stream's writes that are under way must go round all sets for none to wait: where the first and the last
/// of them have a part of a stripe each, there is a whole one on each set between.
const ROUNDS_UNDER_WAY: u64 = 2;
/// So long at the most a set waits for the rest of a stripe of which a stream has brought a part (Linux' md no longer).
const STRIPE_WAITS: Duration = Duration::from_millis(10);
/// The smallest block that is advised for it.
const BLOCK_ADVISED_MIN: u64 = 4096;
/// How many of the batches that a write-back takes at once should be dirty when it begins.
const WRITE_BACKS_ENOUGH: u64 = 2;
/// I/Os of a stream that Linux' write-back has under way at the least, of the default size.
const DEPTH_OF_WRITE_BACK: u64 = STREAM_DEPTH_DEFAULT as u64;

/// How the I/Os of a stream come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamPace {
    /// How many are under way.
    pub under_way: u64,
    /// How long after one the next one comes.
    pub apart: Duration,
    /// Whether the link carries all that it can, so that more under way don't come sooner.
    pub link_is_full: bool,
}

impl StreamPace {
    /// Whether a set does not wait until the next one is there, however many are under way.
    fn is_too_slow(&self) -> bool {
        self.link_is_full && self.apart > STRIPE_WAITS
    }
}

/// How what a page cache writes back comes to whole stripes.
pub(super) fn mend_written_back(write_back: WriteBack, stripe: Stripe) -> String {
    let WriteBack { cache, begins_at, takes } = write_back;
    let mut ways = Vec::from_iter(whole_stripes_dealt_out(stripe));
    ways.push(if write_back.is_short() {
        let enough = cache.bytes() as f64 * takes.bytes() as f64 / begins_at.bytes().max(1) as f64;
        let mib = (enough / ByteCount::mib(1).bytes() as f64).round() as u64;
        let enough = ByteCount::mib(mib * WRITE_BACKS_ENOUGH);
        format!(
            "give the page cache more memory (page_cache = {enough} and more): write-back begins at {begins_at}, less than \
             the {takes} that it takes at once, so that nothing follows the part of a stripe with which it ends"
        )
    } else {
        "choose a smaller chunk, or a file system that writes longer runs".to_owned()
    });
    format!("{}: the order of layouts may turn", ways.join(", or "))
}

/// What mends a set of sets that deals out parts of stripes.
fn whole_stripes_dealt_out(stripe: Stripe) -> Option<String> {
    let Stripe { of_set, of_volume, .. } = stripe;
    (of_volume != of_set).then(|| {
        format!("let the set of sets deal out whole stripes (chunk = a multiple of {of_set})")
    })
}

/// How a stream whose writes are so large comes to whole stripes. A tool has no depth, and blocks of its own. Told is only what would
/// change something.
pub(super) fn mend_stripes(
    io: ByteCount,
    stripe: Stripe,
    is_of_tool: bool,
    pace: Option<StreamPace>,
) -> String {
    let Stripe { of_volume, round, .. } = stripe;
    let depth_of = |block: u64| {
        let under_way = round * ROUNDS_UNDER_WAY;
        under_way.bytes().div_ceil(block.max(1)).max(DEPTH_OF_WRITE_BACK)
    };
    let depth = depth_of(io.bytes());
    let mut ways = Vec::from_iter(whole_stripes_dealt_out(stripe));
    if is_of_tool {
        ways.push(format!(
            "write through the page cache, or blocks of whole stripes (a multiple of {of_volume})"
        ));
        return format!("{}: the order of layouts may turn", ways.join(", or "));
    }
    let too_slow = pace.filter(StreamPace::is_too_slow);
    if too_slow.is_none() && pace.is_none_or(|pace| pace.under_way < depth) {
        ways.push(format!(
            "have more under way, as a file system's write-back has (queue_depth = {depth} and more)"
        ));
    }
    if of_volume <= BLOCK_SIZE_MAX {
        ways.push(format!("write whole stripes (block_size = a multiple of {of_volume})"));
    }
    if let Some(pace) = too_slow {
        // Twice as often as needed: they don't come evenly.
        let share = STRIPE_WAITS.as_secs_f64() / 2.0 / pace.apart.as_secs_f64();
        let block = ((io.bytes() as f64 * share) as u64 + 1).next_power_of_two() / 2;
        if block >= BLOCK_ADVISED_MIN {
            ways.push(format!(
                "write smaller blocks (block_size = {}, queue_depth = {})",
                ByteCount(block),
                depth_of(block)
            ));
        }
    }
    if ways.is_empty() {
        ways.push("choose a smaller chunk".to_owned());
    }
    let why = too_slow.map_or_else(String::new, |pace| {
        format!(
            " (more under way changes nothing: the link is full, over it writes of a stream come {} apart, and a set waits no \
             longer than {} for the rest of a stripe)",
            duration::text(pace.apart.as_secs_f64()),
            duration::text(STRIPE_WAITS.as_secs_f64())
        )
    });
    format!("{}{why}: the order of layouts may turn", ways.join(", or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many more under way as fill stripes; and where a set of sets deals out parts of them, that comes first.
    #[test]
    fn the_mend_of_partial_stripes_is_one_that_can_be_followed() {
        let stripe = |of_set: u64, of_volume: u64, round: u64| {
            let [of_set, of_volume, round] = [of_set, of_volume, round].map(ByteCount::kib);
            Stripe { of_set, of_volume, round }
        };
        let paced = |io: u64, stripe, pace| mend_stripes(ByteCount::kib(io), stripe, false, pace);
        let mend = |io: u64, stripe: Stripe| paced(io, stripe, None);
        let short = mend(128, stripe(3584, 3584, 3584));
        assert!(short.contains("queue_depth = 56 and more") && !short.contains("chunk"), "{short}");
        assert!(mend(4096, stripe(448, 448, 448)).contains("queue_depth = 4 and more"));
        let nested = mend(128, stripe(128, 256, 256));
        assert!(
            nested.starts_with(
                "let the set of sets deal out whole stripes (chunk = a multiple of 128 KiB)"
            ),
            "{nested}"
        );
        assert!(nested.contains("block_size = a multiple of 256 KiB"), "{nested}");
        // No block is so large.
        let long = mend(128, stripe(65_000, 130_000, 130_000));
        assert!(!long.contains("block_size"), "{long}");
        // What is there already is not advised, nor more under way where a slow link brings them, however many there are.
        let pace = |under_way, link_is_full| {
            let apart = Duration::from_micros(11_800);
            Some(StreamPace { under_way, apart, link_is_full })
        };
        let six = stripe(384, 384, 384);
        assert!(paced(1024, six, pace(2, false)).contains("queue_depth = 4 and more"));
        let deep = paced(1024, six, pace(4, false));
        assert!(
            deep.starts_with("write whole stripes (block_size = a multiple of 384 KiB)"),
            "{deep}"
        );
        assert!(!deep.contains("queue_depth"), "{deep}");
        let slow = paced(1024, six, pace(2, true));
        assert!(!slow.contains("have more under way"), "{slow}");
        assert!(slow.contains("block_size = 256 KiB, queue_depth = 4"), "{slow}");
        assert!(slow.contains("the link is full, over it writes of a stream come 11.8 ms apart"));
        let only = paced(128, stripe(65_000, 130_000, 65_000), pace(9999, false));
        assert!(only.starts_with("let the set of sets"), "{only}");
        let only = paced(128, stripe(130_000, 130_000, 130_000), pace(9999, false));
        assert!(only.starts_with("choose a smaller chunk: "), "{only}");
    }
}
