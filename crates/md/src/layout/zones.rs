//! Linear and RAID 0: each byte of the array lies in one place.
//!
//! **Linear** puts the members one after another, each rounded down to a chunk where the array has one.
//!
//! **RAID 0** goes round the members chunk by chunk. Members of different sizes make *zones*: zone 0
//! spans all members up to the size of the smallest, zone 1 those that go on beyond it, up to the next
//! smallest, and so on. Within a zone, row `r` of chunks lies at zone start + r on each of its members.
//! Which member a chunk of a later zone lies on is where two kernels differ:
//!
//! * *original* (layout 1; kernels to 3.13): chunk number counted from the start of the **array**,
//!   modulo the zone's members;
//! * *alternate* (layout 2; kernels since 3.14): counted from the start of the **zone**.
//!
//! With one zone both are the same. Source: Linux `drivers/md/raid0.c` (`create_strip_zones`,
//! `map_sector`) and `md-linear.c`.

use super::Place;

/// One or more members side by side, from a place of the array on.
#[derive(Clone, Debug)]
struct Zone {
    /// Where it ends in the array (its start is the end of the one before).
    end: u64,
    /// Where it begins on each of its members.
    member_start: u64,
    /// Its members' slots, in order.
    slots: Vec<usize>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct StripedMap {
    /// The chunk; for linear the whole array, so that a zone of one member is one piece.
    chunk: u64,
    /// Layout 1: a chunk's number counts from the start of the array.
    original: bool,
    zones: Vec<Zone>,
}

impl StripedMap {
    /// Members of these sizes one after another; `chunk` rounds them down where it is not 0.
    pub(crate) fn linear(sizes: &[u64], chunk: u64) -> StripedMap {
        let mut end = 0;
        let zone = |(slot, size): (usize, &u64)| {
            end += size - size % chunk.max(1);
            Zone { end, member_start: 0, slots: vec![slot] }
        };
        let zones = sizes.iter().enumerate().map(zone).collect();
        StripedMap { chunk: 0, original: false, zones }
    }

    /// RAID 0 over members of these sizes.
    pub(crate) fn raid0(sizes: &[u64], chunk: u64, original: bool) -> StripedMap {
        let sizes: Vec<u64> = sizes.iter().map(|size| size - size % chunk).collect();
        let (mut zones, mut end, mut member_start) = (Vec::new(), 0, 0);
        // Ends: each round passes the smallest size that is left.
        while let Some(next) = sizes.iter().copied().filter(|size| *size > member_start).min() {
            let slots: Vec<usize> =
                (0..sizes.len()).filter(|slot| sizes[*slot] > member_start).collect();
            end += (next - member_start) * slots.len() as u64;
            zones.push(Zone { end, member_start, slots });
            member_start = next;
        }
        StripedMap { chunk, original, zones }
    }

    /// The size of the array.
    pub(crate) fn capacity(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.end)
    }

    /// Where the byte at `at` lies, and how many bytes from there on lie behind it.
    pub(crate) fn locate(&self, at: u64) -> (Place, u64) {
        let index = self.zones.partition_point(|zone| zone.end <= at);
        let start = if index == 0 { 0 } else { self.zones[index - 1].end };
        let zone = &self.zones[index];
        let within = at - start;
        if self.chunk == 0 {
            let place = Place { slot: zone.slots[0], at: zone.member_start + within };
            return (place, zone.end - at);
        }
        let members = zone.slots.len() as u64;
        let (number, in_chunk) = (within / self.chunk, within % self.chunk);
        let turn = if self.original { at / self.chunk } else { number };
        let slot = zone.slots[(turn % members) as usize];
        let row = number / members;
        let place = Place { slot, at: zone.member_start + row * self.chunk + in_chunk };
        (place, self.chunk - in_chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both rules by hand, on sizes 2, 3 and 5 chunks: zone 0 has 6 chunks, zone 1 (members 1 and 2)
    /// has 2, zone 2 (member 2) has 2.
    #[test]
    fn zones_follow_the_rule_of_their_layout() {
        let places = |original| {
            let map = StripedMap::raid0(&[8192, 12288, 20480 + 100], 4096, original);
            assert_eq!(map.capacity(), 10 * 4096);
            (0..10)
                .map(|chunk| map.locate(chunk * 4096).0)
                .map(|place| (place.slot, place.at / 4096))
                .collect::<Vec<_>>()
        };
        let zone_0 = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)];
        assert_eq!(places(false)[..6], zone_0);
        assert_eq!(places(false)[6..], [(1, 2), (2, 2), (2, 3), (2, 4)]);
        assert_eq!(places(true)[..6], zone_0);
        // Chunk 6 of the array is even: the first of the zone's two members.
        assert_eq!(places(true)[6..], [(1, 2), (2, 2), (2, 3), (2, 4)]);
        // With an odd number of chunks before the zone the rules differ.
        let sizes = [4096, 8192, 8192];
        let second = |original| StripedMap::raid0(&sizes, 4096, original).locate(3 * 4096).0.slot;
        assert_eq!((second(false), second(true)), (1, 2));
    }

    #[test]
    fn linear_goes_on_where_a_member_ends() {
        let map = StripedMap::linear(&[4096 + 512, 8192], 4096);
        assert_eq!(map.capacity(), 12288);
        assert_eq!(map.locate(4095), (Place { slot: 0, at: 4095 }, 1));
        assert_eq!(map.locate(4096), (Place { slot: 1, at: 0 }, 8192));
    }

    #[test]
    fn each_byte_has_a_place_of_its_own() {
        for original in [false, true] {
            let map = StripedMap::raid0(&[3 * 4096, 7 * 4096, 5 * 4096, 7 * 4096], 4096, original);
            let mut places: Vec<_> = (0..map.capacity() / 4096)
                .map(|chunk| map.locate(chunk * 4096).0)
                .map(|place| (place.slot, place.at))
                .collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len() as u64 * 4096, map.capacity());
        }
    }
}
