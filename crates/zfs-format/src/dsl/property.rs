//! Properties as a dataset's ZAP names them: who set them is in the name.
//!
//! ```text
//!   name            set here                       name$inherit   a received value is overridden by inheritance
//!   name$recvd      received with a stream         $hasrecvd      this dataset has received properties
//! ```
//!
//! Values are a number, or text with its zero. Names with a colon are users' own.
//!
//! Source: OpenZFS, `dsl_prop.c`, `zfs_prop.h`.

use crate::nvlist::Text;
use crate::zap::leaf::LeafValue;
use stdx::bytes::{FormatError, Problem};

/// The name that says that there are received properties.
pub const HAS_RECEIVED: &str = "$hasrecvd";

/// Who set a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// It was set on this dataset.
    Local,
    /// It came with a stream.
    Received,
    /// What came with a stream is not to be used: the parent's is.
    Inherit,
    /// A marker for users of `zfs` from before received properties.
    InheritUserVisible,
}

/// Endings of the names by source.
const SUFFIXES: [(&str, Source); 3] = [
    ("$recvd", Source::Received),
    ("$inherit", Source::Inherit),
    ("$iuv", Source::InheritUserVisible),
];

/// A property's name without its ending, and who set it.
pub fn split_name(name: &str) -> (&str, Source) {
    for (suffix, source) in SUFFIXES {
        if let Some(name) = name.strip_suffix(suffix).filter(|name| !name.is_empty()) {
            return (name, source);
        }
    }
    (name, Source::Local)
}

/// The name in the ZAP.
pub fn join_name(name: &str, source: Source) -> String {
    let suffix =
        SUFFIXES.iter().find(|(_, known)| *known == source).map_or("", |(suffix, _)| suffix);
    format!("{name}{suffix}")
}

/// A property's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A number, or the number of one of the words that it may be.
    Number(u64),
    /// Text.
    Text(Text),
}

impl PropertyValue {
    /// Takes it from a ZAP's value.
    ///
    /// # Errors
    /// It is neither one number of 8 bytes nor text with its zero.
    pub fn from_value(value: &LeafValue) -> Result<PropertyValue, FormatError> {
        if let (8, Some(number)) = (value.number_bytes, value.number()) {
            return Ok(PropertyValue::Number(number));
        }
        match value.bytes().as_deref().and_then(<[u8]>::split_last) {
            Some((0, text)) if !text.contains(&0) => {
                Ok(PropertyValue::Text(Text::from_bytes(text)))
            }
            _ => Err(FormatError {
                structure: "property",
                field: "value",
                offset: 0,
                problem: Problem::Type,
            }),
        }
    }

    /// The ZAP's value.
    pub fn to_value(&self) -> LeafValue {
        match self {
            PropertyValue::Number(number) => LeafValue { number_bytes: 8, numbers: vec![*number] },
            PropertyValue::Text(text) => {
                let bytes = text.as_bytes().iter().chain(&[0]);
                LeafValue { number_bytes: 1, numbers: bytes.map(|byte| (*byte).into()).collect() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_in_the_name() {
        for source in [Source::Local, Source::Received, Source::Inherit] {
            let name = join_name("org.x:y", source);
            assert_eq!(split_name(&name), ("org.x:y", source));
        }
        assert_eq!(join_name("quota", Source::Received), "quota$recvd");
        assert_eq!(split_name("$recvd"), ("$recvd", Source::Local));
    }

    #[test]
    fn values_are_numbers_or_text() {
        for value in [PropertyValue::Number(7), PropertyValue::Text(Text::from("on"))] {
            assert_eq!(PropertyValue::from_value(&value.to_value()), Ok(value));
        }
        let wrong = LeafValue { number_bytes: 1, numbers: vec![b'x'.into()] };
        assert!(PropertyValue::from_value(&wrong).is_err());
    }
}
