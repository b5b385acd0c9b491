//! Keys of encrypted datasets, as they are stored: wrapped by the user's key.
//!
//! A ZAP of its own, which the DSL directory names. The *master key* (32 bytes, whatever the suite) and the *HMAC
//! key* (64 bytes) are encrypted together with the wrapping key, an initialisation vector of 12 bytes, and a MAC of
//! 16. How the wrapping key is made of what the user gives, the properties `keyformat`, `pbkdf2salt` and
//! `pbkdf2iters` say, which stand here too.
//!
//! Nothing is unwrapped here: that is `codec`'s business.
//!
//! Source: OpenZFS, `dsl_crypt.h`, `dsl_crypt.c`, `zio_crypt.h`.

use crate::zap::leaf::LeafValue;
use stdx::bytes::{FormatError, Problem};

/// Names of the ZAP.
pub mod names {
    /// The suite's number.
    pub const SUITE: &str = "DSL_CRYPTO_SUITE";
    /// The key's GUID.
    pub const GUID: &str = "DSL_CRYPTO_GUID";
    /// The initialisation vector.
    pub const IV: &str = "DSL_CRYPTO_IV";
    /// The MAC.
    pub const MAC: &str = "DSL_CRYPTO_MAC";
    /// The wrapped master key.
    pub const MASTER_KEY: &str = "DSL_CRYPTO_MASTER_KEY_1";
    /// The wrapped HMAC key.
    pub const HMAC_KEY: &str = "DSL_CRYPTO_HMAC_KEY_1";
    /// The directory of the encryption root.
    pub const ROOT_DIRECTORY: &str = "DSL_CRYPTO_ROOT_DDOBJ";
    /// How many directories use the key.
    pub const REFERENCES: &str = "DSL_CRYPTO_REFCOUNT";
    /// The version of the key's form.
    pub const VERSION: &str = "DSL_CRYPTO_VERSION";
    /// How the user gives the wrapping key.
    pub const KEY_FORMAT: &str = "keyformat";
    /// The salt of PBKDF2; 0 where there is no passphrase.
    pub const PASSPHRASE_SALT: &str = "pbkdf2salt";
    /// The iterations of PBKDF2; 0 where there is no passphrase.
    pub const PASSPHRASE_ITERATIONS: &str = "pbkdf2iters";
}

/// How blocks are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the suite of its name")]
#[repr(u8)]
pub enum Suite {
    Inherit = 0,
    /// The default, AES-256-GCM.
    On,
    Off,
    Aes128Ccm,
    Aes192Ccm,
    Aes256Ccm,
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
}

impl Suite {
    const ALL: [Suite; 9] = [
        Suite::Inherit,
        Suite::On,
        Suite::Off,
        Suite::Aes128Ccm,
        Suite::Aes192Ccm,
        Suite::Aes256Ccm,
        Suite::Aes128Gcm,
        Suite::Aes192Gcm,
        Suite::Aes256Gcm,
    ];

    /// The suite of this number.
    pub fn from_code(code: u64) -> Option<Suite> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Its number.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// Its name in OpenZFS's words.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Inherit => "inherit",
            Suite::On => "on",
            Suite::Off => "off",
            Suite::Aes128Ccm => "aes-128-ccm",
            Suite::Aes192Ccm => "aes-192-ccm",
            Suite::Aes256Ccm => "aes-256-ccm",
            Suite::Aes128Gcm => "aes-128-gcm",
            Suite::Aes192Gcm => "aes-192-gcm",
            Suite::Aes256Gcm => "aes-256-gcm",
        }
    }

    /// Bytes of a data key; 0 for what is no suite.
    pub fn key_bytes(self) -> usize {
        match self {
            Suite::Inherit | Suite::On | Suite::Off => 0,
            Suite::Aes128Ccm | Suite::Aes128Gcm => 16,
            Suite::Aes192Ccm | Suite::Aes192Gcm => 24,
            Suite::Aes256Ccm | Suite::Aes256Gcm => 32,
        }
    }
}

/// How the user gives the wrapping key: the property `keyformat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// 32 bytes.
    Raw,
    /// 64 hexadecimal digits.
    Hex,
    /// Text, through PBKDF2 with HMAC-SHA-1.
    Passphrase,
}

impl KeyFormat {
    /// The format of this number; 0 is none.
    pub fn from_code(code: u64) -> Option<KeyFormat> {
        match code {
            1 => Some(KeyFormat::Raw),
            2 => Some(KeyFormat::Hex),
            3 => Some(KeyFormat::Passphrase),
            _ => None,
        }
    }

    /// Its number.
    pub fn code(self) -> u64 {
        match self {
            KeyFormat::Raw => 1,
            KeyFormat::Hex => 2,
            KeyFormat::Passphrase => 3,
        }
    }
}

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoKey {
    /// How blocks are encrypted.
    pub suite: Suite,
    /// The key's GUID.
    pub guid: u64,
    /// The initialisation vector of the wrapping.
    pub iv: [u8; 12],
    /// The MAC of the wrapping.
    pub mac: [u8; 16],
    /// The wrapped master key: 32 bytes, of which the suite's key takes the first.
    pub master_key: [u8; 32],
    /// The wrapped HMAC key.
    pub hmac_key: [u8; 64],
    /// The directory of the encryption root.
    pub root_directory: u64,
    /// How many directories use it.
    pub references: u64,
    /// The version of its form: 0 or 1; the latter authenticates the suite and version too.
    pub version: u64,
    /// How the user gives the wrapping key.
    pub key_format: KeyFormat,
    /// The salt of PBKDF2; 0 where there is no passphrase.
    pub passphrase_salt: u64,
    /// The iterations of PBKDF2; 0 where there is no passphrase.
    pub passphrase_iterations: u64,
}

impl CryptoKey {
    /// Takes it from the ZAP, of which `find` gives the value of a name.
    ///
    /// # Errors
    /// A name is missing (but `REFERENCES` and `VERSION`, which old keys lack, and what only passphrases have), or a
    /// value of another length.
    pub fn from_values(
        find: impl Fn(&'static str) -> Option<LeafValue>,
    ) -> Result<CryptoKey, FormatError> {
        let wrong = |field, problem| FormatError { structure: "key", field, offset: 0, problem };
        let number = |name| {
            let value = find(name).ok_or_else(|| wrong(name, Problem::Missing))?;
            value.number().ok_or_else(|| wrong(name, Problem::Type))
        };
        let suite = number(names::SUITE)?;
        let suite = Suite::from_code(suite)
            .filter(|suite| suite.key_bytes() != 0)
            .ok_or_else(|| wrong(names::SUITE, Problem::Value(suite)))?;
        let key_format = number(names::KEY_FORMAT)?;
        let key_format = KeyFormat::from_code(key_format)
            .ok_or_else(|| wrong(names::KEY_FORMAT, Problem::Value(key_format)))?;
        let or_zero = |name| find(name).and_then(|value| value.number()).unwrap_or(0);
        Ok(CryptoKey {
            suite,
            guid: number(names::GUID)?,
            iv: bytes(&find, names::IV)?,
            mac: bytes(&find, names::MAC)?,
            master_key: bytes(&find, names::MASTER_KEY)?,
            hmac_key: bytes(&find, names::HMAC_KEY)?,
            root_directory: number(names::ROOT_DIRECTORY)?,
            references: or_zero(names::REFERENCES),
            version: or_zero(names::VERSION),
            key_format,
            passphrase_salt: or_zero(names::PASSPHRASE_SALT),
            passphrase_iterations: or_zero(names::PASSPHRASE_ITERATIONS),
        })
    }

    /// The names and values of the ZAP.
    pub fn to_values(&self) -> Vec<(&'static str, LeafValue)> {
        let number = |number: u64| LeafValue { number_bytes: 8, numbers: vec![number] };
        let bytes = |bytes: &[u8]| LeafValue {
            number_bytes: 1,
            numbers: bytes.iter().map(|byte| u64::from(*byte)).collect(),
        };
        vec![
            (names::SUITE, number(self.suite.code())),
            (names::GUID, number(self.guid)),
            (names::IV, bytes(&self.iv)),
            (names::MAC, bytes(&self.mac)),
            (names::MASTER_KEY, bytes(&self.master_key)),
            (names::HMAC_KEY, bytes(&self.hmac_key)),
            (names::ROOT_DIRECTORY, number(self.root_directory)),
            (names::KEY_FORMAT, number(self.key_format.code())),
            (names::REFERENCES, number(self.references)),
            (names::VERSION, number(self.version)),
            (names::PASSPHRASE_SALT, number(self.passphrase_salt)),
            (names::PASSPHRASE_ITERATIONS, number(self.passphrase_iterations)),
        ]
    }
}

fn bytes<const N: usize>(
    find: &impl Fn(&'static str) -> Option<LeafValue>,
    field: &'static str,
) -> Result<[u8; N], FormatError> {
    let wrong = |problem| FormatError { structure: "key", field, offset: 0, problem };
    let value = find(field).ok_or_else(|| wrong(Problem::Missing))?;
    value.bytes().and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| wrong(Problem::Type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_out_as_it_went_in_and_a_missing_part_is_named() {
        let key = CryptoKey {
            suite: Suite::Aes256Gcm,
            guid: 7,
            iv: [1; 12],
            mac: [2; 16],
            master_key: [3; 32],
            hmac_key: [4; 64],
            root_directory: 9,
            references: 1,
            version: 1,
            key_format: KeyFormat::Passphrase,
            passphrase_salt: 5,
            passphrase_iterations: 350_000,
        };
        let values = key.to_values();
        let without = |absent: &'static str| {
            let values = values.clone();
            CryptoKey::from_values(move |name| {
                let found = values.iter().find(|(known, _)| *known == name && name != absent);
                found.map(|(_, value)| value.clone())
            })
        };
        assert_eq!(without(""), Ok(key.clone()));
        let old = CryptoKey { version: 0, ..key };
        assert_eq!(without(names::VERSION), Ok(old));
        for (name, _) in values.iter().take(8) {
            let error = without(name).expect_err("it is missing");
            assert_eq!((error.field, error.problem), (*name, Problem::Missing));
        }
    }

    #[test]
    fn suites_and_formats_are_found_by_their_numbers() {
        for code in 0..9 {
            assert_eq!(Suite::from_code(code).map(Suite::code), Some(code));
        }
        assert_eq!(Suite::from_code(9), None);
        assert_eq!(Suite::from_code(8).map(Suite::name), Some("aes-256-gcm"));
        for code in 1..4 {
            assert_eq!(KeyFormat::from_code(code).map(KeyFormat::code), Some(code));
        }
        assert_eq!(KeyFormat::from_code(0), None);
    }
}
