//! What could break: a collector that copies too much or too little, or loses a page of its map.

use super::*;

/// Uniformly random writes on very many blocks of `per_block` pages, valid data on the share `valid` of them.
///
/// A full block loses its valid pages one by one, at a rate in proportion to how many it has. Of the blocks with `i` valid
/// pages there are then `r / i` in proportion, down to some `m`, for they pass each count at the rate `r`; of those with `m`
/// the collector takes some before they lose another, and all that do. Blocks (1 in all) and valid pages give
/// `r` and the share of those with `m`; `m` is the one for which that share lies between nothing and `r / m`.
fn mean_field(valid: f64, per_block: u32) -> f64 {
    let b = f64::from(per_block);
    for m in 1..per_block {
        let above: f64 = (m + 1..=per_block).map(|i| 1.0 / f64::from(i)).sum();
        let m = f64::from(m);
        let rate = (valid * b - m) / (b - m - m * above);
        let with_m = 1.0 - rate * above;
        if rate > 0.0 && (0.0..=rate / m).contains(&with_m) {
            let lost_another = with_m * m / rate;
            return b / (b - (m - lost_another));
        }
    }
    panic!("no solution for {valid} and {per_block}")
}

#[test]
fn the_mean_field_is_the_closed_one_for_blocks_of_many_pages() {
    for valid in [0.7, 0.78, 0.9] {
        let closed = 1.0 / (1.0 - collected_at(valid));
        let counted = mean_field(valid, 20_000);
        assert!((counted / closed - 1.0).abs() < 1e-3, "{valid}: {counted} and {closed}");
    }
}

/// Pages written to flash for each of the host's, over so many writes at random.
fn measured(drive: &mut Collector, prng: &mut Prng, writes: u64) -> f64 {
    let (before, mut told) = (drive.copied, 0.0);
    for _ in 0..writes {
        drive.write(prng.below(drive.pages().into()) as u32);
        told += drive.amplification();
    }
    let came = 1.0 + (drive.copied - before) as f64 / writes as f64;
    let told = told / writes as f64;
    assert!((told / came - 1.0).abs() < 0.02, "{told} is told and {came} came");
    came
}

#[test]
fn random_writes_come_to_the_exact_amplification_of_greedy_collection() {
    let slots = 1 << 18;
    for (spare_of_flash, per_block) in
        [(0.30, 8), (0.22, 8), (0.30, 256), (0.22, 256), (0.12, 256), (0.07, 256)]
    {
        let pages = (f64::from(slots) * (1.0 - spare_of_flash)) as u32;
        let spare = spare_of_flash / (1.0 - spare_of_flash);
        let mut prng = Prng::new(7);
        let mut drive = Collector::steady(pages, spare, per_block, &mut prng);
        let at_once = drive.amplification();
        let exact = mean_field(1.0 - spare_of_flash, per_block);
        let comes = measured(&mut drive, &mut prng, 2 * u64::from(pages));
        println!(
            "{spare_of_flash} spare, {per_block} pages: {at_once:.3}, then {comes:.3}, {exact:.3}"
        );
        assert!((comes / exact - 1.0).abs() < 0.02, "{spare_of_flash}, {per_block}: {comes}");
        assert!((at_once / exact - 1.0).abs() < 0.08, "{spare_of_flash}, {per_block}: {at_once}");
    }
}

/// An empty drive, filled and written over for long: what a drive that is laid out as steady must equal.
#[test]
fn a_drive_that_was_laid_out_as_steady_is_as_one_that_was_written_until_it_was() {
    let (pages, spare, per_block) = (60_000, 0.12, 64);
    let mut prng = Prng::new(9);
    let mut written = Collector::new(pages, spare, per_block);
    (0..pages).for_each(|page| written.write(page));
    measured(&mut written, &mut prng, 8 * u64::from(pages));
    let mut laid_out = Collector::steady(pages, spare, per_block, &mut prng);
    let [one, other] =
        [&mut written, &mut laid_out].map(|drive| measured(drive, &mut prng, pages.into()));
    println!("{one:.3} written, {other:.3} laid out");
    assert!((one / other - 1.0).abs() < 0.02, "{one} and {other}");
}

/// The map, the lists and the counts against one another.
fn check(drive: &Collector) {
    let held = |slot: &u32| *slot != NONE;
    for (page, slot) in drive.slot_of.iter().enumerate().filter(|(_, slot)| held(slot)) {
        assert_eq!(drive.page_in[*slot as usize] as usize, page);
    }
    let of_pages = drive.slot_of.iter().filter(|slot| held(slot)).count();
    assert_eq!(of_pages, drive.page_in.iter().filter(|page| held(page)).count());
    let mut listed = drive.free.len();
    for count in 0..=drive.per_block {
        let mut block = drive.first[count as usize];
        while block != NONE {
            let from = (block * drive.per_block) as usize;
            let slots = &drive.page_in[from..from + drive.per_block as usize];
            assert_eq!(slots.iter().filter(|page| held(page)).count(), count as usize);
            assert_eq!(drive.valid[block as usize], count);
            assert!(count >= drive.fewest && !drive.is_open(block));
            listed += 1;
            block = drive.behind[block as usize];
        }
    }
    let open = [drive.host, drive.copies].iter().filter(|open| open.block != NONE).count();
    assert_eq!(listed + open, drive.valid.len(), "each block is free, full or open");
    assert!(drive.free.iter().all(|block| drive.valid[*block as usize] == 0));
}

/// Least spare, blocks of a page, all trimmed, one page again and again: nothing may be lost or run dry.
#[test]
fn no_page_is_lost_whatever_is_written_and_trimmed() {
    for (pages, spare, per_block) in [(1, 0.01, 1), (37, 0.001, 4), (500, 0.07, 16), (64, 3.0, 8)] {
        let mut prng = Prng::new(u64::from(pages));
        let mut drive = Collector::new(pages, spare, per_block);
        let mut holds = vec![false; pages as usize];
        for turn in 0..20_000_u64 {
            let page =
                prng.below(u64::from(if turn % 3 == 0 { pages } else { 1 + pages / 9 })) as u32;
            let trims = prng.chance(if turn / 2000 % 2 == 0 { 0.05 } else { 0.6 });
            if trims {
                drive.discard(page)
            } else {
                drive.write(page)
            }
            holds[page as usize] = !trims;
            if turn % 97 == 0 {
                check(&drive);
                let mapped: Vec<bool> = drive.slot_of.iter().map(|slot| *slot != NONE).collect();
                assert_eq!(mapped, holds);
            }
        }
        check(&Collector::steady(pages, spare, per_block, &mut prng));
        assert!(drive.reuses());
        (0..pages).for_each(|page| drive.discard(page));
        check(&drive);
        assert!(drive.amplification() >= 1.0);
    }
}
