//! Volumes of pools, made and given another size, in OpenZFS's words; and space that is kept free.
//!
//! * A volume that is made without `-s` has space kept free for all of it (`refreservation`), by OpenZFS's estimate.
//! * A new size changes what is kept free where it was that of the old size.
//! * What is behind a smaller size is freed.

use super::taken::{block_between, is_block};
use crate::output::{Failure, say};
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::property::table::{Kinds, Property};
use ::zfs::dsl::property::view::Kind;
use ::zfs::show;
use ::zfs::spa::Spa;
use ::zfs::spa::datasets::TaskError;
use ::zfs::spa::live::set_number;
use ::zfs::spa::volumes::{Limit, NewVolume};
use ::zfs::zvol::live::LiveVolume;
use ::zfs::zvol::reservation::{BLOCK_BYTES_DEFAULT, default_block_bytes, reservation};
use attach::pools::LivePool;
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::block_pointer::BLOCK_BYTES_MAX;
use zfs_format::vdev::Vdev;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::alloc::Class;

/// What is asked of a new volume.
pub struct Asked {
    /// Its size; whole blocks at the least.
    bytes: u64,
    block_bytes: Option<u64>,
    /// No space is kept free for it, but what a property says.
    sparse: bool,
}

/// A size as people write it.
fn size(text: &str, what: &str) -> Result<u64, Failure> {
    let size: Result<ByteCount, _> = text.parse();
    let size = size.map_err(|_| Failure::failed(format!("bad volume {what} '{text}'")))?;
    Ok(size.bytes())
}

fn check_block(bytes: u64) -> Result<u64, Failure> {
    let text = || block_between("volblocksize", BLOCK_BYTES_MAX);
    is_block(bytes, BLOCK_BYTES_MAX).then_some(bytes).ok_or_else(|| Failure::failed(text()))
}

impl Asked {
    /// What the options say; of the properties those that are the volume's own are taken out.
    ///
    /// # Errors
    /// No volume can be so.
    pub fn of(
        volume: Option<&str>,
        block: Option<&str>,
        sparse: bool,
        properties: &mut Vec<String>,
    ) -> Result<Option<Asked>, Failure> {
        let Some(volume) = volume else {
            if block.is_some() || sparse {
                let text = "'-s' and '-b' can only be used when creating a volume";
                return Err(Failure::usage(text));
            }
            return Ok(None);
        };
        let bytes = size(volume, "size")?;
        if bytes == 0 {
            return Err(Failure::failed("volume size cannot be zero"));
        }
        let mut block_bytes = block.map(|text| size(text, "block size")).transpose()?;
        let mut kept = Vec::new();
        for property in properties.drain(..) {
            // What is no pair at all is refused with the others.
            let (name, value) = property.split_once('=').unwrap_or((&property, ""));
            match Property::find(name).map_or(name, |property| property.name) {
                "volblocksize" => block_bytes = Some(size(value, "block size")?),
                "volsize" => return Err(Failure::failed("give the volume's size with -V")),
                _ => kept.push(property),
            }
        }
        *properties = kept;
        let block_bytes = block_bytes.map(check_block).transpose()?;
        Ok(Some(Asked { bytes, block_bytes, sparse }))
    }

    /// Bytes of its blocks, where that was said.
    pub fn block(&self) -> Option<u64> {
        self.block_bytes
    }

    /// The volume, in a pool of these vdevs.
    ///
    /// # Errors
    /// There is none so large.
    pub fn volume(
        &self,
        spa: &Spa,
        name: &str,
        properties: Vec<(String, LeafValue)>,
    ) -> Result<NewVolume, Failure> {
        let tops = tops(spa);
        let best = default_block_bytes(&tops);
        let block_bytes = self.block_bytes.unwrap_or(best);
        if block_bytes < BLOCK_BYTES_DEFAULT {
            say(&format!(
                "warning: volblocksize ({block_bytes}) is less than the default minimum block size \
                 ({BLOCK_BYTES_DEFAULT}): to reduce wasted space a volblocksize of {best} is recommended"
            ));
        }
        let bytes = self.bytes.checked_next_multiple_of(block_bytes);
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| Failure::failed("volume size exceeds limit"))?;
        let number = |wanted: &str| {
            let set = properties.iter().find(|(name, _)| name == wanted);
            set.and_then(|(_, value)| value.number())
        };
        let copies = number("copies").unwrap_or(1);
        let is_auto = properties.iter().any(|(name, value)| is_auto(name, Some(value)));
        let kept = match number("refreservation") {
            Some(bytes) => bytes,
            None if self.sparse && !is_auto => 0,
            None => reservation(&tops, bytes, block_bytes, copies),
        };
        let others = properties.into_iter().filter(|(name, _)| Limit::of(name).is_none());
        let (name, properties) = (name.to_owned(), others.collect());
        Ok(NewVolume { name, bytes, block_bytes, reservation: kept, properties })
    }
}

/// The vdevs that data lies on.
fn tops(spa: &Spa) -> Vec<Vdev> {
    let vdevs = spa.vdevs();
    let tops = vdevs.children.iter().filter(|top| Class::of(top) == Class::Normal);
    tops.cloned().collect()
}

/// Whether a property is one of such datasets.
///
/// # Errors
/// It is not.
pub fn check_applies(name: &str, kind: Kind) -> Result<(), Failure> {
    let kinds = match kind {
        Kind::Volume => Kinds::VOLUME,
        _ => Kinds::FILE_SYSTEM,
    };
    match Property::named(name) {
        Some(property) if !property.kinds.has(kinds) => {
            Err(Failure::failed(format!("'{name}' does not apply to datasets of this type")))
        }
        _ => Ok(()),
    }
}

/// The value of `refreservation` that keeps as much free as a volume is made with.
pub const AUTO: &str = "auto";

fn is_auto(name: &str, value: Option<&LeafValue>) -> bool {
    name == "refreservation" && value.is_some_and(|value| value.number().is_none())
}

/// Whether a property is one of such datasets, and they can have this value.
///
/// # Errors
/// It is not.
pub fn check_value(name: &str, value: Option<&LeafValue>, kind: Kind) -> Result<(), Failure> {
    check_applies(name, kind)?;
    match is_auto(name, value) && kind != Kind::Volume {
        true => Err(Failure::failed(format!("'{name}={AUTO}' is for volumes only"))),
        false => Ok(()),
    }
}

/// Sets a property that is no plain one; says whether it was such.
///
/// # Errors
/// With the line to print.
pub fn set_special(
    pool: &LivePool,
    node: &Rc<Node>,
    name: &str,
    value: Option<&LeafValue>,
) -> Result<bool, Failure> {
    let number = value.and_then(LeafValue::number).unwrap_or(0);
    if name == "volsize" {
        return resize(pool, node, number).map(|()| true);
    }
    let Some(limit) = Limit::of(name) else { return Ok(false) };
    let dataset = &node.directory.name;
    if limit == Limit::HeadQuota {
        check_applies(name, node.kind)?;
    }
    if is_auto(name, value) {
        let (bytes, block, _) = opened(pool, node)?;
        let kept = kept_for(pool, node, block);
        return set_limit(pool, node, limit, kept(bytes)).map(|()| true);
    }
    if node.kind == Kind::Volume && limit != Limit::Quota && number > opened(pool, node)?.0 {
        let text = format!("'{name}' is greater than current volume size");
        return Err(Failure::failed(format!("cannot set property for '{dataset}': {text}")));
    }
    set_limit(pool, node, limit, number).map(|()| true)
}

/// Sets a limit.
///
/// # Errors
/// With the line to print.
pub fn set_limit(
    pool: &LivePool,
    node: &Rc<Node>,
    limit: Limit,
    bytes: u64,
) -> Result<(), Failure> {
    let number = node.directory.number;
    let done = pool.task(async move |tasks| tasks.set_limit(number, limit, bytes).await)?;
    done.map_err(|error| {
        let why = match error {
            TaskError::NoSpace => "size is greater than available space".to_owned(),
            other => other.to_string(),
        };
        Failure::failed(format!("cannot set property for '{}': {why}", node.directory.name))
    })
}

/// How much is kept free for a volume of these blocks and so many bytes, where it is for all of it.
fn kept_for(pool: &LivePool, node: &Node, block: u64) -> impl Fn(u64) -> u64 + use<> {
    let (tops, copies) = (tops(pool.live.spa()), set_number(node, "copies").unwrap_or(1));
    move |bytes| reservation(&tops, bytes, block, copies)
}

/// The volume's size, and its block, and the volume.
fn opened(pool: &LivePool, node: &Rc<Node>) -> Result<(u64, u64, LiveVolume), Failure> {
    let (live, of) = (Rc::clone(&pool.live), Rc::clone(node));
    let opened = pool.pools.wait(async move { LiveVolume::open(&live, &of).await });
    let name = &node.directory.name;
    let volume = opened.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    Ok((volume.volume().size().bytes(), volume.volume().block().bytes(), volume))
}

/// Gives a volume another size.
fn resize(pool: &LivePool, node: &Rc<Node>, bytes: u64) -> Result<(), Failure> {
    let name = node.directory.name.clone();
    let refuse = |why: &str| Failure::failed(format!("cannot set property for '{name}': {why}"));
    check_applies("volsize", node.kind).map_err(|failure| refuse(&failure.message))?;
    if set_number(node, "readonly").unwrap_or(0) != 0 {
        return Err(refuse("its property readonly is on"));
    }
    let (before, block, volume) = opened(pool, node)?;
    if bytes == 0 {
        return Err(refuse("'volsize' cannot be zero"));
    }
    if !bytes.is_multiple_of(block) || i64::try_from(bytes).is_err() {
        let block = show::bytes(block);
        return Err(refuse(&format!(
            "'volsize' must be a multiple of volume block size ({block})"
        )));
    }
    let kept = kept_for(pool, node, block);
    // What is kept free follows, where it was for all of the volume: before it grows, and after it shrank.
    let follows = set_number(node, "refreservation") == Some(kept(before));
    let keep = || set_limit(pool, node, Limit::HeadReservation, kept(bytes));
    if follows && bytes > before {
        keep()?;
    }
    let done = pool.pools.wait(async move { volume.volume().resize(bytes).await });
    done.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    pool.live.syncer().note_deed();
    if follows && bytes < before {
        keep()?;
    }
    Ok(())
}
