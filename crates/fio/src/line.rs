//! Jobs by options, as fio's command line has them.
//!
//! Rules, as fio has them (init.c):
//!
//! 1. An option begins with one dash or two; its value follows a `=` or is the next word. What is a flag takes a value by `=`
//!    alone. What is no option, or stands behind `--`, is a job file.
//! 2. `--name` begins a job, to which the options after it belong; those before the first, and after `--name=global`, are
//!    defaults of all jobs that follow.
//! 3. Jobs of the command line come before those of job files, wherever the files are named. Its defaults hold for the first
//!    file, too.
//!
//! Words stand for themselves: what the shell left of `${NAME}` is not replaced.

use super::error::{JobError, Place};
use super::ini::{Section, Written};
use super::names;
use std::fmt::Write;
use std::path::PathBuf;

/// What the places of such options are called.
const FILE: &str = "command line";
/// The section that holds defaults.
const GLOBAL: &str = "global";

/// A command line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub(super) sections: Vec<Section>,
    /// The job files that it names.
    pub files: Vec<PathBuf>,
}

fn place() -> Place {
    Place { file: FILE.into(), line: 0, column: 0 }
}

/// The option that a word is, with what stands behind its `=`.
fn option(word: &str) -> Option<(&str, Option<&str>)> {
    let text = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    (!name.is_empty()).then_some((name, value))
}

impl CommandLine {
    /// Takes words apart.
    ///
    /// # Errors
    /// An option is not known, or lacks its value.
    pub fn read(words: &[String]) -> Result<CommandLine, JobError> {
        let mut line = CommandLine::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                line.files.extend(words.by_ref().map(PathBuf::from));
                break;
            }
            let Some((written, value)) = option(word) else {
                line.files.push(word.into());
                continue;
            };
            let name = names::canonical(written);
            if let Some(error) = names::unknown(&name, written, place()) {
                return Err(error);
            }
            let value = match value {
                // What begins with a dash is hardly ever meant as a value.
                None if !names::is_flag(&name) => {
                    words.next().map(String::as_str).filter(|next| option(next).is_none())
                }
                value => value,
            };
            if !names::is_flag(&name) && value.is_none_or(str::is_empty) {
                return Err(JobError::NoValue { place: place(), option: written.into() });
            }
            line.add(written, &name, value);
        }
        Ok(line)
    }

    fn add(&mut self, written: &str, name: &str, value: Option<&str>) {
        let begin = match (name, value) {
            ("name", Some(value)) => Some(value),
            _ if self.sections.is_empty() => Some(GLOBAL),
            _ => None,
        };
        if let Some(name) = begin {
            let options = Vec::new();
            self.sections.push(Section { name: name.to_owned(), place: place(), options });
        }
        if name != "name"
            && let Some(section) = self.sections.last_mut()
        {
            let (name, value) = (written.to_owned(), value.map(str::to_owned));
            section.options.push(Written { name, value, place: place(), unset: None });
        }
    }

    /// The name of the first job; nothing where no job is given by options.
    pub fn job(&self) -> Option<&str> {
        let mut jobs = self.sections.iter().filter(|section| !section.is_global());
        jobs.next().map(|section| section.name.as_str())
    }

    /// The job file that says the same as the options; empty where there are none.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            // Writing to a string can't fail.
            let _ = writeln!(text, "[{}]", section.name);
            for option in &section.options {
                let _ = match &option.value {
                    Some(value) => writeln!(text, "{}={value}", option.name),
                    None => writeln!(text, "{}", option.name),
                };
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    //! What could break: an option that goes to another job, a file that is taken for a value, a value for a file.

    use super::*;

    fn read(words: &[&str]) -> Result<CommandLine, JobError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        CommandLine::read(&words)
    }

    #[test]
    fn options_are_of_the_job_before_them() {
        let line = read(&[
            "--bs=4k",
            "-rw",
            "randread",
            "one.fio",
            "--name=a",
            "--size",
            "1m",
            "--time_based",
            "two.fio",
            "-name",
            "b",
            "--norandommap=0",
            "--filename=x=y",
            "--",
            "--three",
        ]);
        let line = line.expect("well formed");
        let text = "[global]\nbs=4k\nrw=randread\n[a]\nsize=1m\ntime_based\n[b]\nnorandommap=0\nfilename=x=y\n";
        assert_eq!(line.text(), text);
        assert_eq!(line.files, ["one.fio", "two.fio", "--three"].map(PathBuf::from));
        assert_eq!(line.job(), Some("a"));
        assert_eq!(read(&["--rw=read", "j.fio"]).expect("well formed").job(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, said) in [
            (
                &["--name=a", "--iodpeth=4"][..],
                "command line: unknown option iodpeth; did you mean iodepth?",
            ),
            (
                &["--name=a", "--cpus_allowed=1"],
                "command line: option cpus_allowed is not supported",
            ),
            (
                &["--name=a", "--direct", "--rw=read"],
                "command line: --direct needs a value: --direct=VALUE",
            ),
            (&["--name"], "command line: --name needs a value"),
            (&["--name="], "command line: --name needs a value"),
        ] {
            let error = read(words).expect_err("it is wrong").to_string();
            assert!(error.starts_with(said), "{words:?}: {error}");
        }
    }
}
