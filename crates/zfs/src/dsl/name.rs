//! Names of datasets: `tank/home/ann`.

/// The rest of a dataset's name where it is `outer` or lies below it: empty, or `/ann`.
pub fn below<'a>(outer: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(outer).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_name_that_only_begins_alike_is_not_below() {
        assert_eq!(below("a", "a/b"), Some("/b"));
        assert_eq!(below("a", "a"), Some(""));
        assert_eq!(below("a", "ab"), None);
    }
}
