//! Extended attributes: a list among a file's attributes, and a hidden directory of files.
//!
//! Names of the list are whole (`user.mime`). So are Linux's names in the directory; those that came from systems
//! without namespaces are users' (`user.` is put before them).
//!
//! Source: OpenZFS, `zpl_xattr.c`, `zfs_sa.c`.

use super::{ExtendedAttribute, FileSystem, Node};
use crate::error::{Problem, ZfsError};
use async_recursion::async_recursion as boxed;
use zfs_format::nvlist::{NvList, Value};
use zfs_format::zpl::attributes::names;
use zfs_format::zpl::directory::FileKind;

/// Namespaces of Linux.
const NAMESPACES: [&str; 4] = ["user.", "system.", "security.", "trusted."];
/// Bytes of one attribute's value that are read: Linux takes no longer ones.
const VALUE_BYTES_MAX: u64 = 64 << 10;
/// Attributes of one file that are taken.
const ATTRIBUTES_MAX: usize = 1 << 16;

impl FileSystem {
    /// The extended attributes of a file: names and values, in the order of names. Where list and directory have the same
    /// name, the list's counts.
    ///
    /// # Errors
    /// They can't be had, a value is too long, or there are too many.
    #[boxed(?Send)]
    pub async fn extended_attributes(
        &self,
        node: &Node,
    ) -> Result<Vec<ExtendedAttribute>, ZfsError> {
        let mut found = self.listed(node)?;
        if node.attributes.extended_attributes != 0 {
            let directory = self.node(node.attributes.extended_attributes).await?;
            let names = self.names(&directory).await?;
            if names.len() > ATTRIBUTES_MAX {
                let (what, limit) = ("extended attributes", ATTRIBUTES_MAX as u64);
                return Err(self.objset().wrong(node.number(), Problem::Limit { what, limit }));
            }
            for name in names {
                let file = self.node(name.entry.object).await?;
                if file.attributes.kind != FileKind::File {
                    continue;
                }
                let bytes = file.attributes.size;
                if bytes > VALUE_BYTES_MAX {
                    let (what, limit) = ("bytes of an extended attribute", VALUE_BYTES_MAX);
                    return Err(self.objset().wrong(file.number(), Problem::Limit { what, limit }));
                }
                let value = self.read(&file, 0, bytes as usize).await?.to_vec();
                let name = in_namespace(name.name);
                if found.iter().all(|(known, _)| *known != name) {
                    found.push((name, value));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Those that stand among the attributes.
    fn listed(&self, node: &Node) -> Result<Vec<ExtendedAttribute>, ZfsError> {
        let bytes = node.system.get(names::EXTENDED_ATTRIBUTE_LIST).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let (list, _, _) = NvList::decode(bytes).map_err(|error| node.dnode().wrong(error))?;
        let pair = |(name, value): (zfs_format::nvlist::Text, Value)| match value {
            Value::ByteArray(value) => Some((name.as_bytes().to_vec(), value)),
            Value::Uint8Array(value) => Some((name.as_bytes().to_vec(), value)),
            _ => None,
        };
        Ok(list.pairs.into_iter().filter_map(pair).collect())
    }
}

fn in_namespace(name: Vec<u8>) -> Vec<u8> {
    if NAMESPACES.iter().any(|space| name.starts_with(space.as_bytes())) {
        return name;
    }
    [NAMESPACES[0].as_bytes(), &name].concat()
}
