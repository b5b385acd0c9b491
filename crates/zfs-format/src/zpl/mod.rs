//! File systems: what the objects of a file system's objset hold.
//!
//! Object 1 is the master node, a ZAP of [names](master). A file or directory is an object whose bonus has its
//! attributes: as [system attributes](attributes) since version 5, as a [`znode`] before. A directory is
//! a ZAP of [entries](directory). Lists of access stand in the attributes or in objects of their own ([`acl`]).
//!
//! Source: OpenZFS, `zfs_znode.h`.

pub mod acl;
pub mod attributes;
pub mod directory;
pub mod owner;
pub mod posix_acl;
pub mod znode;

/// Names of the master node.
pub mod master {
    /// The object of the master node.
    pub const OBJECT: u64 = 1;
    /// The root directory.
    pub const ROOT: &str = "ROOT";
    /// The version of the file system, 1 to 5.
    pub const VERSION: &str = "VERSION";
    /// Files that are open and have no name.
    pub const DELETE_QUEUE: &str = "DELETE_QUEUE";
    /// The table of foreign ids' domains.
    pub const FUID: &str = "FUID";
    /// The directory of shares.
    pub const SHARES: &str = "SHARES";
    /// The master node of system attributes.
    pub const SA_ATTRIBUTES: &str = "SA_ATTRS";
    /// A number for `statfs`.
    pub const FSID: &str = "FSID";
    /// How names are normalised.
    pub const NORMALIZATION: &str = "normalization";
    /// Whether names must be UTF-8.
    pub const UTF8_ONLY: &str = "utf8only";
    /// 0 sensitive, 1 insensitive, 2 mixed.
    pub const CASE_SENSITIVITY: &str = "casesensitivity";
    /// Limits of space and objects are ZAPs of ids in hexadecimal.
    pub const QUOTAS: [&str; 6] = [
        "userquota@",
        "groupquota@",
        "projectquota@",
        "userobjquota@",
        "groupobjquota@",
        "projectobjquota@",
    ];
}

/// A user or group of a foreign domain: which domain of the table, and the id there. Index 0 is a plain id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuid(pub u64);

impl Fuid {
    /// An id of a domain.
    pub fn new(domain: u32, id: u32) -> Fuid {
        Fuid(u64::from(domain) << 32 | u64::from(id))
    }

    /// Which domain.
    pub fn domain(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The id in it.
    pub fn id(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_id_is_a_domain_and_an_id() {
        let fuid = Fuid::new(3, 1001);
        assert_eq!((fuid.domain(), fuid.id(), fuid.0), (3, 1001, 0x3_0000_03e9));
    }
}
