//! `cargo xtask ci`: every check of the project, cheapest first, in one command.
//!
//! Each step prints a line with its time, and the first that fails ends the run with one line that says
//! why and, where there is one, what to type. What the steps run prints as it goes. Nothing reads from the
//! terminal, and nothing is installed; a step that needs what is missing fails and names it.
//!
//! A step that hangs is ended, and what it hung in is shown ([`patience`]).
//!
//! `--list` names the steps, `--only STEP` (repeatable) runs some of them.

mod commands;
mod dependencies;
mod house;
mod licence;
mod patience;
mod workspace;

use crate::failure::Failure;
use std::time::Instant;
use workspace::Workspace;

/// A check: its name, what it claims, its code.
type Step = (&'static str, &'static str, fn(&Workspace) -> Result<(), String>);

const STEPS: &[Step] = &[
    ("fmt", "the sources are formatted", commands::fmt),
    (
        "house",
        "arrows between crates point down; unsafe, names and headers keep the rules",
        house::check,
    ),
    (
        "dependencies",
        "the lock file is whole; licences and sources are allowed ones",
        dependencies::check,
    ),
    ("clippy", "no lint, on all targets", commands::clippy),
    ("test", "the README's test command passes, in the thorough form", commands::test),
    ("fuzz", "fuzz targets hold on their seeds and on changes of them", commands::test_fuzz),
    (
        "readme",
        "the README's first command, shortened, leaves whole results; a release is built",
        commands::readme,
    ),
    ("docs", "the documentation builds without a warning", commands::docs),
];

/// `cargo xtask ci …`
pub fn run(args: &[String]) -> Result<(), Failure> {
    let steps = match chosen(args)? {
        Some(steps) => steps,
        None => {
            for (name, what, _) in STEPS {
                println!("{name:<14} {what}");
            }
            return Ok(());
        }
    };
    let workspace = Workspace::here()?;
    let begin = Instant::now();
    for (name, what, step) in &steps {
        println!("ci: {name}: {what}");
        let step_begin = Instant::now();
        let outcome = step(&workspace);
        let seconds = step_begin.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("ci: {name}: ok, {seconds:.1} s"),
            Err(reason) => {
                let reason = format!("ci: {name}: failed after {seconds:.1} s: {reason}");
                return Err(Failure::Failed(reason));
            }
        }
    }
    let (count, seconds) = (steps.len(), begin.elapsed().as_secs_f64());
    println!("ci: all {count} steps passed in {seconds:.0} s");
    Ok(())
}

/// The steps to run, in their order; `None` when they are to be listed.
fn chosen(args: &[String]) -> Result<Option<Vec<Step>>, Failure> {
    let usage = |problem: String| {
        Failure::Usage(format!("{problem}\nusage: cargo xtask ci [--list] [--only STEP]..."))
    };
    let mut only: Vec<&str> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => return Ok(None),
            "--only" => {
                let name = args.next().ok_or_else(|| usage("--only takes a step".into()))?;
                if !STEPS.iter().any(|(known, ..)| known == name) {
                    return Err(usage(format!("there is no step '{name}'; --list names them")));
                }
                only.push(name);
            }
            other => return Err(usage(format!("'{other}' is not known"))),
        }
    }
    let steps = STEPS.iter().filter(|(name, ..)| only.is_empty() || only.contains(name));
    Ok(Some(steps.copied().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn steps_run_in_their_own_order_whatever_the_order_of_asking() {
        let steps = chosen(&args("--only docs --only fmt")).expect("known steps").expect("steps");
        assert_eq!(steps.iter().map(|step| step.0).collect::<Vec<_>>(), ["fmt", "docs"]);
        let all = chosen(&[]).expect("no arguments").expect("steps");
        assert_eq!(all.len(), STEPS.len());
    }

    #[test]
    fn an_unknown_step_or_flag_is_named() {
        for (text, named) in
            [("--only speed", "'speed'"), ("--fast", "'--fast'"), ("--only", "--only")]
        {
            let Err(Failure::Usage(message)) = chosen(&args(text)) else {
                panic!("{text} is accepted")
            };
            assert!(message.contains(named));
        }
    }
}
