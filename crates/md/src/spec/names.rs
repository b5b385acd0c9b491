//! Levels and layouts from what people and superblocks call them.

use super::error::SpecError;
use crate::layout::kinds::{FarSets, Layout, PARITY_LAYOUTS, RAID6_ONLY_FROM};
use crate::level::Level;
use std::str::FromStr;

impl FromStr for Level {
    type Err = SpecError;
    /// From `raid5`, `5` and the like.
    fn from_str(text: &str) -> Result<Level, SpecError> {
        let all = [
            Level::Linear,
            Level::Raid0,
            Level::Raid1,
            Level::Raid4,
            Level::Raid5,
            Level::Raid6,
            Level::Raid10,
        ];
        all.into_iter()
            .find(|level| {
                let name = level.to_string();
                text == name || name.strip_prefix("raid") == Some(text)
            })
            .ok_or_else(|| SpecError::UnknownLevel { text: text.to_owned() })
    }
}

impl Layout {
    /// The layout of the kernel's number at a level.
    ///
    /// # Errors
    /// Where the level has no such layout.
    pub fn from_md(level: Level, number: i32) -> Result<Layout, SpecError> {
        let unknown = || SpecError::UnknownLayout { level, text: number.to_string() };
        match level {
            Level::Raid5 | Level::Raid6 => {
                let found = PARITY_LAYOUTS.into_iter().find(|(_, other, _)| *other == number);
                let found = found.filter(|_| level == Level::Raid6 || number < RAID6_ONLY_FROM);
                found.map(|(layout, ..)| Layout::Parity(layout)).ok_or_else(unknown)
            }
            Level::Raid10 => {
                let far_sets = match number >> 17 {
                    0 => FarSets::All,
                    1 => FarSets::Divided,
                    2 => FarSets::Copies,
                    _ => return Err(unknown()),
                };
                let (near, far) = ((number & 255) as usize, (number >> 8 & 255) as usize);
                if near == 0 || far == 0 {
                    return Err(unknown());
                }
                Ok(Layout::Mirrored { near, far, offset: number >> 16 & 1 == 1, far_sets })
            }
            Level::Raid0 if number == 1 => Ok(Layout::Raid0 { original: true }),
            Level::Raid0 if number == 2 => Ok(Layout::Raid0 { original: false }),
            Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid4 => Ok(Layout::Default),
        }
    }

    /// The layout of this name at a level: `left-symmetric`, `near-2` or `n2`, `original`, ...
    ///
    /// # Errors
    /// Where the level has no such layout.
    pub fn parse(level: Level, text: &str) -> Result<Layout, SpecError> {
        let unknown = || SpecError::UnknownLayout { level, text: text.to_owned() };
        match level {
            Level::Raid5 | Level::Raid6 => {
                let short = match text {
                    "la" => "left-asymmetric",
                    "ra" => "right-asymmetric",
                    "ls" => "left-symmetric",
                    "rs" => "right-symmetric",
                    other => other,
                };
                let found = PARITY_LAYOUTS
                    .into_iter()
                    .find(|(_, _, name)| name.eq_ignore_ascii_case(short));
                let (_, number, _) = found.ok_or_else(unknown)?;
                Layout::from_md(level, number).map_err(|_| unknown())
            }
            Level::Raid10 => {
                let (kind, count) = text
                    .split_once('-')
                    .or_else(|| text.split_at_checked(1))
                    .ok_or_else(unknown)?;
                let count: usize = count.parse().map_err(|_| unknown())?;
                if count == 0 {
                    return Err(unknown());
                }
                let (near, far, offset) = match kind {
                    "near" | "n" => (count, 1, false),
                    "far" | "f" => (1, count, false),
                    "offset" | "o" => (1, count, true),
                    _ => return Err(unknown()),
                };
                Ok(Layout::Mirrored { near, far, offset, far_sets: FarSets::All })
            }
            Level::Raid0 => match text {
                "original" => Ok(Layout::Raid0 { original: true }),
                "alternate" => Ok(Layout::Raid0 { original: false }),
                _ => Err(unknown()),
            },
            Level::Linear | Level::Raid1 | Level::Raid4 => Err(unknown()),
        }
    }
}
