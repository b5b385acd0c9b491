//! The 128 bits by which md tells arrays and devices apart, printed as four words: `59106eb8:88a27e89:...`.

use std::fmt;
use std::str::FromStr;

/// A set's or a device's identity.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            let colon = if n > 0 && n % 4 == 0 { ":" } else { "" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no UUID: write 32 hexadecimal digits, with or without ':' or '-' between them")]
pub struct UuidError(pub String);

impl FromStr for Uuid {
    type Err = UuidError;
    fn from_str(text: &str) -> Result<Uuid, UuidError> {
        let wrong = || UuidError(text.to_owned());
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|sign| !matches!(sign, ':' | '-' | '.' | ' '))
            .map(|sign| sign.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 32).ok_or_else(wrong)?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(Uuid(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_back_as_it_is_printed_and_in_other_groupings() {
        let text = "59106eb8:88a27e89:b3c6f72c:4e7bb81d";
        let uuid: Uuid = text.parse().expect("a UUID");
        assert_eq!(uuid.to_string(), text);
        assert_eq!("59106eb8-88a2-7e89-b3c6-f72c4e7bb81d".parse(), Ok(uuid));
        assert!("59106eb8".parse::<Uuid>().is_err());
    }
}
