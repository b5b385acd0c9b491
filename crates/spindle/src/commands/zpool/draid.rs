//! A dRAID as a word gives it: `draid[PARITY][:DATAd][:CHILDRENc][:SPARESs]`.
//!
//! What is not said: one parity, as many data devices a group as there are and 8 at the most, no spares. The groups are the
//! fewest that fill whole rows.
//!
//! Source: OpenZFS 2.3, `zpool_vdev.c` (`draid_config_by_type`).

use zfs_format::vdev::Draid;

/// Data devices of a group where nobody says, at the most.
const DATA_DEFAULT_MAX: u64 = 8;
/// Spares at the most.
const SPARES_MAX: u64 = 100;
/// Devices at the most.
pub const CHILDREN_MAX: usize = 255;

/// What a word asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Parities of a group.
    pub parity: u64,
    data: Option<u64>,
    children: Option<u64>,
    spares: u64,
}

impl Asked {
    /// What a word that begins with `draid` says.
    ///
    /// # Errors
    /// It says nothing that can be; with the line to print.
    pub fn of(word: &str) -> Result<Asked, String> {
        let mut parts = word.split(':');
        let head = parts.next().and_then(|head| head.strip_prefix("draid")).unwrap_or_default();
        let parity = match head {
            "" => 1,
            "1" => 1,
            "2" => 2,
            "3" => 3,
            _ => {
                let text = "must be between 1 and 3";
                return Err(format!("invalid dRAID parity level in '{word}'; {text}"));
            }
        };
        let mut asked = Asked { parity, data: None, children: None, spares: 0 };
        for part in parts {
            let wrong =
                || format!("invalid dRAID syntax; expected [:<number><c|d|s>] not '{word}'");
            let digits = part.trim_end_matches(|last: char| last.is_ascii_alphabetic());
            let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
            let number = digits.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
            match &part[digits.len()..] {
                "d" | "D" => asked.data = Some(number),
                "c" | "C" => asked.children = Some(number),
                "s" | "S" => asked.spares = number,
                _ => return Err(wrong()),
            }
        }
        Ok(asked)
    }

    /// The dRAID that this is over so many devices.
    ///
    /// # Errors
    /// The devices don't do; with the line to print.
    pub fn over(&self, devices: usize) -> Result<Draid, String> {
        let Asked { parity, spares, .. } = *self;
        let children = devices as u64;
        if devices > CHILDREN_MAX {
            return Err(format!(
                "{children} disks were provided, but dRAID only supports up to {CHILDREN_MAX} disks"
            ));
        }
        if let Some(asked) = self.children.filter(|asked| *asked != children) {
            return Err(format!(
                "invalid number of dRAID children; {asked} required but {children} provided"
            ));
        }
        let left = children.saturating_sub(parity).checked_sub(spares).filter(|left| *left > 0);
        let Some(left) = left else {
            return Err(format!(
                "request number of distributed spares {spares} and parity level {parity} leaves no disks available for data"
            ));
        };
        let data = self.data.unwrap_or_else(|| left.min(DATA_DEFAULT_MAX));
        if data == 0 || data > left {
            return Err(format!(
                "requested number of dRAID data disks per group {data} is too high, at most {left} disks are available for data"
            ));
        }
        if spares > SPARES_MAX {
            return Err(format!(
                "invalid number of dRAID spares {spares}; additional disks would be required"
            ));
        }
        let (width, disks) = (data + parity, children - spares);
        let groups = (1..=disks).find(|groups| (groups * width).is_multiple_of(disks));
        Ok(Draid { parity, data, spares, groups: groups.unwrap_or(disks) })
    }
}

/// A dRAID's name, as commands show it.
pub fn name(draid: &Draid, children: usize) -> String {
    let Draid { parity, data, spares, .. } = draid;
    format!("draid{parity}:{data}d:{children}c:{spares}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_openzfs_makes_of_them() {
        for (word, devices, made) in [
            ("draid", 3, Draid { parity: 1, data: 2, spares: 0, groups: 1 }),
            ("draid2", 20, Draid { parity: 2, data: 8, spares: 0, groups: 2 }),
            ("draid1:2d:5c:1s", 5, Draid { parity: 1, data: 2, spares: 1, groups: 4 }),
            ("draid2:8D:51C:2S", 51, Draid { parity: 2, data: 8, spares: 2, groups: 49 }),
            ("draid3:1s:4d", 8, Draid { parity: 3, data: 4, spares: 1, groups: 1 }),
        ] {
            let asked = Asked::of(word).expect("a dRAID");
            assert_eq!(asked.over(devices), Ok(made), "{word}");
        }
        for word in ["draid4", "draid0", "draid01", "draidx"] {
            assert!(Asked::of(word).expect_err(word).contains("parity level"));
        }
        for word in
            ["draid:", "draid:d", "draid:2", "draid:2x", "draid:-2d", "draid1:2dd", "draid:+2d"]
        {
            assert!(Asked::of(word).expect_err(word).contains("expected [:<number>"), "{word}");
        }
        for (word, devices, why) in [
            ("draid:5c", 4, "5 required but 4 provided"),
            ("draid2:2s", 4, "leaves no disks available for data"),
            ("draid:4d", 4, "at most 3 disks are available"),
            ("draid:0d", 4, "is too high"),
            ("draid:2d:101s", 110, "invalid number of dRAID spares 101"),
            ("draid", 256, "only supports up to 255"),
        ] {
            let refused = Asked::of(word).expect("a word").over(devices).expect_err(word);
            assert!(refused.contains(why), "{word}: {refused}");
        }
    }
}
