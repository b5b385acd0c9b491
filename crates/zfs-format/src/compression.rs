//! Compression functions by their numbers and names.
//!
//! Which bytes they make is `codec`'s business. Every number of gzip means the same way of reading.
//!
//! Source: OpenZFS, `zio_compress.h`, `zio_compress.c`.

/// A compression function by its number in block pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Compression {
    /// As the parent dataset's; never in a block pointer.
    Inherit,
    /// The default; never in a block pointer.
    On,
    Off,
    Lzjb,
    /// A block of zeros, which is a hole.
    Empty,
    /// Level 1 to 9.
    Gzip(u8),
    Zle,
    Lz4,
    Zstd,
}

impl Compression {
    /// The function of this number.
    pub fn from_code(code: u8) -> Option<Compression> {
        Some(match code {
            0 => Compression::Inherit,
            1 => Compression::On,
            2 => Compression::Off,
            3 => Compression::Lzjb,
            4 => Compression::Empty,
            5..=13 => Compression::Gzip(code - 4),
            14 => Compression::Zle,
            15 => Compression::Lz4,
            16 => Compression::Zstd,
            _ => return None,
        })
    }

    /// Its number. A level of gzip beyond 1 to 9 counts as the nearest.
    pub fn code(self) -> u8 {
        match self {
            Compression::Inherit => 0,
            Compression::On => 1,
            Compression::Off => 2,
            Compression::Lzjb => 3,
            Compression::Empty => 4,
            Compression::Gzip(level) => level.clamp(1, 9) + 4,
            Compression::Zle => 14,
            Compression::Lz4 => 15,
            Compression::Zstd => 16,
        }
    }

    /// Its name as `zdb` prints it.
    pub fn name(self) -> &'static str {
        const GZIP: [&str; 9] = [
            "gzip-1", "gzip-2", "gzip-3", "gzip-4", "gzip-5", "gzip-6", "gzip-7", "gzip-8",
            "gzip-9",
        ];
        match self {
            Compression::Inherit => "inherit",
            Compression::On => "on",
            Compression::Off => "uncompressed",
            Compression::Lzjb => "lzjb",
            Compression::Empty => "empty",
            Compression::Gzip(level) => GZIP[usize::from(level.clamp(1, 9)) - 1],
            Compression::Zle => "zle",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_found_by_its_number() {
        for code in 0..=16 {
            assert_eq!(Compression::from_code(code).map(Compression::code), Some(code));
        }
        assert_eq!(Compression::from_code(17), None);
        assert_eq!(Compression::from_code(13).map(Compression::name), Some("gzip-9"));
    }
}
