//! What the clock on the wall says: the offset of local time from UTC.
//!
//! From the variable TZ where it names a zone, else from the host's zone: a file with the moments at which the offset
//! changed or will change. Zones with a rule for the time after the last moment stay at the last offset; that is right
//! for zones without summer time, and for all others until the year that their file reaches.
//!
//! Source: RFC 9636 (TZif).

use std::path::PathBuf;

/// Where zones lie, by name.
const ZONES: &str = "/usr/share/zoneinfo";
/// The host's own.
const HOST: &str = "/etc/localtime";
/// Bytes of a zone that are read; the largest has some 4 KiB.
const BYTES_MAX: u64 = 256 << 10;
/// Bytes of a header.
const HEADER: usize = 44;

/// An offset from UTC by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// From this moment on (seconds since 1970) the offset in seconds, in order.
    changes: Vec<(i64, i64)>,
    /// Before the first.
    first: i64,
}

impl Zone {
    /// The zone of this process. UTC where none can be had.
    pub fn local() -> Zone {
        let path = match std::env::var("TZ") {
            Err(_) => PathBuf::from(HOST),
            Ok(name) => {
                let name = name.trim_start_matches(':').to_owned();
                if name.is_empty() || name.split('/').any(|part| part == "..") {
                    return Zone::default();
                }
                PathBuf::from(ZONES).join(name)
            }
        };
        use std::io::Read;
        let mut bytes = Vec::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
        read.ok().and_then(|_| Zone::decode(&bytes)).unwrap_or_default()
    }

    /// The offset in seconds at a moment.
    pub fn offset(&self, unix_s: u64) -> i64 {
        let at = i64::try_from(unix_s).unwrap_or(i64::MAX);
        let passed = self.changes.partition_point(|(from, _)| *from <= at);
        passed.checked_sub(1).map_or(self.first, |last| self.changes[last].1)
    }

    /// A zone's file; nothing where it is none.
    fn decode(bytes: &[u8]) -> Option<Zone> {
        let (version, counts) = header(bytes)?;
        if version < b'2' {
            return block(bytes.get(HEADER..)?, counts, 4);
        }
        // The second block has the same in 64 bits.
        let rest = bytes.get(HEADER + length(counts, 4)?..)?;
        let (_, counts) = header(rest)?;
        block(rest.get(HEADER..)?, counts, 8)
    }
}

/// Counts of a block: UTC marks, standard marks, leap seconds, moments, types, characters.
type Counts = [usize; 6];

fn header(bytes: &[u8]) -> Option<(u8, Counts)> {
    let head = bytes.get(..HEADER)?;
    let version = *head.strip_prefix(b"TZif")?.first()?;
    let mut counts = [0; 6];
    for (count, word) in counts.iter_mut().zip(head[20..].as_chunks::<4>().0) {
        *count = u32::from_be_bytes(*word) as usize;
    }
    Some((version, counts))
}

fn length(
    [utc, standard, leaps, moments, types, characters]: Counts,
    size: usize,
) -> Option<usize> {
    let moments = moments.checked_mul(size + 1)?;
    let leaps = leaps.checked_mul(size + 4)?;
    let rest = types.checked_mul(6)?.checked_add(utc)?.checked_add(standard)?;
    moments.checked_add(leaps)?.checked_add(rest)?.checked_add(characters)
}

fn block(bytes: &[u8], counts: Counts, size: usize) -> Option<Zone> {
    let [.., moments, types, _] = counts;
    bytes.get(..length(counts, size)?)?;
    let (at, rest) = bytes.split_at(moments * size);
    let (which, rest) = rest.split_at(moments);
    let offsets: Vec<i64> = rest
        .chunks_exact(6)
        .take(types)
        .map(|kind| i64::from(i32::from_be_bytes([kind[0], kind[1], kind[2], kind[3]])))
        .collect();
    let moment = |bytes: &[u8]| match size {
        4 => bytes.try_into().ok().map(|word| i64::from(i32::from_be_bytes(word))),
        _ => bytes.try_into().ok().map(i64::from_be_bytes),
    };
    let mut changes = Vec::with_capacity(moments);
    for (at, which) in at.chunks_exact(size).zip(which) {
        changes.push((moment(at)?, *offsets.get(usize::from(*which))?));
    }
    Some(Zone { changes, first: offsets.first().copied().unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone that goes from +1 h to +2 h at second 100 and back at 200.
    fn file() -> Vec<u8> {
        let mut bytes = Vec::new();
        for size in [4, 8] {
            bytes.extend(b"TZif2");
            bytes.extend([0; 15]);
            for count in [0u32, 0, 0, 2, 2, 4] {
                bytes.extend(count.to_be_bytes());
            }
            for moment in [100i64, 200] {
                bytes.extend(&moment.to_be_bytes()[8 - size..]);
            }
            bytes.extend([1, 0]);
            for offset in [3600i32, 7200] {
                bytes.extend(offset.to_be_bytes());
                bytes.extend([0, 0]);
            }
            bytes.extend(b"CET\0");
        }
        bytes
    }

    #[test]
    fn offsets_change_at_their_moments() {
        let zone = Zone::decode(&file()).expect("a zone");
        let offsets = [0, 99, 100, 199, 200, u64::MAX].map(|at| zone.offset(at));
        assert_eq!(offsets, [3600, 3600, 7200, 7200, 3600, 3600]);
        assert_eq!(Zone::default().offset(5), 0);
    }

    #[test]
    fn what_is_no_zone_is_none() {
        let good = file();
        for len in 0..good.len() {
            assert_eq!(Zone::decode(&good[..len]), None, "{len}");
        }
        let mut wrong = good;
        wrong[HEADER + 8] = 9;
        assert!(Zone::decode(&wrong).is_some(), "the first block is not read");
        assert_eq!(Zone::decode(b"TZif2"), None);
    }
}
