//! The frame of what a command and the process that holds something say to each other.
//!
//! One request a connection: a line of JSON, then the answers, a line each. The first says that the request was taken
//! (or that these are not the devices that are held here), the last has the result or the error; lines to be shown come
//! between. A client that closes the connection waits no more; what it asked for goes on.
//!
//! ```text
//!   → {"version":1,"devices":[[64768,131]],"ask":{"fail":{"device":"/disks/b"}}}
//!   ← "taken"
//!   ← {"result":{"slot":1}}
//! ```
//!
//! `devices` are the files that the client found in use, by their [numbers](host::Identity::numbers): copies of a set
//! have its UUID too, and their servers must not be taken for one another.
//!
//! **The version** is of the frame and all that is asked in it. Both ends refuse another one, and say what helps: the
//! program was exchanged while a server of the old one runs. What is not known within a version is refused, too.

use crate::error::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Of what is said here. Rises with each change that the other end could misread.
pub const VERSION: u32 = 1;

/// Bytes of a line at the most: a request with a few hundred devices and paths, or an answer about as many.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// What tells a file from all others: the numbers of a [`host::Identity`].
pub type Numbers = (u64, u64);

/// A request.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<A> {
    /// [`VERSION`] of the client.
    pub version: u32,
    /// The devices that the client found in use.
    pub devices: Vec<Numbers>,
    /// What is wanted.
    pub ask: A,
}

/// What each version of a request has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

impl<A: DeserializeOwned> Request<A> {
    /// Reads one.
    ///
    /// # Errors
    /// It is none, or of another version.
    pub fn read(line: &[u8]) -> Result<Request<A>, Error> {
        let AnyVersion { version } = serde_json::from_slice(line).map_err(Error::NoRequest)?;
        if version != VERSION {
            return Err(Error::OtherVersion { theirs: version, ours: VERSION });
        }
        serde_json::from_slice(line).map_err(Error::NoRequest)
    }
}

/// A line of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Answer {
    /// It is being done.
    Taken,
    /// The devices are not those that are held here.
    Elsewhere,
    /// A line to be shown.
    Say(String),
    /// It was done.
    Result(Value),
    /// It was not.
    Error {
        /// The line to print.
        message: String,
        /// The exit status.
        status: u8,
    },
}

impl Answer {
    /// Of what could not be done.
    pub fn refusal(error: &Error) -> Answer {
        Answer::Error { message: error.to_string(), status: error.status() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that two builds of the program would read differently, or that carries more than it says.
    #[test]
    fn requests_and_answers_are_lines_that_read_back() {
        let request = Request { version: VERSION, devices: vec![(1, 2)], ask: "b\nc".to_owned() };
        let line = serde_json::to_string(&request).expect("text");
        assert_eq!(line, r#"{"version":1,"devices":[[1,2]],"ask":"b\nc"}"#);
        assert!(!line.contains('\n'), "one line whatever a path holds");
        assert!(Request::<String>::read(line.as_bytes()).is_ok());
        for junk in [
            "",
            "{}",
            "null",
            r#"{"devices":[],"ask":"check"}"#,
            r#"{"version":1,"devices":[],"ask":"check","more":1}"#,
            r#"{"version":1,"devices":[[1]],"ask":"check"}"#,
        ] {
            assert!(Request::<String>::read(junk.as_bytes()).is_err(), "{junk}");
        }
        let answer = Answer::Error { message: "no".into(), status: 1 };
        let line = serde_json::to_string(&answer).expect("text");
        assert_eq!(line, r#"{"error":{"message":"no","status":1}}"#);
        assert_eq!(serde_json::to_string(&Answer::Taken).expect("text"), r#""taken""#);
    }

    /// What a later version asks need not be readable to be refused with what helps.
    #[test]
    fn another_version_is_refused_whatever_else_it_says() {
        let line = br#"{"version":2,"pool":"tank","want":["scrub"]}"#;
        let error = Request::<String>::read(line).err().expect("it is of another version");
        assert!(matches!(error, Error::OtherVersion { theirs: 2, ours: VERSION }));
        assert!(error.to_string().contains("version 2") && error.to_string().contains("version 1"));
    }
}
