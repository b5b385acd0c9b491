//! Files by the directory that they say they lie in.
//!
//! The names of a directory stand in the directory alone; that a file lies in it, the file says, too. So where a directory can't be read
//! its files are found all the same, without their names, by looking at every file of the file system.
//!
//! A file with several names says the directory of the last one that it got.

use super::FileSystem;
use crate::error::ZfsError;
use async_recursion::async_recursion as boxed;
use zfs_format::dnode::OBJECTS_PER_BLOCK;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct ByParent {
    /// Directory and file, in order.
    all: Vec<(u64, u64)>,
}

impl ByParent {
    /// The files that say that they lie in a directory, by their objects. Extended attributes are none.
    pub fn of(&self, directory: u64) -> impl Iterator<Item = u64> + '_ {
        let from = self.all.partition_point(|(parent, _)| *parent < directory);
        let own = self.all[from..].iter().take_while(move |(parent, _)| *parent == directory);
        own.map(|(_, object)| *object)
    }
}

impl FileSystem {
    /// All files that have names, by their directories. What can't be had is left out.
    ///
    /// # Errors
    /// Nothing of the files can be had.
    #[boxed(?Send)]
    pub async fn by_parent(&self) -> Result<ByParent, ZfsError> {
        let objset = self.objset();
        let last = objset.meta()?.phys().block_id_max;
        let (mut all, mut from) = (Vec::new(), 0);
        while from / OBJECTS_PER_BLOCK <= last {
            let behind = (from / OBJECTS_PER_BLOCK + 1).saturating_mul(OBJECTS_PER_BLOCK);
            let (dnodes, next) = match objset.dnodes_from(from).await {
                Ok(None) => break,
                Ok(Some(found)) => found,
                Err(_) => (Vec::new(), behind),
            };
            for (number, ..) in dnodes {
                // What is no file has no attributes.
                let Ok(node) = self.node(number).await else { continue };
                let parent = node.attributes.parent;
                let is_named = node.attributes.links > 0 && !node.attributes.is_attribute();
                if is_named && parent != number {
                    all.push((parent, number));
                }
            }
            from = next;
        }
        all.sort_unstable();
        Ok(ByParent { all })
    }
}
