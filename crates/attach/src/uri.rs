//! Names of what NBD servers export, as the NBD project writes them (`doc/uri.md`), without TLS.
//!
//! ```text
//!   nbd://HOST[:PORT]/EXPORT         by TCP; the port is 10809 where none is given
//!   nbd+unix:///EXPORT?socket=PATH   by a socket of this host
//! ```
//!
//! An empty export is the server's default. They stand wherever a path of a device does.

use host::Address;
use std::path::{Path, PathBuf};

/// The port of NBD.
const PORT: u16 = 10809;

/// Why a name is none of an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{uri}' is no export of an NBD server: {why}; write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH"
)]
pub struct UriError {
    uri: String,
    why: &'static str,
}

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Who serves it.
    pub address: Address,
    /// What it is called there.
    pub export: String,
}

/// Whether a path is meant as an export.
pub fn is_uri(path: &Path) -> bool {
    let schemes = ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"];
    path.to_str().is_some_and(|text| schemes.iter().any(|scheme| text.starts_with(scheme)))
}

/// A path, or an export, as another process that stands elsewhere finds it.
pub fn absolute_in(directory: &Path, path: &Path) -> PathBuf {
    match is_uri(path).then(|| Uri::of(path)) {
        None => directory.join(path),
        Some(Ok(Uri { address: Address::Unix(socket), export })) => {
            Uri { address: Address::Unix(directory.join(socket)), export }.text().into()
        }
        // What is no such name is told to who uses it.
        Some(_) => path.to_owned(),
    }
}

/// `%41` made `A`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [left.next()?, left.next()?];
        let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// `A b` made `A%20b`: what means nothing to a URI or a shell stays.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

impl Uri {
    /// What a path says that [is meant](is_uri) as an export.
    ///
    /// # Errors
    /// It is none.
    pub fn of(path: &Path) -> Result<Uri, UriError> {
        let text = path.to_string_lossy();
        let wrong = |why| UriError { uri: text.to_string(), why };
        if text.starts_with("nbds") {
            return Err(wrong("connections that are encrypted are not made"));
        }
        if let Some(rest) = text.strip_prefix("nbd+unix://") {
            let (export, query) =
                rest.split_once('?').ok_or_else(|| wrong("it names no socket"))?;
            let export = export.strip_prefix('/').ok_or_else(|| wrong("a socket has no host"))?;
            let socket = query.strip_prefix("socket=").filter(|socket| !socket.is_empty());
            let socket = socket.and_then(decoded).ok_or_else(|| wrong("it names no socket"))?;
            let export = decoded(export).ok_or_else(|| wrong("what follows a % is no byte"))?;
            return Ok(Uri { address: Address::Unix(socket.into()), export });
        }
        let rest = text.strip_prefix("nbd://").ok_or_else(|| wrong("it begins otherwise"))?;
        let (server, export) = rest.split_once('/').unwrap_or((rest, ""));
        if server.is_empty() || server.contains('@') || export.contains('?') {
            return Err(wrong("there is a host, and no user or option"));
        }
        // An address of IPv6 has colons of its own, in brackets.
        let has_port = server.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let server = if has_port { server.to_owned() } else { format!("{server}:{PORT}") };
        let address = server.parse().map_err(|_| wrong("the port is no number"))?;
        let export = decoded(export).ok_or_else(|| wrong("what follows a % is no byte"))?;
        Ok(Uri { address, export })
    }

    /// It in one form, whatever it was given in.
    pub fn text(&self) -> String {
        let export = encoded(&self.export);
        match &self.address {
            Address::Tcp(server) => format!("nbd://{server}/{export}"),
            Address::Unix(socket) => {
                format!("nbd+unix:///{export}?socket={}", encoded(&socket.to_string_lossy()))
            }
        }
    }

    /// As what stands in the labels of a pool: a whole path, as OpenZFS wants one.
    pub fn label_path(&self) -> PathBuf {
        let whole = absolute_in(&std::env::current_dir().unwrap_or_default(), &self.text_path());
        let whole = Uri::of(&whole).unwrap_or_else(|_| self.clone());
        let server = match &whole.address {
            Address::Tcp(server) => server.clone(),
            Address::Unix(socket) => socket.to_string_lossy().trim_start_matches('/').to_owned(),
        };
        let export = if self.export.is_empty() { "default" } else { &self.export };
        format!("/dev/nbd/{server}/{export}").into()
    }

    /// It in one form, as a path.
    pub fn text_path(&self) -> PathBuf {
        self.text().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Result<Uri, UriError> {
        assert!(is_uri(Path::new(text)), "{text}");
        Uri::of(Path::new(text))
    }

    /// What could break: a name means another export than to other clients, or one that means none is connected to.
    #[test]
    fn names_are_those_of_the_nbd_project() {
        for (text, server, export) in [
            ("nbd://localhost/disk", "localhost:10809", "disk"),
            ("nbd://localhost:77/a%20b", "localhost:77", "a b"),
            ("nbd://[::1]/a/b", "[::1]:10809", "a/b"),
            ("nbd://[::1]:5", "[::1]:5", ""),
            ("nbd+unix:///disk?socket=/run/s", "unix:/run/s", "disk"),
            ("nbd+unix:///?socket=a%3Fb", "unix:a?b", ""),
        ] {
            let uri = uri(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((uri.address.to_string().as_str(), uri.export.as_str()), (server, export));
            assert_eq!(Uri::of(&uri.text_path()), Ok(uri.clone()), "{text}");
            assert!(uri.label_path().is_absolute());
        }
        for text in [
            "nbds://localhost/disk",
            "nbd:///disk",
            "nbd://localhost:port/disk",
            "nbd://localhost/a%2",
            "nbd+unix:///disk",
            "nbd+unix://host/disk?socket=s",
            "nbd+unix:///disk?socket=",
        ] {
            uri(text).expect_err(text);
        }
        assert!(!is_uri(Path::new("nbd/disk")) && !is_uri(Path::new("/dev/nbd0")));
        let whole = absolute_in(Path::new("/home"), Path::new("nbd+unix:///d?socket=s"));
        assert_eq!(whole.to_str(), Some("nbd+unix:///d?socket=/home/s"));
        assert_eq!(absolute_in(Path::new("/home"), Path::new("a")), Path::new("/home/a"));
    }
}
