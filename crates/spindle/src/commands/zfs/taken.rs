//! Values of properties that a pool takes only with a feature, refused in OpenZFS's words where it has none.

use ::zfs::dsl::features;
use ::zfs::show;
use ::zfs::spa::Spa;
use ::zfs::zvol::make::BLOCK_BYTES_MIN;
use zfs_format::features::Feature;
use zfs_format::zap::leaf::LeafValue;

/// What is said where a pool has not the feature that a value asks for.
const UPGRADE: &str = "pool must be upgraded to set this property or value";

/// Whether blocks may be so long.
pub fn is_block(bytes: u64, most: u64) -> bool {
    (BLOCK_BYTES_MIN..=most).contains(&bytes) && bytes.is_power_of_two()
}

/// What is said where they may not.
pub fn block_between(property: &str, most: u64) -> String {
    format!("'{property}' must be power of 2 from 512B to {}", show::bytes(most))
}

/// Whether a pool takes this value of a property, given which features it has by their short names.
///
/// # Errors
/// It doesn't: why.
pub fn check_taken(
    name: &str,
    value: Option<&LeafValue>,
    has: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let number = value.and_then(LeafValue::number).unwrap_or(0);
    match features::of_property(name, number) {
        Some(features::LARGE_BLOCKS) if !has(features::LARGE_BLOCKS) => {
            Err(block_between(name, features::BLOCK_BYTES_PLAIN))
        }
        Some(feature) if !has(feature) => Err(UPGRADE.to_owned()),
        _ => Ok(()),
    }
}

/// Whether an open pool has a feature of this short name.
pub fn has_feature(spa: &Spa, name: &str) -> bool {
    Feature::named(name).is_some_and(|feature| spa.has_feature(feature.guid))
}
