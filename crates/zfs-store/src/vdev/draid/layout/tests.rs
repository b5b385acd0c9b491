//! What could break: groups that overlap or leave rows unused, a block that runs over into the next group, a spare
//! that lies where data is.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn layout(parity: u64, data: u64, children: usize, spares: u64) -> Layout {
    let disks = children as u64 - spares;
    let width = parity + data;
    let groups = (1..).find(|groups| (width * groups).is_multiple_of(disks)).expect("there is one");
    let config = vdev::Draid { parity, data, spares, groups };
    Layout::new(&config, children).expect("the numbers fit")
}

#[test]
fn groups_follow_one_another_over_the_rows_of_a_slice() {
    // The picture at the head of the module.
    let layout = layout(1, 2, 5, 1);
    assert_eq!((layout.groups, layout.slice_rows()), (4, 3));
    let places: Vec<_> = (0..5).map(|group| layout.place(group * 3 * ROW_BYTES, 12)).collect();
    let found: Vec<_> = places.iter().map(|p| (p.slice, p.start, p.at / ROW_BYTES)).collect();
    assert_eq!(found, [(0, 0, 0), (0, 3, 0), (0, 2, 1), (0, 1, 2), (1, 0, 3)]);
    // A block that begins with the last row of sectors of group 1.
    let offset = 2 * 3 * ROW_BYTES - (3 << 12);
    let map = layout.map(offset, 3 << 12, 12).expect("a block can begin there");
    assert_eq!(map.rows.len(), 2);
    let lens = |row: usize| map.rows[row].columns.iter().map(|c| c.len >> 12).collect::<Vec<_>>();
    assert_eq!((lens(0), lens(1)), (vec![1, 1, 1], vec![1, 1, 0]));
    let end = ROW_BYTES - 4096;
    let at: Vec<u64> = map.rows[0].columns.iter().map(|c| c.at).collect();
    // Group 1 has a column in row 0 and two in row 1.
    assert_eq!(at, [end, end + ROW_BYTES, end + ROW_BYTES]);
    assert!(layout.map(offset + 4096, 4096, 12).is_none());
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let good = vdev::Draid { parity: 1, data: 2, spares: 1, groups: 4 };
    assert!(Layout::new(&good, 5).is_some());
    for bad in [
        vdev::Draid { groups: 3, ..good },
        vdev::Draid { groups: 0, ..good },
        vdev::Draid { data: 4, ..good },
        vdev::Draid { data: u64::MAX, ..good },
        vdev::Draid { data: 0, ..good },
        vdev::Draid { spares: 6, ..good },
    ] {
        assert!(Layout::new(&bad, 5).is_none(), "{bad:?}");
    }
    assert!(Layout::new(&good, 1).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_groups_of_a_slice_fill_its_rows_and_spares_fill_the_rest(
        (parity, data, spares, more) in (1_u64..=3, 1_u64..6, 0_u64..3, 0_u64..5),
        slice in 0_u64..3000,
    ) {
        let children = (parity + data + spares + more) as usize;
        let layout = layout(parity, data, children, spares);
        let mut used = BTreeSet::new();
        let slice_bytes = layout.groups * layout.group_bytes();
        for group in 0..layout.groups {
            let offset = slice * slice_bytes + group * layout.group_bytes();
            let map = layout.map(offset, (data << 12) as usize, 12).expect("a group begins there");
            prop_assert_eq!(map.rows.len(), 1);
            let mut block_at = 0;
            for (number, column) in map.rows[0].columns.iter().enumerate() {
                prop_assert_eq!(column.len, 4096);
                prop_assert!(used.insert((column.child, column.at)), "a place is used twice");
                if number >= map.parity {
                    prop_assert_eq!(column.block_at, block_at);
                    block_at += column.len;
                }
            }
            prop_assert_eq!(block_at, map.size);
        }
        for row in 0..layout.slice_rows() {
            let at = (slice * layout.slice_rows() + row) * ROW_BYTES;
            for spare in 0..spares {
                let child = layout.spare_child(spare, at).expect("there is one");
                prop_assert!(used.insert((child, at)), "a spare lies where data is");
            }
            prop_assert!(layout.spare_child(spares, at).is_none());
            for child in 0..children {
                prop_assert!(used.contains(&(child, at)), "all of a row is used");
            }
        }
    }
}
