//! The profile of a controller: a plain host bus adapter (no cache, no parity) or a RAID controller,
//! and the firmwares that it can have.
//!
//! A firmware is a table `[firmware.NAME]` at the end of the file, with a title and those numbers that
//! are otherwise than above, each with its provenance. Without a firmware named, the numbers above
//! hold.
//!
//! ```toml
//! [firmware.newer]
//! title = "With a media scan"
//! background_service_mb_s = { value = 5.0, derived = "3 TB a week" }
//! background_service_kb = { value = 512, guessed = "a long read of the class" }
//! ```

use super::given::{Entry, Field, Flaw, Given, profile};
use serde::Deserialize;
use std::collections::BTreeMap;
use stdx::{ByteCount, Duration};

profile! {
    /// A host bus adapter or a RAID controller.
    ControllerProfile {
        /// Time for which one command occupies the controller's processor.
        command_overhead_us: Given<f64>,
        /// All data that passes it, both ways together (10⁶ B/s).
        throughput_mb_s: Given<f64>,
        /// Cache memory (2²⁰ B); 0 for none.
        cache_mb: Given<f64>,
        /// Whether the cache keeps writes through a power cut; without it, writes go through.
        battery_backed: Given<bool>,
        /// How far it reads ahead of a sequential stream (2¹⁰ B).
        read_ahead_kb: Given<u64>,
        /// Share of the cache, in percent, above which it writes back at full speed.
        destage_percent: Given<f64>,
        /// Largest write-back in one piece (2¹⁰ B).
        destage_kb: Given<u64>,
        /// Writes back that are under way at once.
        destage_depth: Given<u64>,
        /// Data that its XOR engine takes for P (10⁶ B/s); 0 where the host does the parity.
        parity_p_mb_s: Given<f64>,
        /// Likewise for P and Q.
        parity_pq_mb_s: Given<f64>,
        /// What all drives together exchange with the controller, both ways together (10⁶ B/s); only their own
        /// interfaces limit it without.
        back_end_mb_s: Option<Given<f64>>,
        /// LUNs that one controller shows its hosts; any number without.
        luns: Option<Given<u64>>,
        /// What initialising, cloning and rebuilding take of a member at a time, one after another without
        /// overlap (2¹⁰ B); steps overlap so that members stream, without.
        lock_step_kb: Option<Given<u64>>,
        /// The firmware's own time (ms) whenever such a step turns to the disks, to read or to write; none
        /// without.
        lock_step_ms: Option<Given<f64>>,
        /// The first share of a member, in percent, that a rebuild goes over twice.
        rebuild_twice_percent: Option<Given<f64>>,
        /// What a data service of the controller's own (a media scan) reads of each drive while the
        /// drive is at work (10⁶ B/s); there is none without.
        background_service_mb_s: Option<Given<f64>>,
        /// Length of each of its reads (2¹⁰ B).
        background_service_kb: Option<Given<u64>>,
        /// The firmwares that a study may name.
        #[serde(default)]
        firmware: BTreeMap<String, Firmware>,
    }
}

macro_rules! firmware {
    ($($(#[$doc:meta])* $field:ident: $type:ty, $into:expr;)*) => {
        /// A firmware: what is otherwise with it. Its format stands at the top of this file.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Firmware {
            /// What it is, for people.
            pub title: String,
            $($(#[$doc])* pub $field: Option<Given<$type>>,)*
        }

        impl Firmware {
            /// Every value with its provenance.
            pub fn entries(&self) -> Vec<Entry> {
                [$(self.$field.entry(stringify!($field)),)*].into_iter().flatten().collect()
            }

            fn put_into(&self, profile: &mut ControllerProfile) {
                $(if let Some(given) = &self.$field {
                    profile.$field = $into(given.clone());
                })*
            }
        }
    };
}

firmware! {
    /// As [`ControllerProfile::command_overhead_us`].
    command_overhead_us: f64, std::convert::identity;
    /// As [`ControllerProfile::throughput_mb_s`].
    throughput_mb_s: f64, std::convert::identity;
    /// As [`ControllerProfile::read_ahead_kb`].
    read_ahead_kb: u64, std::convert::identity;
    /// As [`ControllerProfile::destage_percent`].
    destage_percent: f64, std::convert::identity;
    /// As [`ControllerProfile::destage_kb`].
    destage_kb: u64, std::convert::identity;
    /// As [`ControllerProfile::destage_depth`].
    destage_depth: u64, std::convert::identity;
    /// As [`ControllerProfile::parity_p_mb_s`].
    parity_p_mb_s: f64, std::convert::identity;
    /// As [`ControllerProfile::parity_pq_mb_s`].
    parity_pq_mb_s: f64, std::convert::identity;
    /// As [`ControllerProfile::back_end_mb_s`].
    back_end_mb_s: f64, Some;
    /// As [`ControllerProfile::lock_step_kb`].
    lock_step_kb: u64, Some;
    /// As [`ControllerProfile::lock_step_ms`].
    lock_step_ms: f64, Some;
    /// As [`ControllerProfile::rebuild_twice_percent`].
    rebuild_twice_percent: f64, Some;
    /// As [`ControllerProfile::background_service_mb_s`].
    background_service_mb_s: f64, Some;
    /// As [`ControllerProfile::background_service_kb`].
    background_service_kb: u64, Some;
}

/// Firmwares are shown apart from the numbers that hold without one.
impl Field for BTreeMap<String, Firmware> {
    fn entry(&self, _: &'static str) -> Option<Entry> {
        None
    }
}

/// How a controller goes over its members when it initialises, clones or rebuilds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationHabits {
    /// One step after another; overlapping steps that let members stream, without.
    pub lock_step: Option<LockStep>,
    /// The first share of a member, 0 to 1, that a rebuild goes over twice.
    pub rebuild_twice: f64,
}

/// Steps that wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockStep {
    /// Of each member.
    pub step: ByteCount,
    /// The firmware's own time whenever one turns to the disks, to read or to write.
    pub pause: Duration,
}

/// What the background service of a controller does to each drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceRate {
    /// 10⁶ B/s of each drive.
    pub mb_s: f64,
    /// Bytes of one read.
    pub read_bytes: u64,
}

/// The length of the service's reads where the profile gives none (2¹⁰ B).
const SERVICE_READ_KB_DEFAULT: u64 = 512;

impl ControllerProfile {
    /// The profile with this firmware; `None` where there is none of this name.
    pub fn with_firmware(&self, name: &str) -> Option<ControllerProfile> {
        let firmware = self.firmware.get(name)?;
        let mut profile = self.clone();
        firmware.put_into(&mut profile);
        Some(profile)
    }

    /// Its background service, if it has one.
    pub fn service(&self) -> Option<ServiceRate> {
        let rate = self.background_service_mb_s.as_ref().filter(|rate| rate.value > 0.0)?;
        let kb = self.background_service_kb.as_ref().map_or(SERVICE_READ_KB_DEFAULT, |kb| kb.value);
        Some(ServiceRate { mb_s: rate.value, read_bytes: kb * 1024 })
    }

    /// How it initialises, clones and rebuilds.
    pub fn operations(&self) -> OperationHabits {
        let pause = self.lock_step_ms.as_ref().map_or(0.0, |ms| ms.value);
        OperationHabits {
            lock_step: self.lock_step_kb.as_ref().map(|kb| LockStep {
                step: ByteCount::kib(kb.value),
                pause: Duration::from_nanos((pause * 1e6) as u64),
            }),
            rebuild_twice: self.rebuild_twice_percent.as_ref().map_or(0.0, |p| p.value / 100.0),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Flaw> {
        self.check_numbers()?;
        for firmware in self.firmware.values() {
            for Entry { key, number, .. } in firmware.entries() {
                let sane = number.is_none_or(|n| n == 0.0 || (1e-3..=1e15).contains(&n));
                Flaw::unless(sane, key, "write 0, or a number from 0.001 to 1e15")?;
            }
            let mut with = self.clone();
            firmware.put_into(&mut with);
            with.check_numbers()?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), Flaw> {
        let throughput = self.throughput_mb_s.value > 0.0;
        Flaw::unless(throughput, "throughput_mb_s", "must be more than 0")?;
        let percent = (0.0..=90.0).contains(&self.destage_percent.value);
        Flaw::unless(percent, "destage_percent", "write a share from 0 to 90")?;
        Flaw::unless(self.destage_kb.value >= 4, "destage_kb", "must be 4 at least")?;
        Flaw::unless(self.destage_depth.value > 0, "destage_depth", "must be more than 0")?;
        let read =
            self.background_service_kb.as_ref().map_or(SERVICE_READ_KB_DEFAULT, |kb| kb.value);
        let read = read >= 4 && read.is_multiple_of(4) && read <= 64 << 10;
        let mend = "write a multiple of 4, up to 65536";
        Flaw::unless(read, "background_service_kb", mend)?;
        let back_end = self.back_end_mb_s.as_ref().is_none_or(|rate| rate.value > 0.0);
        Flaw::unless(back_end, "back_end_mb_s", "must be more than 0")?;
        let luns = self.luns.as_ref().is_none_or(|luns| luns.value > 0);
        Flaw::unless(luns, "luns", "must be more than 0")?;
        let step = |kb: u64| kb >= 4 && kb.is_multiple_of(4) && kb <= 64 << 10;
        let step = self.lock_step_kb.as_ref().is_none_or(|kb| step(kb.value));
        Flaw::unless(step, "lock_step_kb", "write a multiple of 4, up to 65536")?;
        let pause = self.lock_step_ms.as_ref().is_none_or(|ms| (0.0..=1e4).contains(&ms.value));
        Flaw::unless(pause, "lock_step_ms", "write 0, or up to 10000")?;
        let percent = |given: &Given<f64>| (0.0..=100.0).contains(&given.value);
        let twice = self.rebuild_twice_percent.as_ref().is_none_or(percent);
        Flaw::unless(twice, "rebuild_twice_percent", "write a share from 0 to 100")
    }

    /// The firmwares as text, as [`Profile::show`](super::Profile::show) gives the rest.
    pub(crate) fn show_firmwares(&self) -> String {
        let mut text = String::new();
        for (name, firmware) in &self.firmware {
            text.push_str(&format!("  firmware {name}: {}\n", firmware.title));
            for Entry { key, value, origin, .. } in firmware.entries() {
                text.push_str(&format!("    {key}  {value}  {origin}\n"));
            }
        }
        text
    }
}
