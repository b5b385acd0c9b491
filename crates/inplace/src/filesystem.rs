//! Making, mounting and unmounting.
//!
//! *Making* writes the tables (not the groups: those are made up when they are first used), zeros the
//! journal's area, makes the root directory through the journal as any directory, and writes the
//! superblock last: what was made in part can't be mounted.
//!
//! *Mounting* replays the journal, reads the descriptors, and finishes what was being removed. *Unmounting*
//! writes everything in place. A file system that is dropped without it is as after a power cut: the
//! next mount replays.

use crate::allocate::Space;
use crate::cache::PageCache;
use crate::core::Core;
use crate::group::Descriptor;
use crate::inode::{Inode, InodeTable, Kind};
use crate::journal::Journal;
use crate::journal::record::JournalSuper;
use crate::journal::replay::{ReplayError, Replayed, replay};
use crate::layout::Shape;
use crate::mapping::Root;
use crate::meta::MetaCache;
use crate::preset::Preset;
use crate::settings::{MountOptions, Settings, SettingsError};
use crate::superblock::{SUPERBLOCK, Superblock};
use crate::writeback::keep_up;
use rt::sync::{Notify, RwLock};
use rt::{Buf, DeviceRef, Geometry, IoErrorKind, Request, Rt, SgList, TreeErrorKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::bytes::{FormatError, Problem, Reader};
use stdx::{ByteCount, Offset};

/// Bytes in one request while a file system is made.
const MAKE_AT_ONCE: u64 = 8 << 20;

/// A mounted file system: a model, no place for data. It is a [`FileTree`](rt::FileTree).
pub struct FileSystem {
    core: Rc<Core>,
    replayed: u64,
}

/// Why a file system can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum MakeError {
    #[error("the settings can't be: {0}")]
    Settings(#[from] SettingsError),
    #[error("making the file system: the device below: {0}")]
    Io(IoErrorKind),
    #[error("making the file system: {0}")]
    Tree(TreeErrorKind),
}

/// Why a file system can't be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum MountError {
    #[error("there is no file system of this kind: {0}")]
    Format(#[from] FormatError),
    #[error("the mount options can't be: {0}")]
    Options(#[from] SettingsError),
    #[error("mounting: the device below: {0}")]
    Io(IoErrorKind),
    #[error("mounting: {0}")]
    Tree(TreeErrorKind),
}

impl From<ReplayError> for MountError {
    fn from(error: ReplayError) -> MountError {
        match error {
            ReplayError::Io(kind) => MountError::Io(kind),
            ReplayError::Format(error) => MountError::Format(error),
        }
    }
}

fn shape_on(geometry: Geometry, settings: &Settings) -> Result<Shape, SettingsError> {
    let (block, sector) = (settings.block, geometry.logical_block);
    if block < sector {
        return Err(SettingsError::BelowDevice { block, device: sector });
    }
    Shape::of(settings, geometry.capacity)
}

impl FileSystem {
    /// Whether one could be made on a device of this geometry.
    ///
    /// # Errors
    /// When the settings can't be, there or at all.
    pub fn fits(geometry: Geometry, settings: &Settings) -> Result<(), SettingsError> {
        shape_on(geometry, settings).map(drop)
    }

    /// Makes a file system: what was on the device is lost.
    ///
    /// # Errors
    /// When the settings can't be, or the device fails.
    pub async fn format(rt: &Rt, device: DeviceRef, settings: &Settings) -> Result<(), MakeError> {
        let (geometry, block) = (device.geometry(), settings.block);
        let (shape, sector) = (shape_on(geometry, settings)?, geometry.logical_block);
        let submit = async |request| match device.submit(request).await {
            Ok(_) => Ok(()),
            Err(error) => Err(MakeError::Io(error.kind)),
        };
        let write = async |at: Offset, data: SgList| {
            let mut from = 0;
            while from < data.len() {
                let to = (from + MAKE_AT_ONCE as usize).min(data.len());
                let place = at + ByteCount(from as u64);
                submit(Request::write(place, data.slice(from..to))).await?;
                from = to;
            }
            Ok::<(), MakeError>(())
        };
        write(Offset::ZERO, SgList::zeros(shape.block as usize)).await?;
        submit(Request::flush()).await?;
        write(shape.offset(shape.descriptors.start), fresh_descriptors(&shape)).await?;
        for area in [shape.orphans, shape.journal] {
            let zeros = SgList::zeros((area.len * shape.block) as usize);
            write(shape.offset(area.start), zeros).await?;
        }
        let unit = u32::try_from(sector.bytes().min(shape.block)).unwrap_or(512);
        let log = JournalSuper { unit, epoch: 1, tail: shape.block, transaction: 1 };
        let mut first = vec![0; shape.block as usize];
        first[..crate::journal::record::SUPER].copy_from_slice(&log.encode());
        write(shape.offset(shape.journal.start), Buf::copy_of(&first).into()).await?;
        submit(Request::flush()).await?;

        let options = Preset::Xfs.mount_options((block * 1024).max(ByteCount::mib(4)));
        let options = MountOptions { io_max: block * 128, ..options };
        let start = Replayed { epoch: 1, next: 1, transactions: 0 };
        let core = build(rt, &device, *settings, options, shape, 0, start);
        let tree = |core: &Core, kind| {
            let io = |kind| match kind {
                TreeErrorKind::Io(kind) => MakeError::Io(kind),
                kind => MakeError::Tree(kind),
            };
            core.shut_down(kind);
            io(kind)
        };
        let made = async {
            load_tables(&core).await?;
            let grant = core.take_inode(0).await?;
            let root = Root::empty(&shape, settings.mapping);
            let inode = Inode::fresh(grant.number, Kind::Directory, root, 1, core.clock());
            let tx = core.tx();
            core.use_inode(&tx, &grant, true);
            core.store(&tx, &inode, &grant.block);
            core.commit_metadata(core.journal.running()).await?;
            core.checkpoint().await?;
            Ok(grant.number)
        };
        let root = made.await.map_err(|kind| tree(&core, kind))?;
        submit(Request::flush()).await?;
        let superblock =
            Superblock { settings: *settings, capacity: geometry.capacity, root }.encode();
        write(Offset::ZERO, Buf::copy_of(&superblock).into()).await?;
        submit(Request::flush()).await?;
        core.shut_down(TreeErrorKind::ReadOnly);
        Ok(())
    }

    /// Mounts what [`format`](FileSystem::format) made.
    ///
    /// # Errors
    /// When there is no such file system, it is damaged, or the device fails.
    pub async fn mount(
        rt: &Rt,
        device: DeviceRef,
        options: MountOptions,
    ) -> Result<Rc<FileSystem>, MountError> {
        let geometry = device.geometry();
        let least = ByteCount(SUPERBLOCK as u64).round_up(geometry.logical_block);
        if geometry.capacity < least {
            return Err(Reader::little("superblock", &[]).wrong("capacity", Problem::Short).into());
        }
        let read = device.submit(Request::read(Offset::ZERO, least)).await;
        let bytes = read.map_err(|error| MountError::Io(error.kind))?.to_vec();
        let (superblock, shape) = Superblock::decode(&bytes[..SUPERBLOCK], geometry.capacity)?;
        let settings = superblock.settings;
        options.check(settings.block)?;
        if settings.block < geometry.logical_block {
            let device = geometry.logical_block;
            return Err(SettingsError::BelowDevice { block: settings.block, device }.into());
        }
        let replayed = replay(&device, &shape).await?;
        let core = build(rt, &device, settings, options, shape, superblock.root, replayed);
        let mounted = async {
            let orphans = load_tables(&core).await?;
            let root = core.inode(core.root).await?;
            if root.kind != Kind::Directory {
                return Err(core.stray(core.root / core.shape.inodes_per_block()));
            }
            for number in orphans {
                let inode = core.inode(number).await?;
                core.reclaim(&inode).await?;
            }
            Ok(())
        };
        if let Err(kind) = mounted.await {
            core.shut_down(kind);
            return Err(match (core.damage.get(), kind) {
                (Some(error), _) => MountError::Format(error),
                (None, TreeErrorKind::Io(kind)) => MountError::Io(kind),
                (None, kind) => MountError::Tree(kind),
            });
        }
        let task = keep_up(Rc::downgrade(&core), rt.clone(), Rc::clone(&core.bell));
        rt.spawn(task).detach();
        Ok(Rc::new(FileSystem { core, replayed: replayed.transactions }))
    }

    /// Writes everything in place and ends the use of the device. Open files answer nothing more.
    ///
    /// # Errors
    /// When the device fails; the next mount replays what got to the journal.
    pub async fn unmount(&self) -> Result<(), MountError> {
        let core = &self.core;
        let io = |kind| match kind {
            TreeErrorKind::Io(kind) => MountError::Io(kind),
            kind => MountError::Tree(kind),
        };
        core.sync_all().await.map_err(io)?;
        core.commit_metadata(core.journal.running()).await.map_err(io)?;
        core.checkpoint().await.map_err(io)?;
        core.shut_down(TreeErrorKind::Io(IoErrorKind::Gone));
        Ok(())
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.core.settings
    }

    /// How it is mounted.
    pub fn options(&self) -> &MountOptions {
        &self.core.options
    }

    /// Transactions that the mount replayed: more than none after a crash.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// The first damaged structure that was met, where one was.
    pub fn damage(&self) -> Option<FormatError> {
        self.core.damage.get()
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }
}

impl Drop for FileSystem {
    /// Without an unmount: as a power cut. Open files live on.
    fn drop(&mut self) {
        self.core.bell.notify_waiters();
    }
}

fn build(
    rt: &Rt,
    device: &DeviceRef,
    settings: Settings,
    options: MountOptions,
    shape: Shape,
    root: u64,
    journal: Replayed,
) -> Rc<Core> {
    let sector = device.geometry().logical_block.bytes();
    let Replayed { epoch, next, .. } = journal;
    let (background, limit) = (options.dirty_background_percent, options.dirty_percent);
    Rc::new(Core {
        rt: rt.clone(),
        device: Rc::clone(device),
        name: (*device.name()).into(),
        settings,
        options,
        shape,
        root,
        meta: MetaCache::default(),
        journal: Journal::new(&shape, settings.journal_form, sector, epoch, next),
        space: RefCell::new(Space::new(&shape, Vec::new())),
        inodes: InodeTable::new(options.cache),
        pages: RefCell::new(PageCache::new(options.cache, shape.block, background, limit)),
        namespace: RwLock::new(()),
        ticks: Cell::new(0),
        bell: Rc::new(Notify::new()),
        cleaned: Notify::new(),
        closed: Cell::new(None),
        flushes: Cell::new((0, 0)),
        damage: Cell::new(None),
    })
}

/// Descriptors of regions that were never used.
fn fresh_descriptors(shape: &Shape) -> SgList {
    let mut bytes = vec![0; (shape.descriptors.len * shape.block) as usize];
    for region in 0..shape.regions {
        let group = shape.group_of_region(region);
        let is_first = region == shape.first_region(group);
        let descriptor = Descriptor {
            free_blocks: (shape.region(region).len - shape.region_metadata(region)) as u32,
            has_bitmap: false,
            has_inode_map: false,
            free_inodes: if is_first { shape.table_inodes as u32 } else { 0 },
            directories: 0,
        };
        let at = region as usize * descriptor.encode().len();
        bytes[at..at + 16].copy_from_slice(&descriptor.encode());
    }
    Buf::copy_of(&bytes).into()
}

/// Reads descriptors and orphans; returns the orphans.
async fn load_tables(core: &Rc<Core>) -> Result<Vec<u64>, TreeErrorKind> {
    let shape = core.shape;
    let blocks = core.blocks(shape.descriptors).await?;
    *core.space.borrow_mut() = Space::new(&shape, blocks);
    let mut free = Vec::with_capacity(shape.regions as usize);
    for region in 0..shape.regions {
        let descriptor = core.descriptor(region);
        let most = shape.region(region).len - shape.region_metadata(region);
        if u64::from(descriptor.free_blocks) > most {
            return Err(core.stray(shape.bitmap_block(region)));
        }
        free.push(descriptor.free_blocks);
        let group = shape.group_of_region(region);
        if region == shape.first_region(group) {
            let Descriptor { free_inodes, directories, .. } = descriptor;
            core.space.borrow_mut().set_group(group, free_inodes, directories);
        }
    }
    core.space.borrow_mut().set_regions(&free);
    let blocks = core.blocks(shape.orphans).await?;
    Ok(core.inodes.set_orphan_blocks(blocks, shape.block))
}
