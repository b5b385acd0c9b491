//! The text of a job file: sections of options, comments, includes and environment variables.
//!
//! Rules, as fio has them:
//!
//! 1. A line is `[section]`, `option=value`, a bare `option`, `include FILE`, or empty. What follows a
//!    `;` or `#` is a comment.
//! 2. `[global]` sets what later sections begin with; it may come several times and adds up.
//! 3. `${NAME}` is replaced by the environment variable before the line is taken apart.
//! 4. `include FILE` is read as if it stood there; a relative name is looked for beside the file that
//!    includes it.
//!
//! This file knows no option; `settings` does. Reading files is the caller's, through [`Sources`].

use super::error::{JobError, Place};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that include one another, at the most. fio allows 16.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Lines of a job file with all that it includes. A file of this length has no human reader.
const LINES_MAX: usize = 100_000;

/// Where the texts of files and the values of environment variables come from.
pub trait Sources {
    /// The text of a file.
    ///
    /// # Errors
    /// What the system said.
    fn text(&self, path: &Path) -> Result<String, String>;

    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// One option as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) name: String,
    /// `None` where the option stands alone.
    pub(super) value: Option<String>,
    pub(super) place: Place,
    /// An environment variable in it that is not set. Who uses the option refuses it then; so an engine
    /// that is not supported is named before the variables of its options are missed.
    pub(super) unset: Option<String>,
}

/// One section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) options: Vec<Written>,
}

impl Section {
    pub(super) fn is_global(&self) -> bool {
        self.name.eq_ignore_ascii_case("global")
    }
}

/// Reads a job file.
pub(super) fn read(path: &Path, sources: &dyn Sources) -> Result<Vec<Section>, JobError> {
    let mut reader = Reader { sources, sections: Vec::new(), lines: 0 };
    reader.file(path, &Place { file: path.display().to_string().into(), line: 0, column: 0 }, 0)?;
    Ok(reader.sections)
}

struct Reader<'a> {
    sources: &'a dyn Sources,
    sections: Vec<Section>,
    lines: usize,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, from: &Place, depth: usize) -> Result<(), JobError> {
        let text = self.sources.text(path).map_err(|why| JobError::Unreadable {
            place: from.clone(),
            path: path.display().to_string(),
            why,
        })?;
        let file: Arc<str> = path.display().to_string().into();
        for (index, line) in text.lines().enumerate() {
            self.lines += 1;
            let column = 1 + line.chars().take_while(|c| c.is_whitespace()).count();
            let place = Place { file: Arc::clone(&file), line: index + 1, column };
            if self.lines > LINES_MAX {
                return Err(JobError::TooMany { place, what: "lines", max: LINES_MAX });
            }
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (line, unset) = self.with_variables(line);
            self.line(&line, unset, place, path, depth)?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        line: &str,
        unset: Option<String>,
        place: Place,
        path: &Path,
        depth: usize,
    ) -> Result<(), JobError> {
        let is_option = !line.starts_with('[') && line.contains('=');
        if let Some(name) = &unset
            && !is_option
        {
            return Err(JobError::NoVariable { place, name: name.clone() });
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let Some(name) = name else {
                return Err(JobError::Syntax { place, line: line.into() });
            };
            self.sections.push(Section { name: name.into(), place, options: Vec::new() });
            return Ok(());
        }
        if let Some(name) = line.strip_prefix("include")
            && name.starts_with(char::is_whitespace)
        {
            if depth >= INCLUDE_DEPTH_MAX {
                return Err(JobError::IncludeDepth { place, max: INCLUDE_DEPTH_MAX });
            }
            let beside = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
            return self.file(&beside.join(name.trim()), &place, depth + 1);
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
            None => (line, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(JobError::Syntax { place, line: line.into() });
        }
        let Some(section) = self.sections.last_mut() else {
            return Err(JobError::NoSection { place, option: name.into() });
        };
        section.options.push(Written { name: name.into(), value, place, unset });
        Ok(())
    }

    /// The line with the values of its variables, and the first that has none.
    fn with_variables(&self, line: &str) -> (String, Option<String>) {
        let (mut whole, mut rest, mut unset) = (String::new(), line, None);
        while let Some(at) = rest.find("${") {
            let (before, after) = rest.split_at(at);
            let Some((name, after)) = after[2..].split_once('}') else { break };
            whole.push_str(before);
            match self.sources.variable(name) {
                Some(value) => whole.push_str(&value),
                None => {
                    unset.get_or_insert_with(|| name.to_owned());
                }
            }
            rest = after;
        }
        whole.push_str(rest);
        (whole, unset)
    }
}

#[cfg(test)]
mod tests {
    //! What could break: an option counted to the wrong section, a comment read as a value, a circle of
    //! includes that never ends.

    use super::*;

    struct Files(&'static [(&'static str, &'static str)]);

    impl Sources for Files {
        fn text(&self, path: &Path) -> Result<String, String> {
            let found = self.0.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "not there".into())
        }
        fn variable(&self, name: &str) -> Option<String> {
            (name == "SIZE").then(|| "64k".into())
        }
    }

    fn read_one(text: &'static str) -> Result<Vec<Section>, JobError> {
        let text: &'static [(&str, &str)] = Box::leak(Box::new([("d/j.fio", text)]));
        read(Path::new("d/j.fio"), &Files(text))
    }

    #[test]
    fn sections_options_comments_and_variables_are_read() {
        let text = "; c\n[global]\n  bs = ${SIZE} # c\n[a b]\nstonewall\nfilename=x ; y\n";
        let sections = read_one(text).expect("well formed");
        assert!(sections[0].is_global());
        assert_eq!(sections[0].options[0].value.as_deref(), Some("64k"));
        assert_eq!(sections[0].options[0].place.to_string(), "d/j.fio:3:3");
        assert_eq!((sections[1].name.as_str(), sections[1].options.len()), ("a b", 2));
        assert_eq!(sections[1].options[0].value, None);
        assert_eq!(sections[1].options[1].value.as_deref(), Some("x"));
    }

    #[test]
    fn an_include_is_found_beside_its_file_and_a_circle_ends() {
        let files = Files(&[("d/j.fio", "[a]\ninclude k.fio\n"), ("d/k.fio", "bs=4k\n")]);
        let sections = read(Path::new("d/j.fio"), &files).expect("well formed");
        assert_eq!(sections[0].options[0].place.to_string(), "d/k.fio:1:1");
        let circle = Files(&[("j.fio", "[a]\ninclude j.fio\n")]);
        let error = read(Path::new("j.fio"), &circle).expect_err("a circle");
        assert!(matches!(error, JobError::IncludeDepth { .. }), "{error}");
    }

    #[test]
    fn bad_lines_are_named_with_their_place() {
        for (text, said) in [
            ("[a]\n[b\n", "d/j.fio:2:1: '[b' is not [a section]"),
            ("bs=4k\n", "d/j.fio:1:1: bs stands before the first section"),
            ("[a]\n=4k\n", "d/j.fio:2:1: '=4k' is not"),
            ("[a${X}]\n", "d/j.fio:1:1: the environment variable X is not set"),
            ("[a]\ninclude no.fio\n", "d/j.fio:2:1: reading d/no.fio: not there"),
        ] {
            let error = read_one(text).expect_err(text).to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
