//! What a disk's electronics take for a command, beside moving data.
//!
//! A data sheet gives one figure, if any: then it is the time before every command, whatever it is. Measured disks differ by
//! what the command turns out to be, and by what the command before was: a read that the buffer holds, one that needs the
//! mechanism, a write that is answered from the buffer, one that is answered from the medium. On a parallel bus there are also
//! times for leaving the bus while the mechanism works, and for coming back.

use crate::profile::{DiskProfile, Given};
use stdx::Duration;

/// A time after a read, and after a write.
#[derive(Clone, Copy, Debug)]
pub struct AfterReadOrWrite([Duration; 2]);

impl AfterReadOrWrite {
    /// The time; `write` is whether the command before was one.
    pub fn of(&self, write: bool) -> Duration {
        self.0[usize::from(write)]
    }
}

/// A write that leaves the bus before its data, too.
#[derive(Clone, Copy, Debug)]
pub struct ExtraDisconnect {
    /// Before it leaves.
    pub command: Duration,
    /// For leaving.
    pub disconnect: Duration,
    /// Until it comes back.
    pub pause: Duration,
    /// For leaving again, with its data.
    pub second_disconnect: Duration,
    /// From the command to the start of the arm.
    pub seek_delay: Duration,
}

/// All of a disk's.
#[derive(Clone, Copy, Debug)]
pub struct Overheads {
    /// A command of which nothing more is said.
    pub command: Duration,
    /// A read that the buffer holds.
    pub read_hit: AfterReadOrWrite,
    /// A read that needs the mechanism.
    pub read_miss: AfterReadOrWrite,
    /// A write that is answered from the buffer.
    pub write_hit: AfterReadOrWrite,
    /// A write that is answered from the medium.
    pub write_miss: AfterReadOrWrite,
    /// For leaving the bus with a read.
    pub read_disconnect: AfterReadOrWrite,
    /// For leaving the bus with a write's data.
    pub write_disconnect: Duration,
    /// For the answer to a read.
    pub read_completion: Duration,
    /// For the answer to a write.
    pub write_completion: Duration,
    /// Before data goes over the bus.
    pub preparation: Duration,
    /// For coming back to the bus.
    pub reselect: Duration,
    /// For coming back once more.
    pub reselect_again: Duration,
    /// How a write after a write elsewhere is different, if it is.
    pub extra: Option<ExtraDisconnect>,
    /// The least time that the arm takes before a write.
    pub minimum_write_seek: Duration,
}

fn us(given: &Option<Given<f64>>, otherwise: f64) -> f64 {
    given.as_ref().map_or(otherwise, |given| given.value)
}

fn duration(us: f64) -> Duration {
    Duration::from_nanos((us * 1e3) as u64)
}

impl Overheads {
    /// Those that a profile gives.
    pub fn new(profile: &DiskProfile) -> Overheads {
        let command = profile.command_overhead_us.value;
        let pair = |read: &Option<Given<f64>>, write: &Option<Given<f64>>, otherwise| {
            let after_read = us(read, otherwise);
            AfterReadOrWrite([duration(after_read), duration(us(write, after_read))])
        };
        let or_none = |given| duration(us(given, 0.0));
        let extra = profile.extra_write_disconnect.as_ref().is_some_and(|given| given.value);
        Overheads {
            command: duration(command),
            read_hit: pair(&profile.read_hit_us, &profile.read_hit_after_write_us, command),
            read_miss: pair(&profile.read_miss_us, &profile.read_miss_after_write_us, command),
            write_hit: pair(&profile.write_hit_us, &profile.write_hit_after_write_us, command),
            write_miss: pair(&profile.write_miss_us, &profile.write_miss_after_write_us, command),
            read_disconnect: pair(
                &profile.read_disconnect_us,
                &profile.read_disconnect_after_write_us,
                0.0,
            ),
            write_disconnect: or_none(&profile.write_disconnect_us),
            read_completion: or_none(&profile.read_completion_us),
            write_completion: or_none(&profile.write_completion_us),
            preparation: or_none(&profile.data_preparation_us),
            reselect: or_none(&profile.reselect_us),
            reselect_again: or_none(&profile.reselect_again_us),
            extra: extra.then(|| ExtraDisconnect {
                command: duration(us(&profile.extra_command_us, command)),
                disconnect: or_none(&profile.extra_disconnect_us),
                pause: or_none(&profile.extra_pause_us),
                second_disconnect: or_none(&profile.extra_second_disconnect_us),
                seek_delay: or_none(&profile.extra_seek_delay_us),
            }),
            minimum_write_seek: or_none(&profile.minimum_write_seek_us),
        }
    }
}
