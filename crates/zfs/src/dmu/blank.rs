//! An objset without any block, for tests: all that is in it was put there by changes.

use super::{Block, Dnode, Objset, Tx, TxGroups, Txg};
use rt::{Buf, Reactor, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::rc::Rc;
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_format::dnode::Dnode as DnodePhys;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::{self, ObjsetKind, ObjsetSize};
use zfs_format::zil::ZilHeader;
use zfs_store::{BlockFuture, BlockRequest, ReadBlocks};

/// Has the root block, and no other.
struct OnlyRoot(Vec<u8>);

impl ReadBlocks for OnlyRoot {
    fn cached(&self, _: &BlockPointer) -> Option<Buf> {
        None
    }

    fn read(&self, _: BlockRequest) -> BlockFuture {
        let root = Buf::copy_of(&self.0);
        Box::pin(async move { Ok(root) })
    }
}

/// A dnode without blocks: its type, and sectors of a block.
pub(crate) fn phys(object_type: ObjectType, sectors: u16) -> DnodePhys {
    DnodePhys {
        object_type,
        indirect_shift: 17,
        levels: 1,
        bonus_type: ObjectType::NONE,
        checksum: 0,
        compression: 0,
        flags: 0,
        data_block_sectors: sectors,
        extra_slots: 0,
        block_id_max: 0,
        used: 0,
        pointers: vec![BlockPointer::HOLE],
        bonus: Vec::new(),
        spill: None,
    }
}

/// Runs work on a blank objset, which can be changed.
pub(crate) fn with<T: 'static>(work: impl AsyncFnOnce(Objset, TxGroups) -> T + 'static) -> T {
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let root = objset::Objset {
            size: ObjsetSize::V1,
            meta_dnode: Some(DnodePhys { levels: 2, ..phys(ObjectType::DNODE, 32) }),
            zil: ZilHeader::EMPTY,
            kind: ObjsetKind::Other(5),
            flags: 0,
            portable_mac: [0; 32],
            local_mac: [0; 32],
            used: [None, None, None],
        };
        let root = root.encode(Endian::Little).expect("it fits");
        let blocks: Rc<dyn ReadBlocks> = Rc::new(OnlyRoot(root));
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, Dva::new(0, 4096, 4096, false));
        pointer.set_endian(Endian::Little);
        let objset = Objset::open(&rt, &blocks, 1, &pointer, None).await.expect("it opens");
        let groups = TxGroups::never_synced(Txg(9), 1 << 30);
        objset.change_in(groups.clone());
        work(objset, groups).await
    });
    done.expect("it ends")
}

/// Makes an object with one block, or none.
pub(crate) async fn make(
    objset: &Objset,
    number: u64,
    phys: DnodePhys,
    first: Option<Buf>,
) -> Dnode {
    let made = objset.change(|tx: &Tx| {
        let endian = objset.plan_allocate(number, 1)?;
        let dnode = objset.allocate(tx, number, phys.clone(), endian);
        if let Some(bytes) = first.clone() {
            dnode.put(tx, 0, Block { bytes, endian });
        }
        Ok(dnode)
    });
    made.await.expect("the number is free")
}
