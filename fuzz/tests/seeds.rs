//! Every target over its seeds, and over changes of them.
//!
//! What could break: a target that no longer compiles or runs, a seed that panics, a claim that a small change of a
//! seed breaks. This is no fuzzing; it is what the stable compiler can hold on to between two runs of the fuzzer.

#![allow(clippy::disallowed_methods, reason = "each target gets its share of time")]

use fuzz::{TARGETS, Target};
use std::time::{Duration, Instant};
use stdx::Prng;

/// How long one target is given.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Targets that read or write whole pools, which are slow.
const WHOLE_POOLS: [&str; 2] = ["zfs_pool", "zfs_written"];
/// Changes of a seed at the most.
const CHANGES: u64 = 400;

/// Changes an input as a fuzzer does that knows nothing.
fn change(input: &mut Vec<u8>, random: &mut Prng) {
    for _ in 0..=random.below(4) {
        let len = input.len() as u64;
        let at = random.below(len.max(1)) as usize;
        match random.below(5) {
            0 if len > 0 => input[at] ^= 1 << random.below(8),
            1 if len > 0 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 if len > 8 => {
                let word = (random.next_u64() >> random.below(64)).to_le_bytes();
                let at = at.min(input.len() - 8);
                input[at..at + 8].copy_from_slice(&word);
            }
            3 => input.truncate(at),
            _ => {
                let extra = random.below(24) as usize;
                input.splice(at..at, (0..extra).map(|_| random.next_u64() as u8));
            }
        }
    }
}

fn run(target: &Target) {
    run_for(target, TIME_MAX, 1);
}

/// Runs a target over its seeds and changes of them; says how often.
fn run_for(target: &Target, time: Duration, seed: u64) -> usize {
    let (seeds, begin) = ((target.seeds)(), Instant::now());
    assert!(!seeds.is_empty(), "{} has seeds", target.name);
    let (mut random, mut count) = (Prng::new(seed), seeds.len());
    for seed in &seeds {
        (target.run)(seed);
    }
    for _ in 0..CHANGES {
        for seed in &seeds {
            if begin.elapsed() > time {
                return count;
            }
            count += 1;
            let mut input = seed.clone();
            change(&mut input, &mut random);
            // What panics is shown, so that it can be run alone: `cargo fuzz run` takes a file.
            let shown = Shown { name: target.name, input: &input };
            (target.run)(shown.input);
            std::mem::forget(shown);
        }
    }
    count
}

/// Prints an input where a panic passes.
struct Shown<'a> {
    name: &'a str,
    input: &'a [u8],
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("{} panics on {:02x?}", self.name, self.input);
    }
}

#[test]
fn every_target_holds_on_its_seeds_and_on_changes_of_them() {
    TARGETS.iter().filter(|target| !WHOLE_POOLS.contains(&target.name)).for_each(run);
}

#[test]
fn whole_pools_hold_on_seeds_and_changes_of_them() {
    run(fuzz::target("zfs_pool"));
}

#[test]
fn pools_that_are_written_hold_on_seeds_and_changes_of_them() {
    run(fuzz::target("zfs_written"));
}

/// As long as `SECONDS` says, from `SEED`.
#[test]
#[ignore = "a campaign"]
fn pools_that_are_written_hold_for_long() {
    let number = |name: &str, otherwise| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (seconds, begin) = (Duration::from_secs(number("SECONDS", 600)), Instant::now());
    let mut count = 0;
    for seed in number("SEED", 1).. {
        let Some(left) = seconds.checked_sub(begin.elapsed()) else { break };
        count += run_for(fuzz::target("zfs_written"), left, seed);
        println!("seed {seed}: {count} inputs");
    }
}

#[test]
fn each_target_has_its_file_and_its_line_in_the_manifest() {
    let manifest = include_str!("../Cargo.toml");
    for Target { name, .. } in TARGETS {
        let text = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&text), "{name} is no [[bin]]");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz_targets");
        assert!(std::path::Path::new(folder).join(format!("{name}.rs")).is_file(), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
