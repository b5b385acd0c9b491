//! Tables of a study as the values that a target wants, with refusals that name the key and the mend.
//!
//! serde names neither the key whose value is of a wrong kind nor the known key that is next to an unknown one.

use lab::study::suggest;
use serde::Deserializer;
use serde::de::{DeserializeOwned, Error, Visitor, value};
use serde::forward_to_deserialize_any;
use toml::Table;

/// Reads a table.
///
/// # Errors
/// Which key is wrong, and what to write.
pub fn read<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    if let Some(known) = keys_of::<T>()
        && let Some(key) = table.keys().find(|key| !known.contains(&key.as_str()))
    {
        return Err(format!("unknown key '{key}'; {}", suggest(key, known.iter().copied())));
    }
    let given = table.clone();
    table.try_into().map_err(|error| wrong(&given, &error))
}

/// What is wrong with a value, by its key.
fn wrong(table: &Table, error: &toml::de::Error) -> String {
    let (message, shown) = (one_line(error), error.to_string());
    let key = shown.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let Some(key) = key else { return message };
    match table.get(key) {
        Some(value) if message.ends_with("expected a string") => format!(
            "'{key}' is {value}; it must be a text in quotation marks, such as {key} = \"{}\"",
            value.to_string().replace(['"', '\n'], "")
        ),
        _ => format!("'{key}': {message}"),
    }
}

/// The first line of a TOML error; the rest shows the place in a file that we were not given.
fn one_line(error: &toml::de::Error) -> String {
    error.message().lines().next().unwrap_or("unreadable").to_owned()
}

/// The keys that a table of this kind may have; nothing where it takes any.
fn keys_of<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut keys = None;
    // It asks for its keys first, and gets nothing.
    let _ = T::deserialize(Keys(&mut keys));
    keys
}

/// Hears which keys somebody wants.
struct Keys<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Keys<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("there is no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Given {
        #[expect(dead_code, reason = "its kind counts")]
        file_size: Option<String>,
        #[expect(dead_code, reason = "its kind counts")]
        count: Option<u32>,
    }

    fn refused(text: &str) -> String {
        read::<Given>(text.parse().expect("TOML")).expect_err("it is refused")
    }

    #[test]
    fn a_refusal_names_the_key_and_the_mend() {
        assert_eq!(
            refused("file-sise = \"1\""),
            "unknown key 'file-sise'; did you mean 'file-size'?"
        );
        assert_eq!(refused("colour = 1"), "unknown key 'colour'; there are: file-size, count");
        assert_eq!(
            refused("file-size = 1"),
            "'file-size' is 1; it must be a text in quotation marks, such as file-size = \"1\""
        );
        let count = refused("count = \"a\"");
        assert!(count.starts_with("'count': ") && count.contains("expected u32"), "{count}");
    }
}
