//! Which names of files a file system takes for the same, and which it takes at all: set when it is made, for ever.
//!
//! Its directories normalise as these say ([`zap`](crate::zap)): to a form of Unicode, and to upper case where case does not matter. Whoever
//! normalises takes names in UTF-8 only.
//!
//! Source: OpenZFS, `zfs_ioctl.c` (`zfs_fill_zplprops_impl`), `zfs_znode_os.c` (`zfs_create_fs`).

use crate::zap::normalized;
use std::borrow::Cow;
use zfs_format::zap::normalization;
use zfs_format::zpl::master;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameRules {
    /// A form of Unicode, as tables have it; 0 for none.
    pub normalization: u64,
    /// Names are in UTF-8.
    pub utf8_only: bool,
    /// 0 where case matters, 1 where it doesn't, 2 where that is up to who asks.
    pub case: u64,
}

/// The properties that they are, which stand in the master node and not among a dataset's others.
pub const PROPERTIES: [&str; 3] =
    [master::NORMALIZATION, master::UTF8_ONLY, master::CASE_SENSITIVITY];

impl NameRules {
    /// Those that these numbers of properties make, whatever else is among them.
    pub fn of<'a>(numbers: impl Iterator<Item = (&'a str, u64)>) -> NameRules {
        let mut rules = NameRules::default();
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

    /// What stands in the master node.
    pub(super) fn numbers(self) -> [(&'static str, u64); 3] {
        let NameRules { normalization, utf8_only, case } = self;
        let numbers = [normalization, u64::from(utf8_only), case];
        let [first, second, third] = PROPERTIES;
        [(first, numbers[0]), (second, numbers[1]), (third, numbers[2])]
    }

    /// How directories normalise.
    pub(crate) fn of_tables(self) -> u64 {
        self.normalization | if self.case == 0 { 0 } else { normalization::UPPER }
    }

    /// A name as all that are the same to its directories are.
    pub(crate) fn same(self, name: &[u8]) -> Cow<'_, [u8]> {
        match self.of_tables() {
            0 => Cow::Borrowed(name),
            how => Cow::Owned(normalized(name, how)),
        }
    }

    /// Whether case never matters.
    pub fn ignores_case(self) -> bool {
        self.case == 1
    }

    /// Whether a file may be called so.
    pub fn take(self, name: &[u8]) -> bool {
        !self.utf8_only || std::str::from_utf8(name).is_ok()
    }
}
