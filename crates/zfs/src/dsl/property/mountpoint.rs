//! Where file systems are mounted by themselves: the property `mountpoint`, which goes on with the name of what inherits it.

use super::effective::{Effective, Origin, value_text};

/// Where it is where nobody set one: the names of datasets are paths.
const DEFAULT: &str = "/";

/// A value as it is for the dataset of this name: what is inherited, and the rest of the name behind it. `legacy` and `none` are
/// inherited as they are.
pub fn continued(name: &str, text: &str, origin: &Origin) -> String {
    if !text.starts_with('/') {
        return text.to_owned();
    }
    let rest = match origin {
        Origin::Local | Origin::Received | Origin::None => "",
        Origin::Inherited(from) => name.get(from.len()..).unwrap_or(""),
        Origin::Default => name,
    };
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    match (text, rest) {
        (_, "") => text.to_owned(),
        ("/", _) => format!("/{rest}"),
        _ if rest.starts_with('@') => format!("{text}{rest}"),
        _ => format!("{text}/{rest}"),
    }
}

/// A mountpoint of a pool whose mountpoints are below a directory, as it is shown. `legacy` and `none` are as they are.
pub fn below(altroot: Option<&str>, text: String) -> String {
    match (altroot.map(|altroot| altroot.trim_end_matches('/')), &*text) {
        (Some(altroot), "/") if !altroot.is_empty() => altroot.to_owned(),
        (Some(altroot), path) if path.starts_with('/') => format!("{altroot}{path}"),
        _ => text,
    }
}

/// Where the dataset of this name is mounted by itself, with where that comes from.
pub fn of(name: &str, set: &[Effective]) -> (String, Origin) {
    let found = set.iter().find(|set| set.name == "mountpoint");
    let (text, origin) = match found {
        Some(set) => (value_text(&set.value), set.origin.clone()),
        None => (DEFAULT.to_owned(), Origin::Default),
    };
    (continued(name, &text, &origin), origin)
}

/// Whether a child is mounted elsewhere than in the directory of what is above it.
pub fn leads_away(above: (&str, &[Effective]), child: (&str, &[Effective])) -> bool {
    let (path, origin) = of(child.0, child.1);
    let is_own = matches!(origin, Origin::Local | Origin::Received);
    let last = child.0.rsplit('/').next().unwrap_or(child.0);
    let (outer, _) = of(above.0, above.1);
    is_own && path != format!("{}/{last}", outer.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::dsl::property::PropertyValue;

    fn set(text: &str, origin: Origin) -> Vec<Effective> {
        let value = PropertyValue::Text(text.into());
        vec![Effective { name: "mountpoint".to_owned(), value, origin }]
    }

    #[test]
    fn what_is_below_another_root_is_shown_there() {
        for (altroot, text, shown) in [
            (None, "/m", "/m"),
            (Some("/mnt"), "/m", "/mnt/m"),
            (Some("/mnt/"), "/", "/mnt"),
            (Some("/"), "/", "/"),
            (Some("/mnt"), "legacy", "legacy"),
        ] {
            assert_eq!(below(altroot, text.to_owned()), shown);
        }
    }

    #[test]
    fn a_child_leads_away_only_by_what_is_set_on_itself() {
        let inherited = || Origin::Inherited("t".to_owned());
        let above = set("/m", Origin::Local);
        for (text, origin, leads) in [
            ("/m", inherited(), false),
            ("/home", Origin::Local, true),
            ("/m/a", Origin::Local, false),
            ("/m/b", Origin::Local, true),
            ("none", Origin::Local, true),
            ("legacy", Origin::Received, true),
        ] {
            let child = set(text, origin);
            assert_eq!(leads_away(("t", &above), ("t/a", &child)), leads, "{text}");
        }
        assert!(!leads_away(("t", &[]), ("t/a", &[])));
        assert!(!leads_away(("t", &set("/", Origin::Local)), ("t/a", &set("/a", Origin::Local))));
    }
}
