//! What a set is called: by its name where it has one, by its UUID where it has none.

use ::md::assemble::{Choice, Found, Superblock};

/// The name below /dev: what stands behind the host's name, or mdN for 0.90.
pub fn device_name(superblock: &Superblock) -> Option<String> {
    match superblock {
        Superblock::V090(sb) => Some(format!("/dev/md{}", sb.preferred_minor)),
        Superblock::V1(sb) => {
            let name = sb.name();
            let short = name.split_once(':').map_or(name.as_str(), |(_, short)| short);
            (!short.is_empty()).then(|| format!("/dev/md/{short}"))
        }
    }
}

/// How messages name a set.
pub fn shown(choice: &Choice) -> String {
    device_name(&choice.facts).unwrap_or_else(|| choice.set.to_string())
}

/// The same of a set that was not put together, by one of its devices.
pub fn shown_by(found: &Found) -> String {
    device_name(&found.superblock).unwrap_or_else(|| found.superblock.set_uuid().to_string())
}
