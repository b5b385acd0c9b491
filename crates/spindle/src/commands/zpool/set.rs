//! `spindle zpool set`, `sync`, `reguid`: a pool changed as a whole, with OpenZFS's words.
//!
//! Each opens its pool for writing, does its one thing in a transaction group, and closes the pool as exported.

use super::features::{WRITTEN, allowed};
use crate::commands::zfs::set::split;
use crate::output::Failure;
use ::zfs::dsl::property::effective::is_user;
use ::zfs::dsl::property::view::Kind;
use ::zfs::dsl::property::words;
use ::zfs::inspect::property::{Form, PoolProperty};
use ::zfs::spa::config::LabelState;
use ::zfs::zap::table;
use attach::pools::host::host_id;
use attach::pools::{LivePool, PoolPlace, Pools, pool_of};
use clap::Args;
use zfs_format::features::Feature;
use zfs_format::zap::leaf::LeafValue;

/// Bytes of a comment.
const COMMENT_BYTES_MAX: usize = 32;
/// Bytes of the value of a property of users' own.
const VALUE_BYTES_MAX: usize = 1024;

// What `set` takes.
#[derive(Args)]
pub struct SetArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The property and its value: comment, bootfs, autotrim, autoexpand, autoreplace, delegation, failmode, listsnapshots, multihost,
    /// compatibility, feature@NAME=enabled, or one of your own (with a colon)
    #[arg(value_name = "PROPERTY=VALUE")]
    property: String,
    /// The pool
    pool: String,
}

// What `sync` takes.
#[derive(Args)]
pub struct SyncArgs {
    /// Though a pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The pools; all where none are named
    pools: Vec<String>,
}

// What `reguid` takes.
#[derive(Args)]
pub struct ReguidArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The pool
    pool: String,
}

/// What is to be set.
#[derive(Clone)]
pub(super) enum Change {
    Comment(String),
    /// Names of files, or `off` or `legacy`.
    Compatibility(String),
    /// One that is enabled.
    Feature(&'static str),
    /// The dataset's name; nothing for none.
    BootFs(Option<String>),
    /// It is so anyway.
    Nothing,
    /// What stands in the table.
    Stored(String, Option<LeafValue>),
}

/// A comment, which has to be short and to have no control characters.
///
/// # Errors
/// It can't be one, with the reason.
pub(super) fn comment(value: &str) -> Result<String, String> {
    if value.len() > COMMENT_BYTES_MAX {
        return Err(format!("comment must not exceed {COMMENT_BYTES_MAX} characters"));
    }
    match value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(value.to_owned()),
        false => Err("comment may only have printable characters".into()),
    }
}

/// What a property and its value ask for; refused where they can't be set, with the reason.
pub(super) fn change(name: &str, value: &str) -> Result<Change, String> {
    let long = |max: usize| format!("'{name}' is too long: it has {max} bytes at the most");
    if is_user(name) {
        return match value.len() < VALUE_BYTES_MAX {
            true => {
                let kept = (!value.is_empty()).then(|| table::text(value));
                Ok(Change::Stored(name.to_owned(), kept))
            }
            false => Err(long(VALUE_BYTES_MAX)),
        };
    }
    if let Some(feature) = name.strip_prefix("feature@") {
        let known = WRITTEN.iter().find(|(known, _)| *known == feature);
        return match (known, value) {
            (_, "disabled") => {
                Err(format!("property '{name}' can only be set to 'disabled' at creation time"))
            }
            (Some((feature, _)), "enabled") => Ok(Change::Feature(feature)),
            (None, "enabled") if Feature::named(feature).is_some() => {
                Err(format!("feature '{feature}': pools with it are not written here"))
            }
            (None, _) if Feature::named(feature).is_none() => {
                Err(format!("feature '{feature}' unsupported"))
            }
            _ => Err(format!("property '{name}' can only be set to 'enabled' or 'disabled'")),
        };
    }
    let property = PoolProperty::find(name)
        .ok_or_else(|| format!("property '{name}' is not a valid pool property"))?;
    if property.read_only || property.name == "name" {
        return Err(format!("property '{name}' is readonly"));
    }
    match (property.name, property.form) {
        ("comment", _) => comment(value).map(Change::Comment),
        ("compatibility", _) => match allowed(value) {
            Ok(_) => Ok(Change::Compatibility(match value {
                "" => "off".to_owned(),
                _ => value.to_owned(),
            })),
            Err(error) => Err(error.to_string()),
        },
        ("bootfs", _) => {
            Ok(Change::BootFs(Some(value.to_owned()).filter(|value| !value.is_empty())))
        }
        ("readonly", _) => Err("property 'readonly' can only be set at import time".into()),
        ("altroot", _) => {
            Err("property 'altroot' can only be set during pool creation or import".into())
        }
        ("cachefile", _) if value == "none" => Ok(Change::Nothing),
        ("cachefile", _) => Err(
            "property 'cachefile': no cache file is kept here: pools are found on their devices"
                .into(),
        ),
        // Others know by it whose signs of life they see.
        ("multihost", _) if value != "off" && host_id() == 0 => {
            Err("requires a non-zero system hostid".into())
        }
        (known, Form::Word(all, _)) => match words::number(all, value) {
            Some(number) => Ok(Change::Stored(known.to_owned(), Some(table::number(number)))),
            None => {
                let all: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
                Err(format!("property '{known}' must be one of '{}'", all.join(" | ")))
            }
        },
        (known, _) => Err(format!("property '{known}': it is not set here")),
    }
}

/// Carries out `set`.
///
/// # Errors
/// With the line to print.
pub fn set(args: &SetArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let (name, value) = split(&args.property).map_err(Failure::of_caller)?;
    let (name, value) = (name.to_owned(), value.to_owned());
    let refuse =
        |why: &str| Failure::failed(format!("cannot set property for '{}': {why}", args.pool));
    let change = change(&name, &value).map_err(|why| refuse(&why))?;
    let pool = LivePool::open(place, &args.pool, args.force)?;
    set_in(&pool, &name, &value, change)?;
    if name == "autoexpand" && value == "on" {
        pool.expand(None)?;
    }
    Ok(pool.close(LabelState::Exported)?)
}

/// Sets what was asked for.
///
/// # Errors
/// A dataset is none of the pool's, or the pool can't be written.
pub(super) fn set_in(
    pool: &LivePool,
    name: &str,
    value: &str,
    change: Change,
) -> Result<(), Failure> {
    let (name, value) = (name.to_owned(), value.to_owned());
    let change = match change {
        Change::BootFs(None) => Change::Stored(name, Some(table::number(0))),
        Change::BootFs(Some(dataset)) => {
            let root = pool.live.spa().name().to_owned();
            let wrong = || {
                let why = format!("'{dataset}' is not a file system of the pool");
                Failure::failed(format!("cannot set property for '{root}': {why}"))
            };
            if pool_of(&dataset) != root || dataset.contains(['@', '#']) {
                return Err(wrong());
            }
            let node = pool.node(&dataset)?.filter(|node| node.kind == Kind::FileSystem);
            let number = node.ok_or_else(wrong)?.head.number;
            Change::Stored(name, Some(table::number(number)))
        }
        other => other,
    };
    let root = pool.live.spa().name().to_owned();
    let done = pool.task(async move |tasks| {
        match change {
            Change::Comment(comment) => tasks.set_comment(&comment).await?,
            Change::Compatibility(names) => tasks.set_compatibility(&names).await?,
            Change::Feature(feature) => drop(tasks.enable_features(&[feature]).await?),
            Change::Stored(name, stored) => {
                return tasks.set_pool_property(&name, stored, &value).await;
            }
            Change::Nothing => {}
            Change::BootFs(_) => unreachable!("it was looked up"),
        }
        Ok(Ok(()))
    })?;
    done.map_err(|error| Failure::failed(format!("cannot set property for '{root}': {error}")))
}

/// Carries out `sync`.
///
/// # Errors
/// With the line to print.
pub fn sync(args: &SyncArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let names = match args.pools.is_empty() {
        false => args.pools.clone(),
        true => {
            let pools = Pools::find(place)?;
            pools.living().map(|found| found.guid.to_string()).collect()
        }
    };
    for name in names {
        let pool = LivePool::open(place, &name, args.force)?;
        let done = pool.task(async |_| Ok(Ok(())))?;
        done.map_err(Failure::failed)?;
        pool.close(LabelState::Exported)?;
    }
    Ok(())
}

/// Carries out `reguid`.
///
/// # Errors
/// With the line to print.
pub fn reguid(args: &ReguidArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pool = LivePool::open(place, &args.pool, args.force)?;
    if !pool.live.spa().tree().leaves_away().is_empty() {
        // What is away would belong to another pool when it comes back.
        let text = "one or more devices is currently unavailable";
        return Err(Failure::failed(format!("cannot reguid '{}': {text}", args.pool)));
    }
    pool.live
        .check_no_checkpoint()
        .map_err(|error| Failure::failed(format!("cannot reguid '{}': {error}", args.pool)))?;
    let done = pool.task(async |tasks| tasks.change_guid().await.map(Ok))?;
    done.map_err(Failure::failed)?;
    Ok(pool.close(LabelState::Exported)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_looked_at_before_the_pool_is() {
        for (name, value, why) in [
            ("size", "1", "is readonly"),
            ("nope", "1", "not a valid pool property"),
            ("failmode", "never", "must be one of 'wait | continue | panic'"),
            ("cachefile", "/etc/pools", "no cache file"),
            ("comment", "a\nb", "printable"),
        ] {
            let text = change(name, value).err().expect("it is refused");
            assert!(text.contains(why), "{text}");
        }
        assert!(
            matches!(change("autotrim", "on"), Ok(Change::Stored(name, Some(_))) if name == "autotrim")
        );
        assert!(matches!(change("my:own", ""), Ok(Change::Stored(_, None))));
    }
}
