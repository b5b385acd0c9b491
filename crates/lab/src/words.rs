//! What several texts say alike.

/// Names as a sentence has them: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// The first of some texts, and how many more there are.
pub(crate) fn first_of(mut texts: Vec<String>, max: usize, between: &str) -> String {
    let more = texts.len().saturating_sub(max);
    texts.truncate(max);
    match more {
        0 => texts.join(between),
        more => format!("{}{between}and {more} more", texts.join(between)),
    }
}
