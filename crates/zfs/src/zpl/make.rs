//! A new file system: master node, tables of system attributes, the root directory.
//!
//! Source: OpenZFS, `zfs_znode_os.c` (`zfs_create_fs`), `zfs_sa.c` (the attributes and their numbers), `sa.c`.

use super::attributes::Moment;
use super::change::NewFile;
use super::name_rules::NameRules;
use super::{FileSystem, VERSION_MAX};
use crate::dmu::{Objset, new_meta};
use crate::error::ZfsError;
use crate::zap::table;
use async_recursion::async_recursion as boxed;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::{Objset as ObjsetPhys, ObjsetKind, ObjsetSize};
use zfs_format::zil::ZilHeader;
use zfs_format::zpl::attributes::{LAYOUTS, Layouts, Name, REGISTRY, Registered, names};
use zfs_format::zpl::master;

/// How numbers of 8 bytes, bytes, and lists of access are turned.
const NUMBERS: u8 = 0;
const BYTES: u8 = 3;
const ACL: u8 = 4;

/// The attributes of files, with bytes and how they are turned; a number is a place in this list.
const ATTRIBUTES: [(Name, u16, u8); 22] = [
    (names::ACCESSED, 16, NUMBERS),
    (names::MODIFIED, 16, NUMBERS),
    (names::CHANGED, 16, NUMBERS),
    (names::CREATED, 16, NUMBERS),
    (names::GENERATION, 8, NUMBERS),
    (names::MODE, 8, NUMBERS),
    (names::SIZE, 8, NUMBERS),
    (names::PARENT, 8, NUMBERS),
    (names::LINKS, 8, NUMBERS),
    (names::EXTENDED_ATTRIBUTES, 8, NUMBERS),
    (names::DEVICE, 8, NUMBERS),
    (names::FLAGS, 8, NUMBERS),
    (names::USER, 8, NUMBERS),
    (names::GROUP, 8, NUMBERS),
    (names::PADDING, 32, NUMBERS),
    (names::ZNODE_ACL, 88, BYTES),
    (names::ACL_COUNT, 8, NUMBERS),
    (names::SYMBOLIC_LINK, 0, BYTES),
    (names::SCAN_STAMP, 32, BYTES),
    (names::ACL, 0, ACL),
    (names::EXTENDED_ATTRIBUTE_LIST, 0, BYTES),
    (names::PROJECT, 8, NUMBERS),
];

/// The root block of an objset that is new.
pub fn new_root(kind: ObjsetKind) -> ObjsetPhys {
    ObjsetPhys {
        size: ObjsetSize::V3,
        meta_dnode: Some(new_meta()),
        zil: ZilHeader::EMPTY,
        kind,
        flags: 0,
        portable_mac: [0; 32],
        local_mac: [0; 32],
        used: [None, None, None],
    }
}

/// How a file system begins.
#[derive(Clone, Copy, Debug)]
pub struct NewFileSystem {
    /// When.
    pub created: Moment,
    /// The transaction group.
    pub txg: u64,
    /// The root directory's owner and group.
    pub owner: (u64, u64),
    /// A number that its tables make theirs.
    pub seed: u64,
    /// Which names it takes.
    pub names: NameRules,
}

/// Makes a file system in an objset that holds nothing.
///
/// # Errors
/// What is needed can't be had.
#[boxed(?Send)]
pub async fn make(objset: &Objset, new: NewFileSystem) -> Result<(), ZfsError> {
    let of = |object_type| table::new(object_type, new.seed);
    let master = objset.claim(master::OBJECT, &of(ObjectType::MASTER_NODE)).await?;
    let enter = async |table, name: &str, number| {
        table::set(objset, table, name, table::number(number)).await
    };
    enter(&master, master::VERSION, VERSION_MAX).await?;
    for (name, number) in new.names.numbers() {
        enter(&master, name, number).await?;
    }
    let attributes = objset.make(&of(ObjectType::SA_MASTER_NODE)).await?;
    enter(&master, master::SA_ATTRIBUTES, attributes.number()).await?;
    let queue = objset.make(&of(ObjectType::UNLINKED_SET)).await?;
    enter(&master, master::DELETE_QUEUE, queue.number()).await?;
    let registry = objset.make(&of(ObjectType::SA_ATTR_REGISTRATION)).await?;
    let layouts = objset.make(&of(ObjectType::SA_ATTR_LAYOUTS)).await?;
    enter(&attributes, REGISTRY, registry.number()).await?;
    enter(&attributes, LAYOUTS, layouts.number()).await?;
    let mut known = Layouts::default();
    for (number, (name, bytes, swap)) in (0..).zip(ATTRIBUTES) {
        let registered = Registered { number, bytes, swap };
        enter(&registry, name.text(), registered.to_value()).await?;
        known.register(name.text(), registered);
    }
    let root = objset.change(|_| Ok(objset.plan_number(1)?.0)).await?;
    let files = FileSystem::new(
        objset,
        root,
        VERSION_MAX,
        known,
        (Some(layouts.number()), Some(queue.number())),
    );
    let directory = NewFile {
        number: root,
        slots: 1,
        mode: 0o040_755,
        user: new.owner.0,
        group: new.owner.1,
        generation: new.txg,
        created: new.created,
        device: 0,
        target: None,
    };
    files.set_name_rules(new.names);
    files.make_root(&directory).await?;
    enter(&master, master::ROOT, root).await
}
