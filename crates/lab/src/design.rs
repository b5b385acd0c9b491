//! Which cells a study has, in which order they run, and with which seeds.
//!
//! * **Full factorial**: every combination of the factors' levels, with every variant of every
//!   workload that admits it. The study's order: the first factor changes slowest, then the next,
//!   then the workload, then its parameters.
//! * **Blocked and randomised order**: all cells once in a random order, then all again in another.
//!   What drifts over hours (a warming disk, a filling file system) so falls on all cells alike and
//!   shows up as spread between repeats, not as an effect.
//! * **Seeds** come from the study's seed, the cell's name and the repeat, nothing else. So a cell
//!   gives the same figures alone (`--only`) as among others, in any order, on any number of threads.
//!
//! Other designs of the plan (fractional, Plackett–Burman, robust) would be other functions from a
//! study to its cells; nothing behind this file would change.

pub use crate::study::CellSpec;
use crate::study::{Level, Study};
use std::collections::BTreeMap;
use stdx::Prng;

/// The most cells of a study. At ten seconds each, with five repeats, that is a week.
pub const CELLS_MAX: usize = 10_000;

/// Why a study has no cells to run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// Too many combinations.
    #[error(
        "the study has {cells} cells, over the limit of {CELLS_MAX}; shorten a list or leave out levels"
    )]
    TooManyCells {
        /// How many there would be.
        cells: usize,
    },
    /// `only`, `except` and `--set factor.…` leave nothing.
    #[error("no cell is left; 'only', 'except' and --set factor.NAME shut out every one")]
    NoCells,
    /// A pattern that no cell matches.
    #[error(
        "--only '{pattern}' matches no cell; `spindle lab show STUDY` lists their names, as {example}"
    )]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// The name of some cell.
        example: String,
    },
}

/// All cells of a study, in the study's order.
pub fn cells(study: &Study) -> Result<Vec<CellSpec>, DesignError> {
    let combinations =
        study.factors.iter().fold(1_usize, |n, factor| n.saturating_mul(factor.levels.len()));
    let variants: usize = study.workloads.iter().map(|workload| workload.variants.len()).sum();
    // Counted before `only` and `except` thin them out: what is built must be bounded as well.
    let built = combinations.saturating_mul(variants);
    if built > CELLS_MAX * 10 {
        return Err(DesignError::TooManyCells { cells: built });
    }
    let mut cells = Vec::new();
    for number in 0..combinations {
        let factors = combination(study, number);
        let named: Vec<String> = study
            .factors
            .iter()
            .map(|factor| format!("{}={}", factor.name, factors[&factor.name]))
            .collect();
        for workload in study.workloads.iter().filter(|workload| !workload.load_only) {
            if !workload.admits(&factors) {
                continue;
            }
            for variant in &workload.variants {
                let varied: Vec<String> = variant
                    .parameters()
                    .into_iter()
                    .filter(|(name, _)| workload.varying.iter().any(|key| key == name))
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                let parts = [named.join(","), workload.name.clone(), varied.join(",")];
                let parts: Vec<String> =
                    parts.into_iter().filter(|part| !part.is_empty()).collect();
                cells.push(CellSpec {
                    id: parts.join("/"),
                    factors: factors.clone(),
                    workload: variant.clone(),
                    varying: workload.varying.clone(),
                });
            }
        }
    }
    match cells.len() {
        0 => Err(DesignError::NoCells),
        count if count > CELLS_MAX => Err(DesignError::TooManyCells { cells: count }),
        _ => Ok(cells),
    }
}

/// The `number`th combination of the factors' levels; the last factor changes fastest.
fn combination(study: &Study, number: usize) -> BTreeMap<String, Level> {
    let mut rest = number;
    let mut factors = BTreeMap::new();
    for factor in study.factors.iter().rev() {
        let count = factor.levels.len();
        factors.insert(factor.name.clone(), factor.levels[rest % count].clone());
        rest /= count;
    }
    factors
}

/// The cells that one of the patterns matches, all if there is no pattern. A pattern with `*` (any
/// text) or `?` (any letter) must match the whole name; any other must stand somewhere in it.
pub fn select(cells: Vec<CellSpec>, patterns: &[String]) -> Result<Vec<CellSpec>, DesignError> {
    for pattern in patterns {
        if !cells.iter().any(|cell| matches(pattern, &cell.id)) {
            let example = cells.first().map_or_else(String::new, |cell| cell.id.clone());
            return Err(DesignError::NoMatch { pattern: pattern.clone(), example });
        }
    }
    let chosen =
        |cell: &CellSpec| patterns.is_empty() || patterns.iter().any(|p| matches(p, &cell.id));
    Ok(cells.into_iter().filter(chosen).collect())
}

fn matches(pattern: &str, id: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return id.contains(pattern);
    }
    let (pattern, id): (Vec<char>, Vec<char>) = (pattern.chars().collect(), id.chars().collect());
    // Greedy with one place to go back to: the last star and what it has eaten so far.
    let (mut p, mut i) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while i < id.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, i));
                p += 1;
            }
            Some(letter) if *letter == '?' || *letter == id[i] => {
                p += 1;
                i += 1;
            }
            _ => match star {
                None => return false,
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    i = eaten + 1;
                }
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
}

/// The order of a run: (index of the cell, repeat from 0), every cell once before any runs again.
pub fn run_order(cells: usize, repeats: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut order = Vec::with_capacity(cells * repeats as usize);
    for repeat in 0..repeats {
        let mut block: Vec<usize> = (0..cells).collect();
        Prng::for_part(seed, &format!("run order#{repeat}")).shuffle(&mut block);
        order.extend(block.into_iter().map(|cell| (cell, repeat)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Options;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const STUDY: &str = r#"
        title = "t"
        question = "q?"
        machine = {}
        layouts = { a = {}, b = {}, c = {} }
        [[factor]]
        name = "layout"
        levels = ["a", "b", "c"]
        [[factor]]
        name = "cache"
        levels = [true, false]
        [[workload]]
        name = "random"
        kind = "random"
        queue_depth = [1, 16]
        block_size = ["32k", "4k"]
        [[workload]]
        name = "rebuild"
        kind = "rebuild"
        only = { layout = ["b", "c"] }
        except = { cache = false }
    "#;

    fn cells_of(options: &Options) -> Vec<CellSpec> {
        let study = Study::parse("s", "s.toml", STUDY, options).expect("the study is sound");
        cells(&study).expect("it has cells")
    }

    fn whole() -> Vec<CellSpec> {
        cells_of(&Options::default())
    }

    #[test]
    fn every_combination_that_is_admitted_is_a_cell_in_the_studys_order() {
        let cells = whole();
        assert_eq!(cells.len(), 3 * 2 * 4 + 2);
        let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(
            &ids[..5],
            [
                "layout=a,cache=true/random/block_size=32k,queue_depth=1",
                "layout=a,cache=true/random/block_size=32k,queue_depth=16",
                "layout=a,cache=true/random/block_size=4k,queue_depth=1",
                "layout=a,cache=true/random/block_size=4k,queue_depth=16",
                "layout=a,cache=false/random/block_size=32k,queue_depth=1",
            ]
        );
        let rebuilds: Vec<&&str> = ids.iter().filter(|id| id.contains("rebuild")).collect();
        assert_eq!(rebuilds, [&"layout=b,cache=true/rebuild", &"layout=c,cache=true/rebuild"]);
        assert_eq!(cells[0].levels()["queue_depth"], "1");
        assert!(!cells[0].levels().contains_key("align"), "what does not vary is no factor");
    }

    /// A changed name or derivation would make stored results unrepeatable.
    #[test]
    fn the_seed_of_a_repeat_never_changes() {
        let cell = &whole()[0];
        assert_eq!(cell.seed(1, 0), Prng::for_part(1, &format!("{}#0", cell.id)).next_u64());
        assert_ne!(cell.seed(1, 0), cell.seed(1, 1));
        assert_ne!(cell.seed(1, 0), cell.seed(2, 0));
    }

    #[test]
    fn taking_some_levels_renames_nothing() {
        let settings =
            vec!["factor.layout=b".to_owned(), "workload.random.queue_depth=16".to_owned()];
        let some = cells_of(&Options { settings, ..Options::default() });
        let whole: BTreeSet<String> = whole().into_iter().map(|cell| cell.id).collect();
        assert_eq!(some.len(), 2 * 2 + 1);
        assert!(some.iter().all(|cell| whole.contains(&cell.id)), "{some:#?}");
    }

    #[test]
    fn a_plain_pattern_stands_anywhere_and_a_glob_matches_the_whole_name() {
        for (pattern, id, expected) in [
            ("raid5", "layout=raid5-6/random", true),
            ("layout=*/random", "layout=raid5-6/random", true),
            ("raid5*", "layout=raid5-6/random", false),
            ("*raid5*", "layout=raid5-6/random", true),
            ("layout=raid?-6/*", "layout=raid5-6/random", true),
            ("*a*b*c", "xxaxxbxxbxc", true),
            ("*a*b*c", "xxaxxbxxbxd", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, id), expected, "{pattern} on {id}");
        }
    }

    #[test]
    fn a_pattern_without_a_cell_is_refused_with_the_name_of_one() {
        let error = select(whole(), &["raid7".to_owned()]).expect_err("there is no raid7");
        assert!(error.to_string().starts_with("--only 'raid7' matches no cell;"), "{error}");
        let chosen = select(whole(), &["rebuild".to_owned(), "*layout=a*4k*".to_owned()]);
        assert_eq!(chosen.expect("both match").len(), 2 + 4);
    }

    proptest! {
        /// Every cell runs once in every block, whatever the seed.
        #[test]
        fn each_block_of_the_order_holds_each_cell_once(
            cells in 1..40_usize, repeats in 1..6_u32, seed: u64,
        ) {
            let order = run_order(cells, repeats, seed);
            prop_assert_eq!(order.len(), cells * repeats as usize);
            for (repeat, block) in order.chunks(cells).enumerate() {
                let seen: BTreeSet<usize> = block.iter().map(|(cell, _)| *cell).collect();
                prop_assert_eq!(seen.len(), cells);
                prop_assert!(block.iter().all(|(_, r)| *r as usize == repeat));
            }
            prop_assert_eq!(order, run_order(cells, repeats, seed));
        }

        /// A full factorial has the product of all lists, and no name twice.
        #[test]
        fn the_number_of_cells_is_the_product_of_the_lists(
            levels in prop::collection::vec(1..5_i64, 0..4),
            depths in 1..6_u32,
        ) {
            let mut text = String::from("title = 't'\nquestion = 'q'\nmachine = {}\n");
            for (at, count) in levels.iter().enumerate() {
                let list: Vec<i64> = (0..*count).collect();
                text += &format!("[[factor]]\nname = 'f{at}'\nlevels = {list:?}\n");
            }
            let list: Vec<u32> = (1..=depths).collect();
            text += &format!("[[workload]]\nname = 'w'\nkind = 'random'\nqueue_depth = {list:?}\n");
            let study = Study::parse("s", "s.toml", &text, &Options::default()).expect("sound");
            let cells = cells(&study).expect("it has cells");
            let product = levels.iter().product::<i64>() as usize * depths as usize;
            prop_assert_eq!(cells.len(), product);
            let ids: BTreeSet<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
            prop_assert_eq!(ids.len(), product);
        }
    }
}
