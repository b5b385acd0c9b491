//! Where nothing of what was asked for is found: what else lies there, and which command tells of it; and what a name means that is
//! none of a dataset.

use crate::output::{Failure, say};
use crate::printable;
use attach::disks::Disks;
use attach::paths::expand;
use attach::pools::Pools;
use attach::typed;
use attach::{Error, Events};
use std::path::{Path, PathBuf};
use volume::content::identify;
use zfs::spa::OpenOptions;

/// Names that a line has.
const NAMED_MAX: usize = 4;

/// Says that there are no pools, but RAID sets and volume groups, where it is so.
pub fn say_others_than_pools(disks: &Disks, devices: &[PathBuf]) {
    let open = disks.arrays.iter().map(|array| format!("RAID set {}", array.name));
    let refused = disks.refused().map(|set| format!("RAID set {}", set.name));
    let groups = disks.groups.iter().map(|group| format!("volume group {}", group.group.name));
    let all: Vec<String> = open.chain(refused).chain(groups).collect();
    if !all.is_empty() {
        let more = match all.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (named, spindle) =
            (all[..all.len().min(NAMED_MAX)].join(", "), typed::spindle(devices));
        say(&format!(
            "note: no ZFS pool is there, but {named}{more}: {spindle} scan shows what lies where"
        ));
    }
}

/// Says that there are no superblocks of md, but something else, where it is so.
pub fn say_others_than_sets(devices: &[PathBuf]) {
    let paths = expand(devices).unwrap_or_default();
    let found = paths.iter().find_map(|path| {
        let content = host::probe::content(path).ok()??;
        (!content.what.starts_with("data ")).then_some((path, content))
    });
    if let Some((path, content)) = found {
        let (path, what, spindle) = (path.display(), content.what, typed::spindle(devices));
        say(&format!(
            "note: no md superblock is there, but {path} holds {what}: {spindle} scan shows what lies where"
        ));
    }
}

/// The failure of a command on datasets, with what its name means where that is a RAID set or a volume on these disks.
pub fn with_what_it_is(failure: Failure, disks: &Disks, devices: &[PathBuf]) -> Failure {
    let called = failure.absent.as_ref().and_then(|name| name.split(['@', '#']).next());
    match called.and_then(|called| no_dataset(called, "opened", false, disks, devices)) {
        Some(instead) => failure.and_do(&instead),
        None => with_what_takes_force(failure, disks, devices),
    }
}

/// The failure of a command on a dataset, with the sets on these disks that were not looked into, where it was not found.
pub fn with_what_takes_force(failure: Failure, disks: &Disks, devices: &[PathBuf]) -> Failure {
    let sets = disks.forcible();
    match failure.absent.is_some() && !sets.is_empty() {
        true => failure.and_do(&format!(
            "not looked into, since put together by force alone: RAID set {}; next: {} scan --force",
            sets.join(", "),
            typed::spindle(devices)
        )),
        false => failure,
    }
}

/// The command that writes out what was to be dumped, where it is called as a volume of a pool on these disks.
pub fn volume_of_pool((called, file): (&str, &Path), devices: &[PathBuf]) -> Option<String> {
    let (pool, _) = called.split_once('/')?;
    let disks = Disks::open(&Events::unheard(), devices).ok()?;
    let pools = Pools::over(disks, OpenOptions::default());
    let found = pools.named(pool).ok()??;
    let (spindle, volume) = (typed::spindle(devices), typed::quoted(called));
    Some(format!(
        "a volume of ZFS pool {}: {spindle} zfs dump {volume} {}",
        printable::word(&found.name),
        typed::quoted(&file.to_string_lossy())
    ))
}

/// What to do instead, where what was named is no dataset but a RAID set or a volume, and so can't be `done`; nothing where it is
/// neither.
pub fn no_dataset(
    called: &str,
    done: &str,
    for_writing: bool,
    disks: &Disks,
    devices: &[PathBuf],
) -> Option<String> {
    let spindle = typed::spindle(devices);
    let mut skips = "";
    let found = disks.volume(called).or_else(|error| {
        let in_part = disks.volume_in_part(called).ok().filter(|_| error.skip_helps());
        skips = if in_part.is_some() { " --skip-damaged" } else { "" };
        in_part.ok_or(error)
    });
    let device = match found {
        Ok(opened) => opened.device,
        Err(Error::Refused { why, force_helps, .. }) => {
            let next = match force_helps {
                true => format!(
                    "{spindle} serve --volume {} --readonly --force lends it to Linux, which mounts it",
                    typed::quoted(called)
                ),
                false => format!("{spindle} scan says more"),
            };
            return Some(format!(
                "{called}: it is a RAID set that can't be opened: {why}; next: {next}"
            ));
        }
        Err(_) => return None,
    };
    let content = disks.wait(async move { identify(&device).await }).ok().flatten();
    let holds = match &content {
        Some(content) => format!("it holds {}", content.kind.name()),
        None => "it is a volume".to_owned(),
    };
    let is_read = !for_writing || !skips.is_empty();
    let (flag, name) = (if is_read { " --readonly" } else { "" }, typed::quoted(called));
    Some(format!(
        "{called}: {holds}, and datasets of ZFS pools alone are {done} here: {spindle} serve --volume {name}{flag}{skips} lends it \
         to Linux, which mounts it; it says how"
    ))
}
