//! Directories and datasets made: objects of the MOS, by who syncs.
//!
//! ```text
//!   directory   its table of children, its table of properties; an entry in its parent's children
//!   dataset     its table of snapshots, its deadlist; the head of its directory
//!   origin      the empty snapshot `$ORIGIN@$ORIGIN` that every file system and volume begins as a clone of
//! ```
//!
//! Source: OpenZFS, `dsl_dir.c` (`dsl_dir_create_sync`), `dsl_dataset.c` (`dsl_dataset_create_sync_dd`), `dsl_pool.c`.

use crate::dmu::{Dnode, NewObject, Objset};
use crate::error::ZfsError;
use crate::zap::table;
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::bpobj::{BpObj, BpObjSize};
use zfs_format::dsl::dataset::{DslDataset, flags};
use zfs_format::dsl::deadlist::DeadlistHeader;
use zfs_format::dsl::dir::{DslDir, FLAG_USED_BREAKDOWN};
use zfs_format::dsl::number_name;
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::wire::{Record, Wire};
use zfs_format::zap::normalization::UPPER;

/// A table of the pool's own, whatever stands in it (OpenZFS's `DMU_OTN_ZAP_METADATA`).
pub const METADATA_TABLE: ObjectType = ObjectType::new(ByteSwap::Zap, true, false);

/// Bytes of a bpobj's blocks.
const BPOBJ_BLOCK_BYTES: u64 = 128 << 10;

/// What makes new things new: numbers that nothing else has, and the time.
pub trait Fresh {
    /// A number that nothing else has.
    fn number(&self) -> u64;

    /// Seconds since 1970.
    fn now(&self) -> u64;

    /// Who has things made, for the pool's history: the user's number, and the host's name.
    fn author(&self) -> (u64, String) {
        (0, String::new())
    }

    /// The host's number, 0 where it has none, and its name, as labels of pools have them.
    fn host(&self) -> Option<(u64, String)> {
        None
    }

    /// The command by which the user has them made.
    fn command(&self) -> Option<String> {
        None
    }
}

/// Makes objects of the MOS while a group is synced.
pub struct Maker<'a> {
    /// The MOS.
    pub mos: &'a Objset,
    /// New numbers, and the time.
    pub fresh: &'a dyn Fresh,
    /// The transaction group.
    pub txg: u64,
    /// Bpobjs count what was freed in them (`livelist`).
    pub counts_freed: bool,
}

/// A directory's bonus as new ones have it.
fn zeros<R: Record + Wire>() -> R {
    R::decode(&vec![0; R::BYTES], Endian::Little).expect("zeros are one")
}

impl Maker<'_> {
    /// A table of a type.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn table(&self, object_type: ObjectType) -> Result<Dnode, ZfsError> {
        self.mos.make(&table::new(object_type, self.fresh.number())).await
    }

    /// A list of block pointers.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn bpobj(&self, block_bytes: u64) -> Result<Dnode, ZfsError> {
        self.bpobj_of(block_bytes, self.counts_freed).await
    }

    async fn bpobj_of(&self, block_bytes: u64, counts_freed: bool) -> Result<Dnode, ZfsError> {
        let size = if counts_freed { BpObjSize::V3 } else { BpObjSize::V2 };
        let list = BpObj {
            size,
            pointers: 0,
            bytes: 0,
            compressed: 0,
            uncompressed: 0,
            sub_objects: 0,
            sub_object_count: 0,
            freed: 0,
        };
        let new = NewObject::of(ObjectType::BPOBJ, block_bytes);
        let bonus = list.encode(Endian::Little);
        self.mos.make(&new.with_bonus(ObjectType::BPOBJ_HDR, bonus)).await
    }

    /// A list of block pointers with blocks as long as most.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn long_bpobj(&self) -> Result<Dnode, ZfsError> {
        self.bpobj(BPOBJ_BLOCK_BYTES).await
    }

    /// The same, for a deadlist or a livelist.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn list_of(&self, is_livelist: bool) -> Result<Dnode, ZfsError> {
        self.bpobj_of(BPOBJ_BLOCK_BYTES, is_livelist || self.counts_freed).await
    }

    /// A directory below another, or the root.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn directory(&self, parent: Option<&Dnode>, name: &str) -> Result<Dnode, ZfsError> {
        let children = self.table(ObjectType::DSL_DIR_CHILD_MAP).await?;
        let properties = self.table(ObjectType::DSL_PROPS).await?;
        let head = DslDir {
            creation_time: self.fresh.now(),
            parent: parent.map_or(0, Dnode::number),
            children: children.number(),
            properties: properties.number(),
            flags: FLAG_USED_BREAKDOWN,
            ..zeros()
        };
        let new = NewObject::of(ObjectType::DSL_DIR, 512);
        let bonus = head.encode(Endian::Little);
        let directory = self.mos.make(&new.with_bonus(ObjectType::DSL_DIR, bonus)).await?;
        if let Some(parent) = parent {
            let head = self.bonus::<DslDir>(parent)?;
            let names = self.mos.dnode(head.children).await?;
            table::set(self.mos, &names, name, table::number(directory.number())).await?;
        }
        Ok(directory)
    }

    /// The dataset of a directory. Of the origin of all nothing is older; every other one begins as a snapshot's clone, with
    /// a deadlist of these keys.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn dataset(
        &self,
        directory: &Dnode,
        origin: Option<(&Dnode, &[u64])>,
    ) -> Result<Dnode, ZfsError> {
        // Whether case matters is up to the dataset: a table that is asked byte for byte keeps both names.
        let names = table::normalizing(ObjectType::DSL_DS_SNAP_MAP, self.fresh.number(), UPPER);
        let names = self.mos.make(&names).await?;
        let deadlist = self.deadlist().await?;
        let mut head = DslDataset {
            dir: directory.number(),
            snapshot_names: names.number(),
            creation_time: self.fresh.now(),
            creation_txg: self.txg,
            deadlist: deadlist.number(),
            fsid_guid: self.fresh.number() >> 8,
            guid: self.fresh.number(),
            flags: flags::UNIQUE_ACCURATE,
            ..zeros()
        };
        if let Some((origin, _)) = origin {
            let before = self.bonus::<DslDataset>(origin)?;
            head.previous_snapshot = origin.number();
            head.previous_snapshot_txg = before.creation_txg;
            head.referenced_bytes = before.referenced_bytes;
            head.compressed_bytes = before.compressed_bytes;
            head.uncompressed_bytes = before.uncompressed_bytes;
            head.pointer = before.pointer;
            head.flags |= before.flags & (flags::INCONSISTENT | flags::CASE_INSENSITIVE);
        } else {
            head.creation_txg = 1;
        }
        let new = NewObject::of(ObjectType::DSL_DATASET, 512);
        let bonus = head.encode(Endian::Little);
        let dataset = self.mos.make(&new.with_bonus(ObjectType::DSL_DATASET, bonus)).await?;
        self.edit::<DslDir>(directory, |dir| dir.head_dataset = dataset.number()).await?;
        if let Some((origin, keys)) = origin {
            self.clone_of(origin, directory, &dataset).await?;
            self.add_keys(&deadlist, keys).await?;
        }
        Ok(dataset)
    }

    /// Takes note that a dataset began as a snapshot's clone.
    async fn clone_of(
        &self,
        origin: &Dnode,
        directory: &Dnode,
        dataset: &Dnode,
    ) -> Result<(), ZfsError> {
        let mut before = self.bonus::<DslDataset>(origin)?;
        if before.next_clones == 0 {
            before.next_clones = self.table(ObjectType::NEXT_CLONES).await?.number();
        }
        let next_clones = before.next_clones;
        self.edit::<DslDataset>(origin, |head| {
            head.children = head.children.saturating_add(1);
            head.next_clones = next_clones;
        })
        .await?;
        self.add_to_set(next_clones, dataset.number()).await?;
        self.edit::<DslDir>(directory, |dir| dir.origin = origin.number()).await?;
        let of = self.mos.dnode(before.dir).await?;
        let mut clones = self.bonus::<DslDir>(&of)?.clones;
        if clones == 0 {
            clones = self.table(ObjectType::DSL_CLONES).await?.number();
            self.edit::<DslDir>(&of, |dir| dir.clones = clones).await?;
        }
        self.add_to_set(clones, dataset.number()).await
    }

    /// A set of numbers gets one.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn add_to_set(&self, set: u64, number: u64) -> Result<(), ZfsError> {
        let set = self.mos.dnode(set).await?;
        table::set(self.mos, &set, &number_name(number), table::number(number)).await
    }

    /// A set of numbers loses one.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn remove_from_set(&self, set: u64, number: u64) -> Result<(), ZfsError> {
        let set = self.mos.dnode(set).await?;
        table::remove(self.mos, &set, &number_name(number)).await.map(|_| ())
    }

    /// A deadlist without a list.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn deadlist(&self) -> Result<Dnode, ZfsError> {
        let new = table::new(ObjectType::DEADLIST, self.fresh.number());
        let bonus = zeros::<DeadlistHeader>().encode(Endian::Little);
        self.mos.make(&new.with_bonus(ObjectType::DEADLIST_HDR, bonus)).await
    }

    /// A deadlist gets empty lists for these keys.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn add_keys(&self, deadlist: &Dnode, keys: &[u64]) -> Result<(), ZfsError> {
        let empty = self.take_empty_list(keys.len()).await?;
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            let list = self.list_or_new(empty, false).await?;
            entries.push((number_name(*key), table::number(list)));
        }
        table::set_all(self.mos, deadlist, &entries).await
    }

    /// The list that stands for all empty ones, where there is one, or a new one.
    async fn list_or_new(&self, empty: Option<u64>, is_livelist: bool) -> Result<u64, ZfsError> {
        match empty {
            Some(list) => Ok(list),
            None => Ok(self.list_of(is_livelist).await?.number()),
        }
    }

    /// A deadlist or livelist gets an empty list for a key; says which.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn add_list(
        &self,
        deadlist: &Dnode,
        key: u64,
        is_livelist: bool,
    ) -> Result<u64, ZfsError> {
        let empty = self.take_empty_list(1).await?;
        let list = self.list_or_new(empty, is_livelist).await?;
        table::set(self.mos, deadlist, &number_name(key), table::number(list)).await?;
        Ok(list)
    }

    /// The origin: the snapshot of a dataset that holds nothing.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn origin(&self, root: &Dnode, name: &str) -> Result<Dnode, ZfsError> {
        let directory = self.directory(Some(root), name).await?;
        let dataset = self.dataset(&directory, None).await?;
        let head = self.bonus::<DslDataset>(&dataset)?;
        let snapshot = DslDataset {
            dir: directory.number(),
            next_snapshot: dataset.number(),
            children: 1,
            creation_time: head.creation_time,
            creation_txg: 1,
            deadlist: head.deadlist,
            fsid_guid: self.fresh.number() >> 8,
            guid: self.fresh.number(),
            flags: head.flags,
            pointer: BlockPointer::HOLE,
            ..zeros()
        };
        let new = NewObject::of(ObjectType::DSL_DATASET, 512);
        let bonus = snapshot.encode(Endian::Little);
        let snapshot = self.mos.make(&new.with_bonus(ObjectType::DSL_DATASET, bonus)).await?;
        let deadlist = self.deadlist().await?;
        let list = self.long_bpobj().await?;
        table::set(self.mos, &deadlist, &number_name(0), table::number(list.number())).await?;
        // What the head frees from here on and the snapshot has was born up to the snapshot.
        self.edit::<DslDataset>(&dataset, |head| {
            head.previous_snapshot = snapshot.number();
            head.previous_snapshot_txg = 1;
            head.deadlist = deadlist.number();
        })
        .await?;
        let names = self.mos.dnode(head.snapshot_names).await?;
        table::set(self.mos, &names, name, table::number(snapshot.number())).await?;
        Ok(snapshot)
    }

    /// A bonus.
    ///
    /// # Errors
    /// It is no such record.
    pub fn bonus<R: Record + Wire>(&self, of: &Dnode) -> Result<R, ZfsError> {
        R::decode(&of.phys().bonus, of.endian()).map_err(|error| of.wrong(error))
    }

    /// Changes a bonus.
    ///
    /// # Errors
    /// It is no such record.
    pub async fn edit<R: Record + Wire>(
        &self,
        of: &Dnode,
        how: impl Fn(&mut R),
    ) -> Result<(), ZfsError> {
        edit(self.mos, of, how).await
    }
}

/// Changes a bonus of an object of the MOS.
///
/// # Errors
/// It is no such record.
pub(crate) async fn edit<R: Record + Wire>(
    mos: &Objset,
    of: &Dnode,
    how: impl Fn(&mut R),
) -> Result<(), ZfsError> {
    mos.change(|tx| {
        of.plan_bonus(R::BYTES)?;
        let mut record = R::decode(&of.phys().bonus, of.endian());
        let record = record.as_mut().map_err(|error| of.wrong(*error))?;
        how(record);
        of.set_bonus(tx, record.encode(of.endian()));
        Ok(())
    })
    .await
}
