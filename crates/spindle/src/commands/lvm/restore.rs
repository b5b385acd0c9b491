//! `spindle lvm pvcreate --uuid`: a physical volume whose label was overwritten is made again, by what the others of its group say.
//!
//! What the device holds is looked at first, as by `scan`: anything that is known stays, but by force.

use crate::commands::scan::held;
use crate::events::events;
use crate::output::{Failure, say};
use attach::disks::{Disks, Written};
use attach::event::Events;
use attach::paths::named;
use attach::pools::Pools;
use attach::survey::{Holds, Survey};
use attach::typed;
use clap::Args;
use host::identity::same;
use rt::DeviceRef;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::ByteCount;
use volume::lvm::label::Id;
use volume::lvm::{SECTOR, group_lacking, is_labelled};
use zfs::spa::OpenOptions;

// What `spindle lvm pvcreate` takes.
#[derive(Args)]
pub struct PvcreateArgs {
    /// The physical volume: its UUID, as scan and pvs say of one that is missing
    #[arg(long)]
    uuid: Option<String>,
    /// A file or block device; a RAID set on the devices of -d, or a partition (SET:N, DEVICE:N)
    device: String,
    /// Also on a device that holds something that is known
    #[arg(short, long)]
    force: bool,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn pvcreate(args: &PvcreateArgs, places: &[PathBuf]) -> Result<(), Failure> {
    let called = args.device.as_str();
    let Some(uuid) = &args.uuid else {
        return Err(Failure::usage(
            "name by --uuid the physical volume that a group lacks, as scan and lvm pvs do; new ones are made with their group: lvm vgcreate",
        ));
    };
    let id: Id = uuid.parse().map_err(|()| {
        Failure::usage(format!("'{uuid}' is no UUID of a physical volume: these are 32 letters"))
    })?;
    let paths = with_device(places, called);
    let disks = Disks::open(&events(), &paths)?;
    disks.tell_complaints();
    let group = group_lacking(&disks.groups, id).map_err(Failure::failed)?;
    let device = chosen(&disks, called)?;
    group.check_restorable(id, &device).map_err(Failure::failed)?;
    if !args.force {
        let start = group.group.physical.values().find(|described| described.id == id);
        let start = ByteCount(start.map_or(0, |described| described.start_sector * SECTOR));
        if let Some(what) = known(&paths, called)? {
            return Err(Failure::failed(format!(
                "{called} holds something that is known ({what}), and its first {start} would be written over; add --force if they may be"
            )));
        }
    }
    drop(device);
    let written = [Written { volume: called.to_owned(), run: false }];
    let disks = disks.again_for(&paths, &written)?;
    if let Some(why) = disks.volume(called)?.read_only {
        return Err(Failure::failed(format!("{called} can't be written: {why}")));
    }
    let device = chosen(&disks, called)?;
    let group = group_lacking(&disks.groups, id).map_err(Failure::failed)?.clone();
    let name = group.group.name.clone();
    let made = disks.wait(async move { group.restore_physical(id, &device).await });
    let stopped = disks.stop();
    made.map_err(Failure::failed)?;
    stopped?;
    say(&format!("{called} is the physical volume {id} of volume group {name} again"));
    say(&format!(
        "note: what its extents hold was not looked at, and tells whether it was that one: {} scan shows it",
        typed::spindle(&paths)
    ));
    Ok(())
}

/// The places that were named, and the device where it is a path itself, or a partition of what lies at one.
fn with_device(places: &[PathBuf], called: &str) -> Vec<PathBuf> {
    let mut paths = named(places);
    let whole = called.rsplit_once(':').map(|(whole, _)| whole);
    let own = [Some(called), whole].into_iter().flatten().map(Path::new);
    let own = own.filter(|path| path.exists() && !path.is_dir()).take(1);
    let new: Vec<PathBuf> = own
        .filter(|path| !paths.iter().any(|other| lies_in(path, other)))
        .map(Path::to_owned)
        .collect();
    paths.extend(new);
    paths
}

/// Whether it is among what a place stands for.
fn lies_in(path: &Path, place: &Path) -> bool {
    let folder = path.parent().map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    same(path, place) || folder.is_some_and(|folder| same(folder, place))
}

/// The device that is called so.
fn chosen(disks: &Disks, called: &str) -> Result<DeviceRef, Failure> {
    // A logical volume may lack what lay on it.
    if disks.volume_in_part(called)?.is_logical {
        let text =
            "is a logical volume: physical volumes lie on devices, RAID sets, and partitions";
        return Err(Failure::usage(format!("{called} {text}")));
    }
    let opened = disks.volume(called)?;
    // A member's path stands for its set.
    let file = disks.files.iter().find(|file| same(Path::new(&*file.name()), Path::new(called)));
    match file.filter(|file| !Rc::ptr_eq(file, &opened.device)) {
        Some(_) => Err(Failure::failed(format!(
            "{called} is a member of RAID set {}: name the set, if the physical volume lay on that",
            disks.called(&opened.device)
        ))),
        None => Ok(opened.device),
    }
}

/// What is known of what a device holds, in words; nothing where nothing is.
fn known(paths: &[PathBuf], called: &str) -> Result<Option<String>, Failure> {
    // What could not be had was told.
    let pools = Pools::over(Disks::open(&Events::unheard(), paths)?, OpenOptions::default());
    let device = chosen(pools.disks(), called)?;
    let place = Survey::place(&pools, &device);
    let what = place.filter(|place| !matches!(place.holds, Holds::Unknown | Holds::Nothing));
    if let Some(what) = what {
        return Ok(Some(held(&what)));
    }
    let labelled = pools.wait(async move { is_labelled(&device).await });
    Ok(labelled.then(|| "the label of another physical volume".to_owned()))
}
