//! Znodes: a file's attributes in file systems before version 5.
//!
//! 264 bytes of the bonus. What is left of it holds the text of a short symbolic link, or a virus scanner's stamp.
//!
//! Source: OpenZFS, `zfs_znode.h`.

use super::acl::ZnodeAcl;
use crate::wire::record;

record! {
    /// A znode. Times are seconds and nanoseconds since 1970.
    Znode = "znode", 264, {
        /// Last read.
        accessed: [u64; 2],
        /// Last written.
        modified: [u64; 2],
        /// Last changed, attributes included.
        changed: [u64; 2],
        /// Made.
        created: [u64; 2],
        /// The transaction group that made it.
        generation: u64,
        /// Kind of file and permissions.
        mode: u64,
        /// Bytes of a file; entries of a directory.
        size: u64,
        /// The directory.
        parent: u64,
        /// How many names it has.
        links: u64,
        /// The directory of extended attributes; 0 for none.
        extended_attributes: u64,
        /// The number of a device node.
        device: u64,
        /// Attributes that are on or off.
        flags: u64,
        /// The owner.
        uid: u64,
        /// The group.
        gid: u64,
        /// Not used.
        zap: u64,
        /// Not used.
        padding: [u64; 3],
        /// Who may do what.
        acl: ZnodeAcl,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_hold() {
        crate::wire::checks::holds_for_any_bytes::<super::Znode>();
    }
}
