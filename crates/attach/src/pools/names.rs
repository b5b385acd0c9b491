//! Names of datasets, and what is wrong with them in OpenZFS's words.

use crate::error::Error;
use ::zfs::dsl::dependents::by_guid;
use ::zfs::spa::Spa;
use ::zfs::spa::datasets::limits::NAME_BYTES_MAX;
use std::borrow::Cow;

/// The part of a dataset's name that is the pool's.
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@', '#']).next().unwrap_or(name)
}

/// A dataset's name as its pool has it: one that begins with the pool's GUID begins with its name there.
pub fn within<'a>(spa: &Spa, name: &'a str) -> Cow<'a, str> {
    by_guid(name, spa.guid(), spa.name())
}

/// Whether a name can be one of a dataset.
///
/// # Errors
/// What is wrong with it, in OpenZFS's words.
pub fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |why: &str| Err(Error::BadName { name: name.into(), why: why.into() });
    if name.len() > NAME_BYTES_MAX {
        return wrong("name is too long");
    }
    if name.starts_with('/') {
        return wrong("leading slash in name");
    }
    if name.ends_with('/') {
        return wrong("trailing slash in name");
    }
    let (path, after) = match name.find(['@', '#']) {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    if path.split('/').any(str::is_empty) || after == Some("") {
        return wrong("empty component or misplaced '@' or '#' delimiter in name");
    }
    if after.is_some_and(|after| after.contains(['@', '#', '/'])) {
        return wrong("multiple '@' and/or '#' delimiters in name");
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.: /@#%".contains(c);
    match name.chars().find(|c| !fits(*c)) {
        Some(c) => wrong(&format!("invalid character '{}' in name", c.escape_debug())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_wrong_with_it() {
        for good in ["tank", "tank/home", "tank/a b@x:1", "tank/a#mark", "1tank/%recv"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for (name, text) in [
            ("bad name!", "invalid character '!' in name"),
            ("/tank", "leading slash"),
            ("tank/", "trailing slash"),
            ("tank//a", "empty component"),
            ("tank@", "empty component"),
            ("tank@a@b", "multiple '@'"),
            ("tank@a/b", "multiple '@'"),
            ("tank/a\nb", "invalid character '\\n' in name"),
        ] {
            let message = check_name(name).expect_err(name).to_string();
            assert!(message.contains(text), "{message}");
        }
        assert!(check_name(&"a".repeat(256)).is_err());
        assert_eq!((pool_of("a/b@c"), pool_of("a#b"), pool_of("a")), ("a", "a", "a"));
    }
}
