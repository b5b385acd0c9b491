//! Where a copy into a pool goes: `DATASET:PATH`, and the pool, opened for writing.
//!
//! As with sources of a copy outward the first colon before which a dataset's name ends divides the two.

use crate::output::Failure;
use crate::printable;
use ::host::directory::plain;
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::property::view::Kind;
use ::zfs::spa::Spa;
use attach::Error;
use attach::pools::{LivePool, PoolPlace, Pools, pool_of, within};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use zfs_format::dsl::property::PropertyValue;

/// Bytes of a name in a dataset.
const NAME_BYTES_MAX: usize = 255;

/// A pool that is copied into.
pub(super) enum Pool {
    /// It is open here.
    Own(LivePool),
    /// Another process holds it: here it is only read.
    Held(Box<Pools>, Rc<Spa>),
}

impl Pool {
    fn of_dataset(place: &PoolPlace<'_>, name: &str, in_use: bool) -> Result<Pool, Error> {
        match LivePool::of_dataset(place, name, in_use) {
            Err(Error::PoolHeld { .. }) => {
                let pools = Pools::find(place)?;
                let found = pools.named(pool_of(name))?;
                let found = found.ok_or_else(|| Error::NoPool { name: name.to_owned() })?;
                let spa = pools.try_open(found)?;
                Ok(Pool::Held(Box::new(pools), spa))
            }
            other => other.map(Pool::Own),
        }
    }

    /// The disks that it lies on, and whatever else is there.
    pub(super) fn pools(&self) -> &Pools {
        match self {
            Pool::Own(pool) => &pool.pools,
            Pool::Held(pools, _) => pools,
        }
    }

    /// It.
    pub(super) fn spa(&self) -> &Rc<Spa> {
        match self {
            Pool::Own(pool) => pool.live.spa(),
            Pool::Held(_, spa) => spa,
        }
    }
}

/// A place in a dataset. See the [module](self).
#[derive(Clone)]
pub(super) struct Target {
    /// The dataset's name.
    pub(super) dataset: String,
    /// It.
    pub(super) node: Rc<Node>,
    /// The path from its root.
    pub(super) path: Vec<Vec<u8>>,
    /// Whether it was given as a directory that others go into: with a slash at its end, or as the root.
    pub(super) is_directory: bool,
}

impl Target {
    /// What `DATASET:PATH` names, and its pool.
    ///
    /// # Errors
    /// There is no such dataset, or it can't be written.
    pub(super) fn open(
        place: &PoolPlace<'_>,
        given: &OsStr,
        in_use: bool,
    ) -> Result<(Pool, Target), Failure> {
        let bytes = given.as_bytes();
        let colons = bytes.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        let mut opened: Option<Pool> = None;
        let mut first: Option<Failure> = None;
        for at in colons {
            let Ok(name) = std::str::from_utf8(&bytes[..at]) else { break };
            if name.contains('@') {
                let text = format!("{name}: a snapshot is only read: copy into a dataset");
                return Err(Failure::usage(text));
            }
            let pool = match opened.take().map_or_else(|| Pool::of_dataset(place, name, in_use), Ok)
            {
                Ok(pool) => pool,
                Err(error @ (Error::NoPool { .. } | Error::BadName { .. })) => {
                    first.get_or_insert(error.into());
                    continue;
                }
                Err(error @ (Error::PoolInUse { .. } | Error::PoolOfOther { .. })) => {
                    // Here -f is another option.
                    let text = error.to_string().replace("with -f", "with --force-import");
                    return Err(Failure::failed(text));
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(node) = pool.pools().node(pool.spa(), name)? {
                let called = within(pool.spa(), name);
                let target = Target::of(&called, node, &bytes[at + 1..])?;
                return Ok((pool, target));
            }
            let text = format!("cannot open '{name}': dataset does not exist");
            first.get_or_insert(Failure::failed(text));
            opened = Some(pool);
        }
        Err(first.unwrap_or_else(|| {
            let shown = printable::bytes(bytes);
            Failure::usage(format!("'{shown}': name a place in a pool as DATASET:PATH"))
        }))
    }

    fn of(name: &str, node: Rc<Node>, path: &[u8]) -> Result<Target, Failure> {
        if node.kind == Kind::Volume {
            let text = format!("{name}: it is a volume: files are copied into file systems");
            return Err(Failure::failed(text));
        }
        let readonly = node.set.iter().find(|set| set.name == "readonly");
        if readonly.is_some_and(|set| set.value == PropertyValue::Number(1)) {
            return Err(Failure::failed(format!(
                "{name} is read-only: spindle zfs set readonly=off {name} makes it writable"
            )));
        }
        let is_directory =
            matches!(path, b"" | b".") || path.ends_with(b"/") || path.ends_with(b"/.");
        let parts = path.split(|byte| *byte == b'/');
        let parts: Vec<Vec<u8>> =
            parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect();
        for part in &parts {
            let shown = || printable::bytes(part);
            if !plain(part) {
                let text = format!("{name}:{}: '..' leads nowhere here", printable::bytes(path));
                return Err(Failure::usage(text));
            }
            if part.len() > NAME_BYTES_MAX {
                let (len, shown) = (part.len(), shown());
                return Err(Failure::usage(format!(
                    "the name {shown} has {len} bytes, and names in a dataset have {NAME_BYTES_MAX} at the most"
                )));
            }
        }
        Ok(Target { dataset: name.to_owned(), node, path: parts, is_directory })
    }

    /// The path of a dataset below, from the root of this one.
    pub(super) fn below(&self, name: &str) -> Option<Vec<u8>> {
        let rest = name.strip_prefix(&self.node.directory.name)?.strip_prefix('/')?;
        Some(rest.as_bytes().to_vec())
    }
}
