//! What is wrong with a study file, in one line that names the place and the mend.
//!
//! Reading goes in two steps: a reader finds a [`Fault`] at a path of keys (`workload[0].op`), and
//! the study turns it into a [`StudyError`] by looking the path up: in the file, where it has a line,
//! or among the `--set` options, where that is the place to mend it.

use std::fmt;

/// Why a study can't be run, and where it says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct StudyError {
    /// `studies/x.toml:12` or `--set repeats=x`.
    pub place: String,
    /// What is wrong there. In a box, so that a result of a small value stays small.
    pub problem: Box<Problem>,
}

/// What can be wrong with a study.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file can't be read.
    #[error("the study can't be read: {why}; `spindle lab list` shows the studies that ship")]
    Unreadable {
        /// The system's reason.
        why: String,
    },
    /// The file is no TOML.
    #[error("this is no TOML: {why}")]
    Syntax {
        /// The parser's reason.
        why: String,
    },
    /// A key that nothing reads.
    #[error("unknown key '{key}' in {within}; {mend}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The table, in words.
        within: String,
        /// `did you mean 'repeats'?`, or the keys that there are.
        mend: String,
    },
    /// A key that must be there.
    #[error("{within} has no '{key}'; {mend}")]
    MissingKey {
        /// The key.
        key: String,
        /// The table, in words.
        within: String,
        /// What to write.
        mend: String,
    },
    /// A value that the key can't take.
    #[error("'{key}' in {within} is {value}; it must be {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// The table, in words.
        within: String,
        /// The value as TOML writes it, cut short.
        value: String,
        /// What it could be.
        expected: String,
    },
    /// A name that nothing in the study has.
    #[error("{within} names the {what} '{name}', which {scope} does not have; {mend}")]
    UnknownName {
        /// `layout`, `workload`, `factor`, `level`.
        what: String,
        /// The name.
        name: String,
        /// The table that names it, in words.
        within: String,
        /// What should have it: `the study`, `factor 'layout'`.
        scope: String,
        /// `did you mean 'raid5-6'?`, or the names that there are.
        mend: String,
    },
    /// Two things of one name.
    #[error("{what} '{name}' stands twice in {within}; give each a name of its own")]
    Twice {
        /// `workload`, `factor`, `level`.
        what: String,
        /// The name.
        name: String,
        /// The table, in words.
        within: String,
    },
    /// Parts that do not go together.
    #[error("{what}: {why}; {mend}")]
    Contradiction {
        /// The part, in words.
        what: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        mend: String,
    },
}

/// A step into nested tables and lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into a table.
    Key(String),
    /// Into a list, counted from 0.
    Index(usize),
}

/// A place in a study, from its top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl Path {
    /// This place's part of the name `key`.
    pub(crate) fn key(&self, key: &str) -> Path {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Path(steps)
    }
    /// This list's item.
    pub(crate) fn index(&self, index: usize) -> Path {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Path(steps)
    }
    /// Whether this place lies at or within `other`.
    pub(crate) fn is_within(&self, other: &Path) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if at == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A problem at a place that is not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where.
    pub(crate) path: Path,
    /// What.
    pub(crate) problem: Box<Problem>,
}

impl Fault {
    /// This problem at this place.
    pub(crate) fn new(path: Path, problem: Problem) -> Fault {
        Fault { path, problem: Box::new(problem) }
    }
}

/// How many names an error lists before it says "and n more".
const NAMES_SHOWN_MAX: usize = 12;

/// `did you mean 'repeats'?` where a known name is near, else the names that there are.
pub fn suggest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let near = known
        .iter()
        .map(|name| (strsim::levenshtein(&wrong.to_lowercase(), &name.to_lowercase()), *name))
        .min_by_key(|(distance, _)| *distance);
    match near {
        // A third of the letters may be wrong, two at least: "repeat", "queuedepth", "raid5_6".
        Some((distance, name)) if distance <= (wrong.chars().count() / 3).max(2) => {
            format!("did you mean '{name}'?")
        }
        Some(_) => {
            let shown = known.iter().take(NAMES_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
            match known.len().saturating_sub(NAMES_SHOWN_MAX) {
                0 => format!("there are: {shown}"),
                more => format!("there are: {shown} and {more} more"),
            }
        }
        None => "there are none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_gets_the_name_that_was_meant() {
        let known = ["repeats", "confidence", "seed"];
        assert_eq!(suggest("repeat", known), "did you mean 'repeats'?");
        assert_eq!(suggest("Confidnce", known), "did you mean 'confidence'?");
        assert_eq!(suggest("colour", known), "there are: repeats, confidence, seed");
    }

    #[test]
    fn a_path_reads_as_a_person_would_write_it() {
        let path = Path::default().key("workload").index(2).key("op");
        assert_eq!(path.to_string(), "workload[2].op");
        assert!(path.is_within(&Path::default().key("workload")));
        assert!(!path.is_within(&Path::default().key("work")));
    }
}
