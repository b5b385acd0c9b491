//! The shape of `-j`: which command and version, then datasets or pools by name, each with its properties.
//!
//! With `--json-int` what is a number is a number; else all is text. A value that reads as a decimal number counts as
//! one.
//!
//! Source: OpenZFS 2.3, `libzfs_util.c` (`zprop_nvlist_one_property`), `zfs_main.c` (`fill_dataset_info`).

use crate::printable;
use serde_json::{Map, Value, json};
use zfs::dsl::property::effective::Origin;

/// The beginning: the command that wrote it.
pub fn schema(command: &str) -> Map<String, Value> {
    let version = json!({ "command": command, "vers_major": 0, "vers_minor": 1 });
    Map::from_iter([("output_version".to_owned(), version)])
}

/// Text, or a number where numbers are wanted and it is one.
pub fn value(text: &str, numbers: bool) -> Value {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if numbers && is_number => number.into(),
        _ => text.into(),
    }
}

/// A property's value and source; of a received one what was received is its source.
pub fn property(text: &str, origin: &Origin, received: Option<&str>, numbers: bool) -> Value {
    let (kind, data) = match origin {
        Origin::None => ("NONE", "-"),
        Origin::Default => ("DEFAULT", "-"),
        Origin::Local => ("LOCAL", "-"),
        Origin::Received => ("RECEIVED", received.unwrap_or("-")),
        Origin::Inherited(from) => ("INHERITED", from.as_str()),
    };
    json!({ "value": value(text, numbers), "source": { "type": kind, "data": data } })
}

/// A name or another text that is bytes, under a key: exact where JSON's strings can have it, else as text, and once more
/// as `KEY_hex`.
pub fn put_bytes(object: &mut Value, key: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object[key] = text.into(),
        Err(_) => {
            object[key] = printable::bytes(bytes).into();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            object[format!("{key}_hex")] = hex.into();
        }
    }
}

/// On one line, as OpenZFS prints it.
pub fn line(object: Map<String, Value>) -> String {
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_where_they_are_wanted() {
        assert_eq!(value("12", true), json!(12));
        assert_eq!(value("12", false), json!("12"));
        assert_eq!(value("1.00", true), json!("1.00"));
        assert_eq!(value("-", true), json!("-"));
        let from = Origin::Inherited("t".into());
        let expected = json!({"value": "on", "source": {"type": "INHERITED", "data": "t"}});
        assert_eq!(property("on", &from, None, true), expected);
    }

    /// What could break: two names that are one in JSON, so that a script can't ask for the file that it found.
    #[test]
    fn names_are_exact_in_json() {
        let mut object = json!({});
        put_bytes(&mut object, "name", b"a\\x1b\x1b\n");
        put_bytes(&mut object, "target", b"caf\xe9");
        let expected =
            json!({"name": "a\\x1b\u{1b}\n", "target": "caf\\xe9", "target_hex": "636166e9"});
        assert_eq!(object, expected);
    }
}
