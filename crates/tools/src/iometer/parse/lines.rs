//! The lines of an `.icf` file, and the fields in them, with their places.

use super::{FILE_BYTES_MAX, IcfError, IcfErrorKind};

/// A line of the file.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    number: u32,
    raw: &'a str,
}

impl<'a> Line<'a> {
    /// Without the space at both ends.
    pub(super) fn text(&self) -> &'a str {
        self.raw.trim()
    }
}

/// Where the reader is in the file.
pub(super) struct Lines<'a> {
    file: &'a str,
    rest: std::iter::Peekable<std::iter::Enumerate<std::str::Lines<'a>>>,
    last: u32,
}

/// Whether `text` begins with `prefix`, whatever the case.
pub(super) fn begins_with(text: &str, prefix: &str) -> bool {
    after_prefix(text, prefix).is_some()
}

/// What follows `prefix`, whatever its case.
pub(super) fn after_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// Whether it is a comment rather than a key: space after its quote, or nothing.
pub(super) fn is_comment(text: &str) -> bool {
    text.strip_prefix('\'').is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Whether it ends something, so that nothing belongs to it.
fn is_end(text: &str) -> bool {
    begins_with(text, "'End") || begins_with(text, "Version")
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Result<Lines<'a>, IcfError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = Lines { file, rest: text.lines().enumerate().peekable(), last: 0 };
        if text.len() > FILE_BYTES_MAX {
            return Err(lines.error_at_end(IcfErrorKind::TooLarge));
        }
        Ok(lines)
    }

    fn next(&mut self) -> Option<Line<'a>> {
        let (index, raw) = self.rest.next()?;
        self.last = u32::try_from(index + 1).unwrap_or(u32::MAX);
        Some(Line { number: self.last, raw })
    }

    fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().map(|(_, raw)| raw.trim())
    }

    /// The next line that is not empty.
    pub(super) fn next_key_line(&mut self) -> Option<Line<'a>> {
        loop {
            let line = self.next()?;
            if !line.text().is_empty() {
                return Some(line);
            }
        }
    }

    /// The next line that is not empty, within a section that `end` ends.
    pub(super) fn line(
        &mut self,
        section: &'static str,
        end: &'static str,
    ) -> Result<Line<'a>, IcfError> {
        let kind = IcfErrorKind::UnexpectedEnd { section, end };
        self.next_key_line().ok_or_else(|| self.error_at_end(kind))
    }

    /// The next line within a section, which must be a key.
    pub(super) fn key(
        &mut self,
        section: &'static str,
        end: &'static str,
    ) -> Result<Line<'a>, IcfError> {
        let line = self.line(section, end)?;
        if !line.text().starts_with('\'') {
            let found = line.text().to_owned();
            let kind = IcfErrorKind::Expected { expected: "a key, which begins with '", found };
            return Err(self.error(&line, line.text(), kind));
        }
        Ok(line)
    }

    /// What belongs to a key whose value is text: the next line, unless that is a key itself.
    pub(super) fn text_value(&mut self) -> &'a str {
        while self.peek().is_some_and(is_comment) {
            self.next();
        }
        if self.peek().is_some_and(|text| text.starts_with('\'')) {
            return "";
        }
        self.next().map_or("", |line| line.text())
    }

    /// What belongs to a key whose value is data: the next line that is no title of columns.
    pub(super) fn data(&mut self, what: &'static str) -> Result<Fields<'a>, IcfError> {
        loop {
            let line = match self.next() {
                Some(line) => line,
                None => {
                    let found = "the end of the file".to_owned();
                    return Err(self.error_at_end(IcfErrorKind::Expected { expected: what, found }));
                }
            };
            let text = line.text();
            if text.is_empty() || is_end(text) {
                let kind = IcfErrorKind::Expected { expected: what, found: text.to_owned() };
                return Err(self.error(&line, text, kind));
            }
            if !text.starts_with('\'') {
                return Ok(Fields::new(line));
            }
        }
    }

    /// The next line if it is data: neither a key nor the end of the file. Empty lines are skipped.
    pub(super) fn data_if_any(&mut self) -> Option<Fields<'a>> {
        while self.peek().is_some_and(str::is_empty) {
            self.next();
        }
        if self.peek()?.starts_with('\'') {
            return None;
        }
        self.next().map(Fields::new)
    }

    /// An error at `part`, which lies in the line.
    pub(super) fn error(&self, line: &Line<'_>, part: &str, kind: IcfErrorKind) -> IcfError {
        // Both lie in the same text, so the distance of their starts is the place of the part.
        let at = (part.as_ptr() as usize).saturating_sub(line.raw.as_ptr() as usize);
        let before = line.raw.get(..at).unwrap_or("");
        let column = u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX);
        IcfError { file: self.file.to_owned(), line: line.number, column, kind }
    }

    /// An error where the reader is.
    pub(super) fn error_at_end(&self, kind: IcfErrorKind) -> IcfError {
        IcfError { file: self.file.to_owned(), line: self.last.max(1), column: 1, kind }
    }
}

/// The fields of a line of data: divided by commas, or by space where a file has none.
pub(super) struct Fields<'a> {
    /// The line.
    pub(super) line: Line<'a>,
    rest: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(line: Line<'a>) -> Fields<'a> {
        Fields { line, rest: Some(line.text()) }
    }

    /// The whole line.
    pub(super) fn text(&self) -> &'a str {
        self.line.text()
    }

    /// What is left of the line.
    pub(super) fn remainder(&mut self) -> &'a str {
        self.rest.take().unwrap_or("").trim()
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_none_or(|rest| rest.trim().is_empty())
    }

    /// The next field up to a comma.
    pub(super) fn up_to_comma(&mut self) -> &'a str {
        let Some(rest) = self.rest else {
            // Past the end: an empty part at the end of the line, so that errors point there.
            let text = self.line.text();
            return &text[text.len()..];
        };
        match rest.split_once(',') {
            Some((field, rest)) => {
                self.rest = Some(rest);
                field.trim()
            }
            None => {
                self.rest = None;
                rest.trim()
            }
        }
    }

    /// The next field up to space or a comma.
    pub(super) fn word(&mut self) -> &'a str {
        let Some(rest) = self.rest else {
            return self.up_to_comma();
        };
        let rest = rest.trim_start();
        let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        let rest = rest.trim_start();
        self.rest = Some(rest.strip_prefix(',').unwrap_or(rest));
        word
    }

    /// `field` as a number of `what` between `min` and `max`.
    pub(super) fn number(
        &self,
        lines: &Lines<'a>,
        field: &str,
        what: &'static str,
        min: u64,
        max: u64,
    ) -> Result<u64, IcfError> {
        let Ok(found) = field.parse::<u64>() else {
            let kind = IcfErrorKind::NotNumber { what, found: field.to_owned() };
            return Err(lines.error(&self.line, field, kind));
        };
        if !(min..=max).contains(&found) {
            let kind = IcfErrorKind::OutOfRange { what, found, min, max };
            return Err(lines.error(&self.line, field, kind));
        }
        Ok(found)
    }

    /// `field` as one of some words; a number counts as its place in `numbered`.
    pub(super) fn one_of<T: Copy>(
        &self,
        lines: &Lines<'a>,
        field: &str,
        what: &'static str,
        words: &'static str,
        meanings: &[(&str, T)],
        numbered: &[T],
    ) -> Result<T, IcfError> {
        let word = meanings.iter().find(|(word, _)| word.eq_ignore_ascii_case(field));
        let number = || field.parse::<usize>().ok().and_then(|number| numbered.get(number));
        match word.map(|(_, meaning)| meaning).or_else(number) {
            Some(meaning) => Ok(*meaning),
            None => {
                let kind = IcfErrorKind::UnknownWord { what, found: field.to_owned(), words };
                Err(lines.error(&self.line, field, kind))
            }
        }
    }
}
