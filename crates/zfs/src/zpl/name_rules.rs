//! Which names of files a file system takes for the same, and which it takes at all: set when it is made, for ever.
//!
//! Its directories hash names as these say ([`zap`](crate::zap)): in a form of Unicode, and in capitals unless case matters. Whoever takes
//! a form takes names in UTF-8 only.
//!
//! ```text
//!   casesensitivity   names are hashed      two names are the same
//!   sensitive         in the form           in the form
//!   insensitive       … and in capitals     in the form and in capitals
//!   mixed             … and in capitals     in the form
//! ```
//!
//! In `mixed` a program may ask for a name in whatever case: the CIFS server of Solaris does. On Linux nobody can, so there such a file
//! system differs from a sensitive one by its hashes.
//!
//! Children of a file system are mounted on directories of it, so their names are taken as its files' are.
//!
//! Source: OpenZFS, `zfs_ioctl.c` (`zfs_fill_zplprops_impl`), `zfs_znode_os.c` (`zfs_create_fs`), `zfs_dir.c` (`zfs_dirent_lock`, `zfs_dropname`).

use crate::error::ZfsError;
use crate::zap::{Match, Zap, normalized};
use async_recursion::async_recursion as boxed;
use std::borrow::Cow;
use zfs_format::zap::normalization;
use zfs_format::zpl::master;

/// Bytes of a name, and of what is hashed in its place: OpenZFS has no room for more.
const NAME_BYTES_MAX: usize = 255;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameRules {
    /// A form of Unicode, as tables have it; 0 for none.
    pub normalization: u64,
    /// Names are in UTF-8.
    pub utf8_only: bool,
    /// One of [`case`].
    pub case: u64,
}

/// Whether case matters.
pub mod case {
    /// It doesn't.
    pub const INSENSITIVE: u64 = 1;
    /// That is up to who asks.
    pub const MIXED: u64 = 2;
}

/// The properties that they are, which stand in the master node and not among a dataset's others.
pub const PROPERTIES: [&str; 3] =
    [master::NORMALIZATION, master::UTF8_ONLY, master::CASE_SENSITIVITY];

impl NameRules {
    /// Those that these numbers of properties make, whatever else is among them.
    pub fn of<'a>(numbers: impl Iterator<Item = (&'a str, u64)>) -> NameRules {
        NameRules::default().with(numbers)
    }

    /// These, but for what numbers of properties say otherwise: as a file system gets them that lies below another.
    pub fn with<'a>(self, numbers: impl Iterator<Item = (&'a str, u64)>) -> NameRules {
        let mut rules = self;
        for (name, number) in numbers {
            match name {
                master::NORMALIZATION => rules.normalization = number,
                master::UTF8_ONLY => rules.utf8_only = number != 0,
                master::CASE_SENSITIVITY => rules.case = number,
                _ => {}
            }
        }
        rules.utf8_only |= rules.normalization != 0;
        rules
    }

    /// Those of a file system whose master node this is.
    ///
    /// # Errors
    /// The node can't be read.
    #[boxed(?Send)]
    pub async fn read(master: &Zap) -> Result<NameRules, ZfsError> {
        let mut numbers = Vec::new();
        for name in PROPERTIES {
            numbers.push((name, master.number(name).await?.unwrap_or(0)));
        }
        Ok(NameRules::of(numbers.into_iter()))
    }

    /// What stands in the master node.
    pub(super) fn numbers(self) -> [(&'static str, u64); 3] {
        let NameRules { normalization, utf8_only, case } = self;
        let numbers = [normalization, u64::from(utf8_only), case];
        let [first, second, third] = PROPERTIES;
        [(first, numbers[0]), (second, numbers[1]), (third, numbers[2])]
    }

    /// How directories hash names.
    pub(crate) fn of_tables(self) -> u64 {
        self.normalization | if self.case == 0 { 0 } else { normalization::UPPER }
    }

    /// How names become what all that are the same become; 0 where each is the same as itself only.
    pub(crate) fn of_names(self) -> u64 {
        match self.case {
            case::MIXED => self.normalization,
            _ => self.of_tables(),
        }
    }

    /// Which name of a directory is meant by one.
    pub(crate) fn meant(self) -> Match {
        match self.case {
            case::MIXED => Match::InCase,
            _ => Match::Alike,
        }
    }

    /// Whether several names are the same.
    pub(crate) fn folds(self) -> bool {
        self.of_names() != 0
    }

    /// A name as all are that are the same.
    pub(crate) fn same(self, name: &[u8]) -> Cow<'_, [u8]> {
        normalized(name, self.of_names())
    }

    /// Whether case never matters.
    pub fn ignores_case(self) -> bool {
        self.case == case::INSENSITIVE
    }

    /// Whether a file may be called so.
    pub fn take(self, name: &[u8]) -> bool {
        let is_text = !self.utf8_only || std::str::from_utf8(name).is_ok();
        // A name that is too long itself is not refused for what it becomes.
        let has_room = |how| normalized(name, how).len() <= name.len().max(NAME_BYTES_MAX);
        is_text && has_room(self.of_tables()) && has_room(self.of_names())
    }
}
