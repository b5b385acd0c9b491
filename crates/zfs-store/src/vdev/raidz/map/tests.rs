//! What could break: a formula of the layout, which only real pools would show; pieces that overlap or leave a
//! gap; two columns of a row on one child, so that its loss would be two losses.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const KIB_4: u32 = 12;

/// The columns as (child, sector on it, sectors, sector of the block).
fn sectors(map: &Map, row: usize) -> Vec<(usize, u64, usize, usize)> {
    let columns = map.rows[row].columns.iter();
    columns.map(|c| (c.child, c.at >> KIB_4, c.len >> KIB_4, c.block_at >> KIB_4)).collect()
}

#[test]
fn data_runs_down_the_columns_from_the_blocks_first_sector_on() {
    // The picture at the head of the module.
    let five = map(5 << KIB_4, 5 << KIB_4, KIB_4, 4, 1);
    assert_eq!(sectors(&five, 0), [(1, 1, 2, 0), (2, 1, 2, 0), (3, 1, 2, 2), (0, 2, 1, 4)]);
    assert_eq!(allocated(5 << KIB_4, KIB_4, 4, 1), 8 << KIB_4);
    // Less than a row: parity and as many columns as there are sectors.
    let two = map(3 << KIB_4, 2 << KIB_4, KIB_4, 5, 2);
    assert_eq!(sectors(&two, 0), [(3, 0, 1, 0), (4, 0, 1, 0), (0, 1, 1, 0), (1, 1, 1, 1)]);
    assert_eq!(allocated(2 << KIB_4, KIB_4, 5, 2), 6 << KIB_4);
    // Whole rows.
    let six = map(0, 6 << KIB_4, KIB_4, 4, 1);
    assert_eq!(sectors(&six, 0), [(0, 0, 2, 0), (1, 0, 2, 0), (2, 0, 2, 2), (3, 0, 2, 4)]);
}

#[test]
fn single_parity_changes_place_at_every_other_mebibyte() {
    let swapped = map(1 << 20, 4096, KIB_4, 3, 1);
    // Sector 256 lies on child 1; so the parity would, but for the swap.
    assert_eq!(sectors(&swapped, 0), [(2, 85, 1, 0), (1, 85, 1, 0)]);
    let twice = map(1 << 20, 4096, KIB_4, 4, 2);
    assert_eq!(sectors(&twice, 0), [(0, 64, 1, 0), (1, 64, 1, 0), (2, 64, 1, 0)]);
}

#[test]
fn after_an_expansion_each_row_goes_on_where_the_last_ended() {
    // A block of 5 sectors, written over 3 children, now over 4: sectors 1 to 8 of the numbering.
    let map = map_expanded(1 << KIB_4, 5 << KIB_4, KIB_4, (4, 3), 1, None);
    let rows: Vec<_> = (0..map.rows.len()).map(|row| sectors(&map, row)).collect();
    // Data columns of 3 and 2 sectors: 0 1 2 and 3 4.
    assert_eq!(
        rows,
        [
            vec![(1, 0, 1, 0), (2, 0, 1, 0), (3, 0, 1, 3)],
            vec![(0, 1, 1, 0), (1, 1, 1, 1), (2, 1, 1, 4)],
            vec![(3, 1, 1, 0), (0, 2, 1, 2), (1, 2, 0, 0)],
        ]
    );
}

#[test]
fn during_an_expansion_rows_that_did_not_move_lie_in_the_narrow_numbering() {
    let at = |synced: u64, scratch| {
        let reflow = Some(Reflow { synced: synced << KIB_4, scratch });
        map_expanded(1 << KIB_4, 5 << KIB_4, KIB_4, (4, 3), 1, reflow)
    };
    let whole = map_expanded(1 << KIB_4, 5 << KIB_4, KIB_4, (4, 3), 1, None);
    // The last row counts as wide as the others: it ends at sector 10.
    assert_eq!(at(10, false), whole);
    let partly = at(7, false);
    assert_eq!(partly.rows[..2], whole.rows[..2]);
    assert_eq!(sectors(&partly, 2), [(1, 2, 1, 0), (2, 2, 1, 2), (0, 3, 0, 0)]);
    let untouched = at(0, true);
    assert_eq!(sectors(&untouched, 0), [(1, 0, 1, 0), (2, 0, 1, 0), (0, 1, 1, 3)]);
    assert!(untouched.rows.iter().all(|row| !row.scratch));
    assert!(at(10, true).rows.iter().all(|row| row.scratch));
}

/// Rules 1 and 2 of the module.
fn holds(map: &Map) -> Result<(), TestCaseError> {
    let (mut covered, mut places) = (vec![false; map.size], BTreeSet::new());
    for row in &map.rows {
        let children: BTreeSet<usize> = row.columns.iter().map(|column| column.child).collect();
        prop_assert_eq!(children.len(), row.columns.len(), "columns on different children");
        let parity_len = row.columns[0].len;
        for (number, column) in row.columns.iter().enumerate() {
            if number < map.parity {
                prop_assert_eq!(column.len, parity_len);
            } else {
                prop_assert!(column.len <= parity_len);
                let range = column.block_at..column.block_at + column.len;
                prop_assert!(!covered[range.clone()].contains(&true), "bytes twice");
                covered[range].fill(true);
            }
            for sector in (column.at..column.at + column.len as u64).step_by(512) {
                prop_assert!(places.insert((column.child, sector)), "a place is used twice");
            }
        }
    }
    prop_assert!(covered.into_iter().all(|byte| byte), "all of the block is somewhere");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn columns_cover_the_block_exactly(
        (parity, data, grown) in (1_usize..=3, 1_usize..9, 1_usize..4),
        sectors in 1_usize..70,
        offset in 0_u64..5000,
        ashift in prop_oneof![Just(9_u32), Just(12)],
        synced in prop::option::of(0_u64..6000),
    ) {
        let (size, width) = (sectors << ashift, parity + data);
        let plain = map(offset << ashift, size, ashift, width, parity);
        holds(&plain)?;
        let total: usize = plain.rows[0].columns.iter().map(|column| column.len).sum();
        let allocated = allocated(size as u64, ashift, width, parity);
        prop_assert!(allocated >= total as u64);
        prop_assert!(allocated - (total as u64) < ((parity + 1) << ashift) as u64);

        // A reflow leads from one width to the next; widths before it are narrower.
        let physical = width + grown;
        let reflow = synced.map(|synced| Reflow { synced: synced << ashift, scratch: false });
        let wide = map_expanded(offset << ashift, size, ashift, (physical, width), parity, None);
        holds(&wide)?;
        let lens = wide.rows.iter().flat_map(|row| &row.columns).map(|column| column.len);
        prop_assert_eq!(lens.sum::<usize>(), total, "a block keeps its sectors");
        holds_without_places(&map_expanded(
            offset << ashift, size, ashift, (physical, width), parity, reflow,
        ))?;
    }
}

/// In the middle of a reflow two rows may share a place for a while: the copying stops before it matters.
fn holds_without_places(map: &Map) -> Result<(), TestCaseError> {
    for row in &map.rows {
        holds(&Map {
            parity: map.parity,
            size: row.columns.iter().skip(map.parity).map(|column| column.len).sum(),
            rows: vec![Row { scratch: false, columns: packed(&row.columns, map.parity) }],
        })?;
    }
    Ok(())
}

/// The columns of a row as if its block were only that row.
fn packed(columns: &[Column], parity: usize) -> Vec<Column> {
    let mut block_at = 0;
    let mut packed = columns.to_vec();
    for column in packed.iter_mut().skip(parity) {
        column.block_at = block_at;
        block_at += column.len;
    }
    packed
}
