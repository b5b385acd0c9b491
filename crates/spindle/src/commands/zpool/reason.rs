//! What is the matter with a pool: the first of some reasons that holds, with its words.
//!
//! The words of `status:` and `action:` are OpenZFS's, since people and scripts look for them. They are two sets: of a
//! pool that is open, and of one that could be imported. Lines after the first begin with a tab.
//!
//! Source: OpenZFS 2.3, `libzfs_status.c`, `zpool_main.c`.

use super::features::lacks_written;
use super::opened::Opened;
use crate::printable;
use attach::pools::running::protocol::Suspended;
use std::fmt::Write;
use zfs::health::{Cause, Health, VdevHealth};
use zfs::spa::PoolState;
use zfs_format::uberblock::VERSION_FEATURES;

/// Where OpenZFS's pages about troubles are.
pub const PAGES: &str = "https://openzfs.github.io/openzfs-docs/msg";

/// What can be the matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing.
    Fine,
    /// Its devices fail, and who writes waits, or is refused.
    Suspended(Suspended),
    /// A resilver is under way.
    Resilvering,
    /// A rebuild ended, and nothing was scrubbed since.
    RebuildScrub,
    /// Another host had it last, and did not export it.
    OtherHost,
    /// It is of a version that is not known.
    VersionNewer,
    /// It uses what is not known.
    Features,
    /// Top-level vdevs are missing.
    MissingTop,
    /// Devices lack what was written while they were away, and too many others are missing to stand in for it.
    Lost,
    /// Too many devices were found to be faulty.
    FaultedTooMany,
    /// Too many devices are missing.
    MissingTooMany,
    /// Its own data can't be read.
    Metadata,
    /// Data is known to be damaged.
    DataErrors,
    /// A device was found to be faulty.
    Faulted,
    /// A device is missing.
    Missing,
    /// Too many devices end before what the pool has on them.
    ShortTooMany,
    /// A device ends before what the pool has on it.
    Short,
    /// A device was taken offline.
    Offline,
    /// A device was pulled out.
    Removed,
    /// A device lacks what was written while it was away.
    Lacking,
    /// It is of an old version.
    VersionOlder,
    /// Features are not enabled.
    FeaturesDisabled,
}

fn leaf_is(root: &VdevHealth, health: Health) -> bool {
    // A spare that stands in for a device makes its loss no loss.
    root.any_leaf(&|leaf| leaf.health == health)
}

fn of_devices(root: &VdevHealth) -> Option<Reason> {
    let lost = root.health == Health::Unavailable;
    let short = root.any_leaf(&VdevHealth::is_short);
    let missing = root.any_leaf(&|leaf| leaf.health == Health::Unavailable && !leaf.is_short());
    Some(match () {
        () if leaf_is(root, Health::Faulted) && lost => Reason::FaultedTooMany,
        () if missing && lost => Reason::MissingTooMany,
        () if short && lost => Reason::ShortTooMany,
        () if leaf_is(root, Health::Faulted) => Reason::Faulted,
        () if missing => Reason::Missing,
        () if short => Reason::Short,
        () if leaf_is(root, Health::Offline) => Reason::Offline,
        () if leaf_is(root, Health::Removed) => Reason::Removed,
        () => return None,
    })
}

/// Whether a pool lacks features that it should have: with `compatibility` set to a list, what the list says is not
/// known here, so nothing is said.
fn lacks_features(compatibility: &str, lacks: bool) -> bool {
    lacks && compatibility == "off"
}

/// What is the matter with a pool that is open.
pub fn of_open(opened: &Opened) -> Reason {
    if let Some(why) = opened.suspended {
        return Reason::Suspended(why);
    }
    if !opened.lacking.lost(&opened.health).is_empty() {
        return Reason::Lost;
    }
    let state = &opened.state;
    let resilvering = state.scan.as_ref().is_some_and(|scan| (scan.function, scan.state) == (2, 1));
    if resilvering || state.rebuilds.iter().any(|(_, rebuild)| rebuild.state == 1) {
        return Reason::Resilvering;
    }
    let complete = state.rebuilds.iter().filter(|(_, rebuild)| rebuild.state == 3);
    if let Some(rebuilt) = complete.map(|(_, rebuild)| rebuild.end_time).max() {
        let scrubbed = state.scan.as_ref().filter(|scan| (scan.function, scan.state) == (1, 2));
        if scrubbed.is_none_or(|scan| rebuilt > scan.end_time) {
            return Reason::RebuildScrub;
        }
    }
    if state.errors != 0 {
        return Reason::DataErrors;
    }
    if let Some(reason) = of_devices(&opened.health) {
        return reason;
    }
    if opened.lacking.is_any(&opened.health) {
        return Reason::Lacking;
    }
    let version = opened.spa.uberblock().version;
    let property = zfs::inspect::property::PoolProperty::find("compatibility");
    let compatibility = property.map(|property| opened.view.get(property, true).0);
    let compatibility = compatibility.as_deref().unwrap_or("off");
    match version {
        VERSION_FEATURES if lacks_features(compatibility, lacks_written(&opened.view)) => {
            Reason::FeaturesDisabled
        }
        VERSION_FEATURES => Reason::Fine,
        _ if compatibility == "legacy" => Reason::Fine,
        _ => Reason::VersionOlder,
    }
}

/// What is known of a pool that could be imported.
pub struct Importable<'a> {
    /// How its vdevs are.
    pub health: &'a VdevHealth,
    /// Whether a device that is there lacks what was written while it was away.
    pub lacks_data: bool,
    /// Whether too few others are there to stand in for it.
    pub has_lost: bool,
    /// How it was left.
    pub state: PoolState,
    /// The number of the host that had it last, and this host's.
    pub hosts: (u64, u64),
    /// Its version.
    pub version: u64,
    /// Whether it lacks features; nothing where it could not be opened.
    pub lacks_features: Option<bool>,
    /// Its property.
    pub compatibility: &'a str,
    /// What keeps it from being opened, where that is not its devices.
    pub barred: Option<Reason>,
}

impl Importable<'_> {
    /// What is the matter with it.
    pub fn reason(&self) -> Reason {
        let (last, own) = self.hosts;
        if last != 0 && last != own && self.state == PoolState::Active {
            return Reason::OtherHost;
        }
        if let Some(reason) = self.barred.filter(|reason| *reason != Reason::Metadata) {
            return reason;
        }
        if self.health.cause == Some(Cause::MissingDevice) {
            return Reason::MissingTop;
        }
        if self.has_lost && self.health.health <= Health::Degraded {
            return Reason::Lost;
        }
        if let Some(reason) = of_devices(self.health) {
            return reason;
        }
        if let Some(reason) = self.barred {
            return reason;
        }
        if self.lacks_data {
            return Reason::Lacking;
        }
        match self.version {
            VERSION_FEATURES
                if lacks_features(self.compatibility, self.lacks_features == Some(true)) =>
            {
                Reason::FeaturesDisabled
            }
            VERSION_FEATURES => Reason::Fine,
            _ if self.compatibility == "legacy" => Reason::Fine,
            _ => Reason::VersionOlder,
        }
    }
}

/// What to do where a device is missing. OpenZFS says: online it using `zpool online`; here a device that is there is in use.
const ATTACH: &str = "Attach the missing device, or name where it lies with one more -d; it is in use\n\tfrom the next time on \
    that the pool is opened.\n";
/// What to do where a device ends too soon.
const COPY: &str = "Bring the whole device, or a whole copy of it.  What it has is read meanwhile, but it stands\n\tin for no other; whoever \
    writes to the pool does without it.\n";

impl Reason {
    /// The name of OpenZFS's page about it.
    pub fn page(self) -> Option<&'static str> {
        Some(match self {
            Reason::Suspended(Suspended::Wait) => "ZFS-8000-HC",
            Reason::Suspended(Suspended::Continue) => "ZFS-8000-JQ",
            Reason::Suspended(Suspended::Multihost) => "ZFS-8000-MM",
            Reason::Missing => "ZFS-8000-2Q",
            Reason::MissingTooMany => "ZFS-8000-3C",
            Reason::MissingTop => "ZFS-8000-6X",
            Reason::Metadata => "ZFS-8000-72",
            Reason::DataErrors => "ZFS-8000-8A",
            Reason::VersionNewer => "ZFS-8000-A5",
            Reason::OtherHost => "ZFS-8000-EY",
            _ => return None,
        })
    }

    /// Whether `status -x` tells of it.
    pub fn is_trouble(self) -> bool {
        !matches!(self, Reason::Fine | Reason::VersionOlder | Reason::FeaturesDisabled)
    }

    /// Status and action of a pool that is open.
    pub fn of_open(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Reason::Suspended(Suspended::Multihost) => (
                "The pool is suspended because multihost writes failed or were delayed;\n\tanother system could import \
                 the pool undetected.\n",
                "Make sure the pool's devices are connected, then reboot your system and\n\timport the pool or run \
                 'zpool clear' to resume the pool.\n",
            ),
            Reason::Suspended(_) => (
                "One or more devices are faulted in response to IO failures.\n",
                "Make sure the affected devices are connected, then run 'zpool clear'.\n",
            ),
            Reason::Lost => (
                "One or more devices lack data that was written while they were away, and\n\ttoo few others are there to stand \
                 in for it.  It can't be read.\n",
                "Attach the missing device, or a newer copy of the one that lags behind, or name\n\twhere it lies with one more \
                 -d.  Until then 'zpool scrub --read-only' names the files\n\tthat can't be had, and 'zfs cp -r --skip-damaged' \
                 copies the rest.\n",
            ),
            Reason::Missing => (
                "One or more devices could not be opened.  Sufficient replicas exist for\n\tthe pool to continue \
                 functioning in a degraded state.\n",
                ATTACH,
            ),
            Reason::MissingTooMany => (
                "One or more devices could not be opened.  There are insufficient\n\treplicas for the pool to \
                 continue functioning.\n",
                ATTACH,
            ),
            Reason::Short => (
                "One or more devices end before what the pool has on them.  Sufficient\n\treplicas exist for the pool to continue \
                 functioning in a degraded state.\n",
                COPY,
            ),
            Reason::ShortTooMany => (
                "One or more devices end before what the pool has on them.  There are\n\tinsufficient replicas for the pool to \
                 continue functioning: not all of it can be read.\n",
                COPY,
            ),
            Reason::Offline => (
                "One or more devices has been taken offline by the administrator.\n\tSufficient replicas exist for \
                 the pool to continue functioning in a\n\tdegraded state.\n",
                "Online the device using 'zpool online' or replace the device with\n\t'zpool replace'.\n",
            ),
            Reason::Removed => (
                "One or more devices has been removed by the administrator.\n\tSufficient replicas exist for \
                 the pool to continue functioning in a\n\tdegraded state.\n",
                "Online the device using zpool online' or replace the device with\n\t'zpool replace'.\n",
            ),
            Reason::Lacking => (
                "One or more devices lack data that was written while they were away.\n",
                "OpenZFS resilvers them when it imports the pool; Spindle can't yet.  Until\n\tthen the pool does not \
                 survive the loss of the others.\n",
            ),
            Reason::Resilvering => (
                "One or more devices is currently being resilvered.  The pool will\n\tcontinue to function, \
                 possibly in a degraded state.\n",
                "Wait for the resilver to complete.\n",
            ),
            Reason::RebuildScrub => (
                "One or more devices have been sequentially resilvered, scrubbing\n\tthe pool is recommended.\n",
                "Use 'zpool scrub' to verify all data checksums.\n",
            ),
            Reason::DataErrors => (
                "One or more devices has experienced an error resulting in data\n\tcorruption.  Applications may \
                 be affected.\n",
                "Restore the file in question if possible.  Otherwise restore the\n\tentire pool from backup.\n",
            ),
            Reason::VersionOlder => (
                "The pool is formatted using a legacy on-disk format.  The pool can\n\tstill be used, but some \
                 features are unavailable.\n",
                "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n\tpool will no longer be \
                 accessible on software that does not support\n\tfeature flags.\n",
            ),
            Reason::FeaturesDisabled => (
                "Some supported and requested features are not enabled on the pool.\n\tThe pool can still be used, \
                 but some features are unavailable.\n",
                "Enable all features using 'zpool upgrade'. Once this is done,\n\tthe pool may no longer be \
                 accessible by software that does not support\n\tthe features. See zpool-features(7) for details.\n",
            ),
            Reason::Faulted => (
                "One or more devices are faulted in response to persistent errors.\n\tSufficient replicas exist \
                 for the pool to continue functioning in a\n\tdegraded state.\n",
                "Use 'zpool clear' to mark the device repaired.  Devices are replaced by\n\tOpenZFS, whose 'zpool replace' \
                 Spindle can't do yet.\n",
            ),
            Reason::FaultedTooMany => (
                "One or more devices are faulted in response to persistent errors.  There are insufficient \
                 replicas for the pool to\n\tcontinue functioning.\n",
                "Destroy and re-create the pool from a backup source.  Manually marking the device\n\trepaired \
                 using 'zpool clear' may allow some data to be recovered.\n",
            ),
            _ => return None,
        })
    }

    /// The status of a pool that could be imported.
    pub fn of_import(self) -> Option<&'static str> {
        Some(match self {
            Reason::Fine | Reason::Suspended(_) => return None,
            Reason::Missing | Reason::MissingTooMany | Reason::MissingTop => {
                "One or more devices are missing from the system.\n"
            }
            Reason::Short | Reason::ShortTooMany => {
                "One or more devices end before what the pool has on them.\n"
            }
            Reason::Offline | Reason::Removed => "One or more devices are offlined.\n",
            Reason::Metadata | Reason::DataErrors => "The pool metadata is corrupted.\n",
            Reason::VersionOlder => "The pool is formatted using a legacy on-disk version.\n",
            Reason::VersionNewer => "The pool is formatted using an incompatible version.\n",
            Reason::FeaturesDisabled => {
                "Some supported features are not enabled on the pool.\n\t(Note that they may be intentionally \
                 disabled if the\n\t'compatibility' property is set.)\n"
            }
            Reason::Features => {
                "The pool uses the following feature(s) not supported on this system:\n"
            }
            Reason::OtherHost => "The pool was last accessed by another system.\n",
            Reason::Faulted | Reason::FaultedTooMany => "One or more devices are faulted.\n",
            Reason::Lacking => {
                "One or more devices lack data that was written while they were away.\n"
            }
            Reason::Lost => {
                "One or more devices lack data that was written while they were away, and\n\ttoo few others are there to stand \
                 in for it.  It can't be read.\n"
            }
            Reason::Resilvering | Reason::RebuildScrub => {
                "One or more devices were being resilvered.\n"
            }
        })
    }

    /// The action for a pool that could be imported, by how it is.
    pub fn import_action(self, health: Health) -> &'static str {
        match (health, self) {
            (_, Reason::Lost) => {
                "The pool can be read with 'zpool import -o readonly=on', but not all of it.  Attach\n\tthe missing device, or a newer \
                 copy of the one that lags behind, and try again.\n"
            }
            (Health::Online, Reason::VersionOlder | Reason::FeaturesDisabled) => {
                "The pool can be imported using its name or numeric identifier, though\n\tsome features will not be \
                 available without an explicit 'zpool upgrade'.\n"
            }
            (Health::Online, Reason::OtherHost) => {
                "The pool can be imported using its name or numeric identifier and\n\tthe '-f' flag.\n"
            }
            (Health::Online, Reason::Lacking) => {
                "The pool can be imported using its name or numeric identifier.  OpenZFS\n\tresilvers the devices then; \
                 Spindle can't yet, and until then the pool\n\tdoes not survive the loss of the others.\n"
            }
            (Health::Online, _) => {
                "The pool can be imported using its name or numeric identifier.\n"
            }
            (Health::Degraded, _) => {
                "The pool can be imported despite missing or damaged devices.  The\n\tfault tolerance of the pool \
                 may be compromised if imported.\n"
            }
            (_, Reason::VersionNewer) => {
                "The pool cannot be imported.  Access the pool on a system running newer\n\tsoftware, or recreate \
                 the pool from backup.\n"
            }
            (_, Reason::Features) => {
                "The pool cannot be imported. Access the pool on a system that supports\n\tthe required feature(s), \
                 or recreate the pool from backup.\n"
            }
            (_, Reason::Short | Reason::ShortTooMany) => {
                "The pool can be read with 'zpool import -o readonly=on', but not all of it.  Bring\n\tthe whole devices, or whole \
                 copies of them, and try again.\n"
            }
            (_, Reason::Missing | Reason::MissingTooMany | Reason::MissingTop) => {
                "The pool cannot be imported. Attach the missing\n\tdevices and try again.\n"
            }
            _ => "The pool cannot be imported due to damaged devices or data.\n",
        }
    }
}

/// What is the matter, more of it in `lines`, and what to do.
pub fn troubles(out: &mut String, reason: Reason, lines: &[String]) {
    if let Some((status, action)) = reason.of_open() {
        let lines: String =
            lines.iter().map(|text| format!("\t{}\n", printable::line(text))).collect();
        let _ = write!(out, "status: {status}{lines}action: {action}");
    }
    if let Some(page) = reason.page() {
        let _ = writeln!(out, "   see: {PAGES}/{page}");
    }
}
