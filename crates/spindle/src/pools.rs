//! ZFS pools on the devices that were named: which there are, and one of them opened.
//!
//! Labels are looked for on files and block devices, RAID sets, partitions and logical volumes. Where two devices bear
//! the same label (a member of a RAID set with its superblock at the end shows the set's content), what lies on top
//! comes first: it is the one with the redundancy.
//!
//! Pools are opened for reading alone, so one that another host may have in use does no harm and takes none but
//! that what it writes meanwhile is missed; that is said once.
//!
//! Errors are in OpenZFS's words where scripts may look at them: `cannot open 'tank': no such pool`.

use crate::commands::{Failure, say};
use crate::disks::Disks;
use clap::Args;
use rt::DeviceRef;
use std::path::PathBuf;
use std::rc::Rc;
use stdx::ByteCount;
use zfs::dsl::{Dataset, Directory};
use zfs::spa::{self, FoundPool, Member, OpenError, OpenOptions, PoolState, Spa};
use zfs_store::arc::ArcOptions;

/// How pools are opened.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "How pools are opened")]
pub struct PoolArgs {
    /// Memory for the cache of a pool's blocks
    #[arg(long, global = true, value_name = "SIZE", default_value = "1GiB", value_parser = cache_size)]
    arc_max: ByteCount,
    /// Open pools as they stood at this transaction group, as long as its uberblock is left
    #[arg(
        short = 'T',
        long,
        global = true,
        value_name = "TXG",
        conflicts_with = "rewind_to_checkpoint"
    )]
    txg: Option<u64>,
    /// Open pools as they stood at their checkpoint
    #[arg(long, global = true)]
    rewind_to_checkpoint: bool,
}

/// Bytes of the smallest cache: below that not even a few blocks of metadata stay, and every step is read anew.
const ARC_BYTES_MIN: ByteCount = ByteCount(1 << 20);

/// The size of a cache.
fn cache_size(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    match size < ARC_BYTES_MIN {
        true => Err(format!("the least that works is {ARC_BYTES_MIN}")),
        false => Ok(size),
    }
}

impl PoolArgs {
    fn options(self) -> OpenOptions {
        let arc = ArcOptions { size: self.arc_max, ..ArcOptions::default() };
        OpenOptions { arc, txg: self.txg, checkpoint: self.rewind_to_checkpoint }
    }
}

/// Where pools lie, and how they are opened.
pub struct PoolPlace<'a> {
    /// Files, block devices, and folders of them.
    pub devices: &'a [PathBuf],
    /// How.
    pub args: PoolArgs,
}

/// The pools on some devices. See the [module](self).
pub struct Pools {
    disks: Disks,
    options: OpenOptions,
    /// The pools, by name, then GUID.
    pub found: Vec<Rc<FoundPool>>,
    /// Spares and cache devices, by GUID.
    pub auxiliary: Vec<Member>,
}

impl Pools {
    /// Looks for pools on the files, the folders' files, and all that lies on them.
    ///
    /// # Errors
    /// Where there are no devices, or one can't be opened.
    pub fn find(place: &PoolPlace<'_>) -> Result<Pools, Failure> {
        let disks = Disks::open(place.devices)?;
        disks.complaints.iter().for_each(|complaint| say(&format!("note: {complaint}")));
        Ok(Pools::over(disks, place.args))
    }

    /// Looks for pools on disks that are open.
    pub fn over(disks: Disks, args: PoolArgs) -> Pools {
        let mut devices: Vec<DeviceRef> = Vec::new();
        for group in &disks.groups {
            for volume in &group.group.logical {
                match group.open(&disks.runtime().rt(), &volume.name) {
                    Ok(device) => devices.push(device),
                    Err(error) => say(&format!("note: {error}")),
                }
            }
        }
        devices.extend(disks.parts.iter().map(|part| Rc::clone(&part.device)));
        devices.extend(disks.arrays.iter().map(|array| Rc::clone(&array.device)));
        devices.extend(disks.files.iter().cloned());
        let found = disks.wait(async move { spa::find(&devices).await });
        let auxiliary = found.auxiliary.into_values().collect();
        let found = found.pools.into_iter().map(Rc::new).collect();
        let pools = Pools { disks, options: args.options(), found, auxiliary };
        pools.living().for_each(|pool| pools.tell_of_members(pool));
        pools
    }

    /// Tells what of a pool's devices looks like a mistake, and is read all the same.
    fn tell_of_members(&self, pool: &FoundPool) {
        for (member, needed) in pool.cut_short() {
            let (name, has) = (self.name_of(&member.device), member.device.geometry().capacity);
            say(&format!(
                "note: {name} has {has}, and pool '{}' goes up to {needed} on it: was it cut short? What lay \
                 behind its end can't be read",
                pool.name
            ));
        }
        // What lies on top of a set or volume group shows through on a member of it: that is no copy.
        let is_plain = |device: &DeviceRef| {
            let (files, parts) = (self.disks.files.iter(), self.disks.parts.iter());
            let parts = parts.filter(|part| !part.is_on_array()).map(|part| &part.device);
            files.chain(parts).any(|plain| Rc::ptr_eq(plain, device))
        };
        for copy in &pool.copies {
            let Some(used) = pool.members.get(&copy.guid) else { continue };
            if is_plain(&used.device) && is_plain(&copy.device) {
                let (used, copy) = (self.name_of(&used.device), self.name_of(&copy.device));
                say(&format!(
                    "note: {copy} and {used} both say that they are the same device of pool '{}': {used} is \
                     read; leave one out",
                    pool.name
                ));
            }
        }
    }

    /// The disks.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Runs I/O on the devices to its end.
    pub fn wait<T: 'static>(&self, io: impl Future<Output = T> + 'static) -> T {
        self.disks.wait(io)
    }

    /// What a device is called: a partition by its disk and number, all else by its own name.
    pub fn name_of(&self, device: &DeviceRef) -> String {
        let name = device.name();
        let part = self.disks.parts.iter().find(|part| part.device.name() == name);
        part.map_or(name.to_string(), |part| format!("{}:{}", part.of, part.partition.number))
    }

    /// The executor of the devices.
    pub fn rt(&self) -> rt::Rt {
        self.disks.runtime().rt()
    }

    /// The pools that were not destroyed.
    pub fn living(&self) -> impl Iterator<Item = &Rc<FoundPool>> {
        self.found.iter().filter(|pool| pool.state != PoolState::Destroyed)
    }

    /// The pool of this name or GUID; nothing where there is none.
    ///
    /// # Errors
    /// Several have the name.
    pub fn named(&self, name: &str) -> Result<Option<&Rc<FoundPool>>, Failure> {
        let mut fitting = self.living().filter(|pool| pool.name == name);
        if let Some(pool) = fitting.next() {
            let other = fitting.next();
            return match other {
                None => Ok(Some(pool)),
                Some(other) => Err(Failure::failed(format!(
                    "'{name}': more than one matching pool: name it by its GUID, {} or {}",
                    pool.guid, other.guid
                ))),
            };
        }
        let guid: Option<u64> = name.parse().ok();
        Ok(guid.and_then(|guid| self.found.iter().find(|pool| pool.guid == guid)))
    }

    /// The pools of these names, or all that were not destroyed; and whether a name has none, which is said.
    ///
    /// # Errors
    /// Several have a name.
    pub fn chosen(
        &self,
        names: &[String],
        no_pool: impl Fn(&str) -> String,
    ) -> Result<(Vec<Rc<FoundPool>>, bool), Failure> {
        if names.is_empty() {
            return Ok((self.living().cloned().collect(), false));
        }
        let (mut chosen, mut failed) = (Vec::new(), false);
        for name in names {
            match self.named(name)? {
                Some(found) => chosen.push(Rc::clone(found)),
                None => {
                    say(&format!("spindle: {}", no_pool(name)));
                    failed = true;
                }
            }
        }
        Ok((chosen, failed))
    }

    /// Opens the pool of this name or GUID for reading.
    ///
    /// # Errors
    /// There is none, or it can't be opened.
    pub fn open(&self, name: &str) -> Result<Rc<Spa>, Failure> {
        match self.named(name)? {
            Some(found) => self.open_found(found),
            None => Err(Failure::failed(format!("cannot open '{name}': no such pool"))),
        }
    }

    /// Opens a pool for reading, and says so where it was not exported.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open_found(&self, found: &Rc<FoundPool>) -> Result<Rc<Spa>, Failure> {
        let is_rewound = self.options.txg.is_some() || self.options.checkpoint;
        if found.state == PoolState::Active && !is_rewound {
            let text = "was not exported: it is read as it stood at its last transaction group";
            say(&format!("note: pool '{}' {text}", found.name));
        }
        self.try_open(found).map_err(Failure::failed)
    }

    /// Opens a pool for reading, without a word.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn try_open(&self, found: &Rc<FoundPool>) -> Result<Rc<Spa>, OpenError> {
        let (rt, found, options) = (self.rt(), Rc::clone(found), self.options);
        self.wait(async move { Spa::open(&rt, &found, options).await.map(Rc::new) })
    }

    /// Opens the pool that a dataset's name begins with.
    ///
    /// # Errors
    /// There is none, or it can't be opened.
    pub fn open_of_dataset(&self, name: &str) -> Result<Rc<Spa>, Failure> {
        check_name(name)?;
        match self.named(pool_of(name))? {
            Some(found) => self.open_found(found),
            None => Err(no_dataset(name)),
        }
    }

    /// The dataset of this name (`tank/home`, `tank/home@monday`) in an open pool, with its directory.
    ///
    /// # Errors
    /// There is none, or it can't be had.
    pub fn dataset(&self, spa: &Rc<Spa>, name: &str) -> Result<(Directory, Dataset), Failure> {
        let (pool, called) = (Rc::clone(spa), name.to_owned());
        let found = self.wait(async move { pool.dsl().find(&called).await });
        let failed = |error| Failure::failed(format!("cannot open '{name}': {error}"));
        found.map_err(failed)?.ok_or_else(|| no_dataset(name))
    }
}

/// The part of a dataset's name that is the pool's.
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@', '#']).next().unwrap_or(name)
}

/// What is said of a dataset that isn't there.
pub fn no_dataset(name: &str) -> Failure {
    Failure::failed(format!("cannot open '{name}': dataset does not exist"))
}

/// Bytes of a dataset's name at the most.
const NAME_BYTES_MAX: usize = 255;

/// Whether a name can be one of a dataset.
///
/// # Errors
/// What is wrong with it, in OpenZFS's words.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let wrong = |text: &str| Err(Failure::failed(format!("cannot open '{name}': {text}")));
    if name.len() > NAME_BYTES_MAX {
        return wrong("name is too long");
    }
    if name.starts_with('/') {
        return wrong("leading slash in name");
    }
    if name.ends_with('/') {
        return wrong("trailing slash in name");
    }
    let (path, after) = match name.find(['@', '#']) {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    if path.split('/').any(str::is_empty) || after == Some("") {
        return wrong("empty component or misplaced '@' or '#' delimiter in name");
    }
    if after.is_some_and(|after| after.contains(['@', '#', '/'])) {
        return wrong("multiple '@' and/or '#' delimiters in name");
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.: /@#%".contains(c);
    match name.chars().find(|c| !fits(*c)) {
        Some(c) => wrong(&format!("invalid character '{c}' in name")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_wrong_with_it() {
        for good in ["tank", "tank/home", "tank/a b@x:1", "tank/a#mark", "1tank/%recv"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for (name, text) in [
            ("bad name!", "invalid character '!' in name"),
            ("/tank", "leading slash"),
            ("tank/", "trailing slash"),
            ("tank//a", "empty component"),
            ("tank@", "empty component"),
            ("tank@a@b", "multiple '@'"),
            ("tank@a/b", "multiple '@'"),
        ] {
            let message = check_name(name).expect_err(name).message;
            assert!(message.contains(text), "{message}");
        }
        assert!(check_name(&"a".repeat(256)).is_err());
        assert_eq!((pool_of("a/b@c"), pool_of("a#b"), pool_of("a")), ("a", "a", "a"));
    }
}
