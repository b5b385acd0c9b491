//! How long names and values may be, and what they may hold: checked before a task changes anything.
//!
//! OpenZFS reads names into buffers of these sizes, and ends where one is longer; and a table takes nothing longer than its own
//! bounds, which would be found out when the task is half done.
//!
//! Source: OpenZFS, `fs/zfs.h` (`ZFS_MAX_DATASET_NAME_LEN`), `zap.h` (`ZAP_MAXNAMELEN`, `ZAP_MAXVALUELEN`), `zfs_ioctl.c`
//! (`zfs_check_userprops`), `zfs_prop.c` (`zfs_prop_user`), `dsl_dir.c` (`dsl_valid_rename`), `zfs_namecheck.c`
//! (`dataset_nestcheck`).

use super::error::{NameError, TaskError};
use crate::dsl::property::effective::is_user;
use zfs_format::zap::leaf::LeafValue;

/// Bytes of the whole name of a dataset, snapshot or bookmark: `ZFS_MAX_DATASET_NAME_LEN`, less its zero.
pub const NAME_BYTES_MAX: usize = 255;
/// Slashes in the name of a file system or volume: fewer than `zfs_max_dataset_nesting`. OpenZFS's kernel goes down a tree by recursion.
pub const NESTING_MAX: usize = 49;
/// Bytes of a property's name: `ZAP_MAXNAMELEN`, less its zero.
pub const PROPERTY_NAME_BYTES_MAX: usize = 255;
/// Bytes of a property's value: `ZAP_MAXVALUELEN`, less its zero.
pub const VALUE_BYTES_MAX: usize = 8191;
/// Bytes of a path where something is mounted: less than `MAXPATHLEN` of systems where that is least.
pub const MOUNTPOINT_BYTES_MAX: usize = 1023;
/// Bytes of the name of a hold: `MAXNAMELEN`, less its zero.
pub const TAG_BYTES_MAX: usize = 255;

/// What names of users' own properties have beside small letters and digits.
const USER_PUNCTUATION: &str = ":+.-_";

/// Whether that can be where something is mounted.
pub fn is_mountpoint(value: &[u8]) -> bool {
    let is_path = || {
        value.starts_with(b"/")
            && !value.iter().any(u8::is_ascii_control)
            && !value.split(|byte| *byte == b'/').any(|part| part == b"..")
    };
    value == b"none" || value == b"legacy" || is_path()
}

/// Whether a property can be set to that, or be taken away.
///
/// # Errors
/// Its name or value is too long, or can't be so.
pub fn check_property(name: &str, value: Option<&LeafValue>) -> Result<(), TaskError> {
    if name.is_empty() {
        return Err(TaskError::Name(NameError::Empty));
    }
    if name.len() > PROPERTY_NAME_BYTES_MAX {
        return Err(TaskError::PropertyNameLong);
    }
    let Some(value) = value else { return Ok(()) };
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = |c: char| is_small(c) || USER_PUNCTUATION.contains(c);
    let wrong = name.chars().find(|c| !fits(*c)).filter(|_| is_user(name));
    if let Some(wrong) = wrong {
        return Err(TaskError::PropertyName(wrong));
    }
    // Only text is as long as who sets it likes; it ends with a zero.
    let Some(bytes) = value.bytes() else { return Ok(()) };
    let text = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    let is_mount = name == "mountpoint";
    let most = if is_mount { MOUNTPOINT_BYTES_MAX } else { VALUE_BYTES_MAX };
    if text.len() > most {
        return Err(TaskError::ValueLong);
    }
    if is_mount && !is_mountpoint(text) {
        return Err(TaskError::Mountpoint);
    }
    Ok(())
}

/// The same of several that are to be set.
///
/// # Errors
/// As of [`check_property`].
pub fn check_properties(properties: &[(String, LeafValue)]) -> Result<(), TaskError> {
    properties.iter().try_for_each(|(name, value)| check_property(name, Some(value)))
}

/// Whether a hold can be called so.
///
/// # Errors
/// It is empty, or too long.
pub fn check_tag(tag: &str) -> Result<(), TaskError> {
    match tag.len() {
        0 => Err(TaskError::TagEmpty),
        1..=TAG_BYTES_MAX => Ok(()),
        _ => Err(TaskError::TagLong),
    }
}
