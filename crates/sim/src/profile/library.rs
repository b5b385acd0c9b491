//! The profiles that are part of the program, and finding one by its name.
//!
//! The files of `hardware/` are compiled in, so a study runs wherever the program does. A name that
//! nobody has is answered with the nearest one (Levenshtein's distance).

use super::disksim;
use super::{Profile, ProfileError};
use std::path::Path;

macro_rules! hardware {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../../hardware/", $name, ".toml")))),*]
    };
}

/// Every file of `hardware/`, in the order in which they are listed.
const HARDWARE: &[(&str, &str)] = hardware![
    "st3750640as",
    "hua723030ala640",
    "wd5000aaks",
    "wd5000aaks-2007",
    "wd1002fbys",
    "hus154545vlf400",
    "exos-x20",
    "st2000dm006",
    "cheetah9lp",
    "cheetah4lp",
    "ibm18es",
    "atlas-iii",
    "hp-c2490a",
    "hp-c2247a",
    "x25-m",
    "870-evo",
    "pm9a3",
    "p4800x",
    "7300-pro",
    "zfs-7320-dram",
    "fc-4g",
    "fc-4g-2path",
    "sas-3g-x4",
    "sas-6g-x4",
    "sata-3g",
    "sata-6g",
    "iscsi-1g-1500",
    "iscsi-1g-9000",
    "pcie3-x4",
    "pcie4-x4",
    "hba",
    "infortrend-2008",
    "infortrend-2012",
    "promise-m610i",
    "athlon64-x2-4800",
    "opteron-2008",
    "xeon-e5504",
    "xeon-e5620",
    "r710",
    "xeon-2012",
    "epyc-2024",
    "sparc-t4-4core",
];

/// Edits beyond which a name is not offered as what was meant.
const HINT_DISTANCE_MAX: usize = 3;

/// The names of all profiles that are part of the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    HARDWARE.iter().map(|(name, _)| *name)
}

/// The profile of this name; or, where it ends as a profile's file does or has a slash, the one in that file.
pub fn load(name: &str) -> Result<Profile, ProfileError> {
    if name.ends_with(".toml") || name.contains('/') || disksim::is_one(Path::new(name)) {
        return load_path(Path::new(name));
    }
    let wanted = name.to_ascii_lowercase();
    match HARDWARE.iter().find(|(known, _)| *known == wanted) {
        Some((known, text)) => Profile::parse(&format!("hardware/{known}.toml"), text),
        None => Err(ProfileError::Unknown { name: name.to_owned(), hint: hint(&wanted) }),
    }
}

/// The profile in a file, or in a file for DiskSim with those beside it.
pub fn load_path(path: &Path) -> Result<Profile, ProfileError> {
    if disksim::is_one(path) {
        return disksim::load(path);
    }
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Profile::parse(&file, &text),
        Err(error) => Err(ProfileError::Unreadable { file, reason: error.to_string() }),
    }
}

fn hint(wanted: &str) -> String {
    let part = names().find(|name| wanted.len() >= 3 && name.contains(wanted));
    let far = |name: &&str| strsim::levenshtein(name, wanted);
    let near = || names().min_by_key(far);
    let near = part.or_else(|| near().filter(|name| far(name) <= HINT_DISTANCE_MAX));
    near.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}
