//! Inodes read, written into their records, and dropped from memory.

use super::{Body, CRC_AT, Inode, InodeTable, Kind, MAGIC};
use crate::core::{Core, Outcome, Tx};
use crate::mapping::Root;
use crate::meta::MetaRef;
use std::rc::Rc;
use stdx::bytes::{FormatError, Problem, Reader, put};

impl InodeTable {
    /// Enters or erases an orphan.
    pub(crate) fn set_orphan(&self, tx: &Tx<'_>, number: u64, orphan: bool) {
        let mut table = self.state.borrow_mut();
        let slot = if orphan {
            let slot = table.free_slots.pop_first().expect("callers look for a slot first");
            table.orphans.insert(number, slot);
            slot
        } else {
            let Some(slot) = table.orphans.remove(&number) else { return };
            table.free_slots.insert(slot);
            slot
        };
        let Some(first) = table.orphan_blocks.first() else { return };
        let per_block = first.bytes().len() / 8;
        let block = MetaRef::clone(&table.orphan_blocks[slot / per_block]);
        drop(table);
        let at = slot % per_block * 8;
        let value = if orphan { number } else { 0 };
        tx.edit(&block, at..at + 8, |bytes| bytes.copy_from_slice(&value.to_le_bytes()));
    }
}

impl Core {
    /// The block of an inode's record, and the byte in it.
    pub(crate) async fn inode_block(&self, number: u64) -> Outcome<MetaRef> {
        let (block, _) = self.shape.inode_place(number).ok_or_else(|| self.stray(0))?;
        self.block(block).await
    }

    /// The inode of this number, from memory or the device.
    pub(crate) async fn inode(&self, number: u64) -> Outcome<Rc<Inode>> {
        if let Some(inode) = self.inodes.get(number) {
            self.inodes.touch(number, self.tick());
            return Ok(inode);
        }
        let (_, at) = self.shape.inode_place(number).ok_or_else(|| self.stray(0))?;
        let block = self.inode_block(number).await?;
        if let Some(inode) = self.inodes.get(number) {
            return Ok(inode);
        }
        let inode = {
            let bytes = block.bytes();
            self.decode_inode(number, &bytes[at..at + self.shape.inode as usize])
        };
        let inode = self.inodes.insert(inode.map_err(|error| self.damaged(error))?, self.tick());
        self.drop_surplus_inodes();
        Ok(inode)
    }

    /// Drops inodes from memory where there are too many.
    pub(crate) fn drop_surplus_inodes(&self) {
        for inode in self.inodes.surplus(self.tick()) {
            self.space.borrow_mut().drop_window(&self.shape, inode.number);
            let pages: Vec<usize> = inode.body.borrow().pages.values().copied().collect();
            let mut cache = self.pages.borrow_mut();
            for key in pages {
                cache.remove(key);
            }
        }
    }

    fn decode_inode(&self, number: u64, bytes: &[u8]) -> Result<Inode, FormatError> {
        let at = self.shape.offset(number / self.shape.inodes_per_block());
        let fields = Reader::little("inode", bytes).lying_at(at.bytes());
        fields.require(fields.get_at::<u16>("magic", 0)? == MAGIC, "magic")?;
        let crc = fields.get_at::<u32>("checksum", CRC_AT)?;
        fields.require(record_crc(bytes) == crc, "checksum")?;
        fields.require(fields.get_at::<u64>("number", 40)? == number, "number")?;
        let kind = match fields.get_at::<u8>("kind", 2)? {
            1 => Kind::File,
            2 => Kind::Directory,
            _ => return Err(fields.wrong("kind", Problem::Unsound)),
        };
        let root = Root::decode(&fields, &self.shape, self.settings.mapping)?;
        let generation = fields.get_at::<u32>("generation", 48)?;
        let inode = Inode::fresh(number, kind, root, generation, 0);
        {
            let mut body = inode.body.borrow_mut();
            body.links = fields.get_at::<u32>("links", 4)?;
            body.size = fields.get_at::<u64>("size", 8)?;
            fields.require(body.size <= self.size_max(), "size")?;
            body.stored_size = body.size;
            body.blocks = fields.get_at::<u64>("blocks", 16)?;
            body.accessed = fields.get_at::<u64>("access time", 24)?;
            body.changed = fields.get_at::<u64>("change time", 32)?;
        }
        Ok(inode)
    }

    /// Enters an inode's record into a transaction. `block` is the one that holds it.
    pub(crate) fn store(&self, tx: &Tx<'_>, inode: &Inode, block: &MetaRef) {
        inode.body.borrow_mut().transaction_but_times = tx.number();
        self.store_record(tx, inode, block);
    }

    fn store_record(&self, tx: &Tx<'_>, inode: &Inode, block: &MetaRef) {
        let Some((number, at)) = self.shape.inode_place(inode.number) else { return };
        assert_eq!(number, block.number, "an inode is stored in its own block");
        let mut body = inode.body.borrow_mut();
        let mut bytes = vec![0; self.shape.inode as usize];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        bytes[2] = match inode.kind {
            Kind::File => 1,
            Kind::Directory => 2,
        };
        put(&mut bytes, 4, &body.links.to_le_bytes());
        put(&mut bytes, 8, &body.stored_size.to_le_bytes());
        put(&mut bytes, 16, &body.blocks.to_le_bytes());
        put(&mut bytes, 24, &body.accessed.to_le_bytes());
        put(&mut bytes, 32, &body.changed.to_le_bytes());
        put(&mut bytes, 40, &inode.number.to_le_bytes());
        put(&mut bytes, 48, &body.generation.to_le_bytes());
        body.root.encode(&mut bytes);
        let crc = record_crc(&bytes);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        body.transaction = tx.number();
        if std::mem::take(&mut body.times_dirty) {
            self.inodes.state.borrow_mut().times_dirty.remove(&inode.number);
        }
        drop(body);
        tx.edit(block, at..at + bytes.len(), |place| place.copy_from_slice(&bytes));
    }

    /// Erases a record: nothing is left in its place but the generation.
    pub(crate) fn erase(&self, tx: &Tx<'_>, inode: &Inode, block: &MetaRef) {
        let Some((_, at)) = self.shape.inode_place(inode.number) else { return };
        let generation = inode.body.borrow().generation;
        tx.edit(block, at..at + self.shape.inode as usize, |bytes| {
            bytes.fill(0);
            put(bytes, 48, &generation.to_le_bytes());
        });
    }

    /// Notes the time of a change, in memory.
    pub(crate) fn note_change(&self, inode: &Inode) {
        let now = self.clock();
        let mut body = inode.body.borrow_mut();
        if body.changed != now {
            body.changed = now;
            self.times_are_dirty(inode, &mut body);
        }
    }

    pub(crate) fn times_are_dirty(&self, inode: &Inode, body: &mut Body) {
        if !body.times_dirty {
            body.times_dirty = true;
            self.inodes.state.borrow_mut().times_dirty.insert(inode.number);
            self.bell.notify_waiters();
        }
    }

    /// Whether a commit would have times to store.
    pub(crate) fn has_dirty_times(&self) -> bool {
        !self.inodes.state.borrow().times_dirty.is_empty()
    }

    /// Enters the times that wait in memory into the running transaction.
    pub(crate) async fn store_times(&self) -> Outcome<()> {
        for number in self.inodes.times_dirty() {
            let Some(inode) = self.inodes.get(number) else { continue };
            let block = self.inode_block(number).await?;
            if inode.body.borrow().times_dirty {
                self.store_record(&self.tx(), &inode, &block);
            }
        }
        Ok(())
    }

    /// The size that no file exceeds.
    pub(crate) fn size_max(&self) -> u64 {
        crate::mapping::file_blocks_max(&self.shape, self.settings.mapping) * self.shape.block
    }
}

fn record_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..CRC_AT).unwrap_or_default());
    hasher.update(&[0; 4]);
    hasher.update(bytes.get(CRC_AT + 4..).unwrap_or_default());
    hasher.finalize()
}
