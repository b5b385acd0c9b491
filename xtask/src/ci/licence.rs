//! Is a licence one that we allow? SPDX expressions, as Cargo.toml states them.
//!
//! Grammar: names joined by `AND` (binds more) and `OR`, in brackets where needed; `NAME WITH EXCEPTION` is
//! one name; `/` is the old way to write `OR`. An expression is allowed when the allowed names satisfy it:
//! one side of an `OR`, both of an `AND`.

/// Permissive licences, with no duty beyond keeping their notice.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Brackets within brackets that are read at the most; no licence has more than two.
const DEPTH_MAX: usize = 8;

/// Whether the allowed licences satisfy this expression.
pub(super) fn is_allowed(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, depth: 0 };
    match reader.any_of() {
        Some(allowed) if reader.words.is_empty() => Ok(allowed),
        _ => Err(format!("the licence '{expression}' is no SPDX expression that we can read")),
    }
}

struct Reader<'a> {
    words: &'a [&'a str],
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        self.words = &self.words[usize::from(found)..];
        found
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut allowed = self.all_of()?;
        while self.take("OR") {
            allowed |= self.all_of()?;
        }
        Some(allowed)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            self.depth += 1;
            let inner = if self.depth <= DEPTH_MAX { self.any_of() } else { None };
            self.depth -= 1;
            return inner.filter(|_| self.take(")"));
        }
        let mut name = self.word()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.word()?);
        }
        Some(ALLOWED.contains(&&*name))
    }

    fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        (!["OR", "AND", "WITH", "(", ")"].contains(word)).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_or_needs_one_side_and_an_and_needs_both() {
        for (expression, allowed) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT/Apache-2.0", true),
            ("LGPL-2.1-or-later OR MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("MIT OR GPL-3.0-only AND GPL-2.0-only", true),
            ("(MIT OR GPL-3.0-only) AND GPL-2.0-only", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0 WITH Bison-exception-2.2", false),
        ] {
            assert_eq!(is_allowed(expression), Ok(allowed), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error_not_an_allowance() {
        for expression in
            ["", "MIT OR", "(MIT", "MIT Apache-2.0", "OR MIT", "MIT WITH", &"(".repeat(100)]
        {
            assert!(is_allowed(expression).is_err(), "{expression}");
        }
    }
}
