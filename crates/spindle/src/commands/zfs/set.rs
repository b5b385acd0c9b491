//! `spindle zfs create`, `snapshot`, `set`: datasets made and changed, with OpenZFS's words.
//!
//! Each opens its pool for writing, does its one thing in a transaction group, and closes the pool as exported.

use super::changed::Changed;
use super::limit;
use super::moved::{self, Change};
use super::taken::{block_between, check_taken, has_feature, is_block};
use super::volume::{AUTO, Asked, check_applies, check_value, set_limit, set_special};
use crate::output::{Failure, print, say};
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::property::table::{Form, Property};
use ::zfs::dsl::property::view::Kind;
use ::zfs::dsl::property::{effective::is_user, words};
use ::zfs::spa::config::LabelState;
use ::zfs::spa::datasets::limits::is_mountpoint;
use ::zfs::spa::datasets::{NewDataset, TaskError, Tasks, check_part};
use ::zfs::spa::volumes::{Limit, NewVolume};
use ::zfs::zap::table;
use attach::Error;
use attach::pools::snapshots::{self, NewSnapshots};
use attach::pools::{LivePool, PoolPlace, Pools, check_name, pool_of, within};
use clap::Args;
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::block_pointer::BLOCK_BYTES_MAX;
use zfs_format::zap::leaf::LeafValue;

/// Words of properties that change what is on disk in ways that are not written.
const NOT_WRITTEN: [(&str, &[&str]); 3] = [
    ("dedup", &["on", "verify", "sha256", "sha512", "skein", "edonr", "blake3"]),
    ("encryption", &["on"]),
    ("longname", &["on"]),
];

/// Why limits of how many datasets and snapshots there are can't be set.
const UNCOUNTED: &str = "limits of how many there are can't be kept here yet: the pool has not the feature filesystem_limits";
/// Why properties of encryption can't be.
const UNENCRYPTED: &str = "datasets that are encrypted are not written here yet";

/// Properties of what isn't written here, with the value that says so.
const WITHOUT: [(&str, &str, &str); 5] = [
    ("filesystem_limit", "none", UNCOUNTED),
    ("snapshot_limit", "none", UNCOUNTED),
    ("keylocation", "none", UNENCRYPTED),
    ("keyformat", "none", UNENCRYPTED),
    ("pbkdf2iters", "0", UNENCRYPTED),
];

/// The version that file systems have from the start.
const VERSION: &str = "5";

/// Which names files have, which is set for ever when a dataset is made.
const RULES: [&str; 3] = ["casesensitivity", "normalization", "utf8only"];

// What `create` takes.
#[derive(Args)]
pub struct CreateArgs {
    /// Make what is missing above it, too
    #[arg(short, long)]
    parents: bool,
    /// Make a volume of this size, not a file system
    #[arg(short = 'V', value_name = "SIZE")]
    volume: Option<String>,
    /// Bytes of the volume's blocks
    #[arg(short = 'b', value_name = "BLOCKSIZE")]
    block: Option<String>,
    /// A sparse volume: no space is kept free for it
    #[arg(short = 's')]
    sparse: bool,
    /// Set a property
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Mount nothing, which holds without it too
    #[arg(short = 'u')]
    _unmounted: bool,
    /// Make nothing: with -v to see what would be made
    #[arg(short = 'n')]
    dry_run: bool,
    /// Print what is made, with its properties
    #[arg(short = 'v')]
    verbose: bool,
    /// The same for scripts, with tabs between
    #[arg(short = 'P')]
    parsable: bool,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The file system or volume
    name: String,
}

// What `snapshot` takes.
#[derive(Args)]
pub struct SnapshotArgs {
    /// Of all that is below, too
    #[arg(short)]
    recursive: bool,
    /// Set a user's own property on each
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The snapshots, all of one pool: they are of one moment
    #[arg(required = true, value_name = "DATASET@SNAPSHOT")]
    names: Vec<String>,
}

// What `set` takes.
#[derive(Args)]
pub struct SetArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// Properties and their values, then the datasets
    #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE... DATASET")]
    words: Vec<String>,
}

/// What is said of a property of ZFS's: snapshots have users' own only.
const NOT_OF_SNAPSHOTS: &str = "this property can not be modified for snapshots";

/// What becomes of a property.
#[derive(Clone)]
pub enum Setting {
    /// It is set.
    Value(LeafValue),
    /// It is inherited.
    Inherited,
    /// What came with a stream counts, where something did.
    Received,
}

impl Setting {
    fn value(&self) -> Option<&LeafValue> {
        match self {
            Setting::Value(value) => Some(value),
            Setting::Inherited | Setting::Received => None,
        }
    }
}

/// A property and its value.
///
/// # Errors
/// There is no `=`.
pub fn split(given: &str) -> Result<(&str, &str), Failure> {
    let text = || format!("'{given}': missing '=' for property=value argument");
    given.split_once('=').ok_or_else(|| Failure::failed(text()))
}

/// The same of a dataset that is to be made: what is set for ever, too.
///
/// # Errors
/// As of [`stored`].
pub fn stored_new(name: &str, value: &str) -> Result<(String, LeafValue), Failure> {
    let Some(property) = Property::find(name).filter(|one| RULES.contains(&one.name)) else {
        return stored(name, value);
    };
    let name = property.name;
    Ok((name.to_owned(), in_words(property, value)?))
}

/// Whether rules of names that are set for a new dataset fit together.
///
/// # Errors
/// They don't.
pub fn check_rules(properties: &[(String, LeafValue)]) -> Result<(), Failure> {
    let of = |name: &str| properties.iter().find(|(known, _)| known == name);
    let number = |name: &str| of(name).and_then(|(_, value)| value.number());
    match (number("normalization"), number("utf8only")) {
        (Some(1..), Some(0)) => {
            Err(Failure::failed("'utf8only' must be set 'on' if normalization chosen"))
        }
        _ => Ok(()),
    }
}

/// The number of a property whose values are words.
fn in_words(property: &Property, value: &str) -> Result<LeafValue, Failure> {
    let Form::Word(known, _) = property.form else { unreachable!("its values are words") };
    let number = words::number(known, value).ok_or_else(|| {
        let all: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        Failure::failed(format!("'{}' must be one of '{}'", property.name, all.join(" | ")))
    });
    Ok(table::number(number?))
}

fn other_version() -> Failure {
    Failure::failed(format!(
        "file systems have version {VERSION} here from the start, and get no other"
    ))
}

/// A property's name and value as they are stored.
///
/// # Errors
/// There is no such property, it can't have that value, or such are not written here.
pub fn stored(name: &str, value: &str) -> Result<(String, LeafValue), Failure> {
    let wrong = |why: String| Failure::failed(why);
    if is_user(name) {
        return Ok((name.to_owned(), table::text(value)));
    }
    let property =
        Property::find(name).ok_or_else(|| wrong(format!("invalid property '{name}'")))?;
    let name = property.name;
    if property.is_read_only() && name != "encryption" {
        return Err(wrong(format!("'{name}' is readonly")));
    }
    if let Some((_, _, why)) =
        WITHOUT.iter().find(|(known, none, _)| *known == name && value != *none)
    {
        return Err(wrong(format!("{name}={value}: {why}")));
    }
    if name == "version" && value != VERSION {
        return Err(other_version());
    }
    let base = value.split([',', '-']).next().unwrap_or(value);
    let refused = NOT_WRITTEN.iter().find(|(known, _)| *known == name);
    if refused.is_some_and(|(_, words)| words.contains(&base)) {
        return Err(wrong(format!("{name}={value}: datasets with it are not written here yet")));
    }
    let stored = match property.form {
        Form::Word(..) => in_words(property, value)?,
        Form::Text(_) if name == "mountpoint" && !is_mountpoint(value.as_bytes()) => {
            return Err(wrong(format!("'{name}' must be an absolute path, 'none', or 'legacy'")));
        }
        Form::Text(_) => table::text(value),
        Form::Number(_) if (name, value) == ("refreservation", AUTO) => table::text(AUTO),
        // Of what nothing limits it is the default.
        Form::Number(none @ u64::MAX) if value == "none" => table::number(none),
        Form::Number(_) if value == "none" => table::number(0),
        Form::Number(_) => {
            let size: Result<ByteCount, _> = value.parse();
            let size = size.map_err(|_| wrong(format!("bad numeric value '{value}'")))?.bytes();
            if name == "recordsize" && !is_block(size, BLOCK_BYTES_MAX) {
                return Err(wrong(block_between(name, BLOCK_BYTES_MAX)));
            }
            if name == "special_small_blocks" && size > BLOCK_BYTES_MAX {
                let text = "invalid 'special_small_blocks' property: must be between zero and 16M";
                return Err(wrong(text.to_owned()));
            }
            table::number(size)
        }
    };
    Ok((name.to_owned(), stored))
}

fn node(pool: &LivePool, name: &str) -> Result<Rc<Node>, Failure> {
    let absent = || Failure::failed(format!("cannot open '{name}': dataset does not exist"));
    pool.node(name)?.ok_or_else(absent)
}

/// Carries out `create`.
///
/// # Errors
/// With the line to print.
pub fn create(args: &CreateArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let refuse = |why: &str| Failure::failed(format!("cannot create '{}': {why}", args.name));
    let cannot = |failure: Failure| failure.of(&format!("cannot create '{}'", args.name));
    let mut given = args.properties.clone();
    let (volume, block) = (args.volume.as_deref(), args.block.as_deref());
    let asked = Asked::of(volume, block, args.sparse, &mut given)?;
    let kind = if asked.is_some() { Kind::Volume } else { Kind::FileSystem };
    let (mut properties, mut accounts) = (Vec::new(), Vec::new());
    for property in &given {
        let (name, value) = split(property)?;
        if kind == Kind::FileSystem && limit::is_account(name) {
            accounts.push(limit::stored(name, value).map_err(cannot)?);
            continue;
        }
        let (name, value) = stored_new(name, value).map_err(cannot)?;
        check_value(&name, Some(&value), kind).map_err(cannot)?;
        // It has that one.
        if name != "version" {
            properties.push((name, value));
        }
    }
    check_rules(&properties).map_err(cannot)?;
    let parts: Vec<&str> = args.name.split('/').collect();
    if parts.len() < 2 {
        return Err(refuse("missing dataset name: a pool is made with zpool create"));
    }
    for part in &parts[1..] {
        check_part(part).map_err(|error| refuse(&TaskError::Name(error).to_string()))?;
    }
    if args.dry_run {
        return would_create(args, place, (asked.as_ref(), &given, &properties));
    }
    let pool = LivePool::open(place, parts[0], args.force).map_err(|error| match error {
        Error::NoPool { name } => refuse(&format!("no such pool '{name}'")),
        error => error.into(),
    })?;
    let has = |name: &str| has_feature(pool.live.spa(), name);
    let block = asked.as_ref().and_then(Asked::block).map(table::number);
    let block = block.map(|block| ("volblocksize".to_owned(), block));
    for (name, value) in properties.iter().chain(&block) {
        check_taken(name, Some(value), has).map_err(|why| refuse(&why))?;
    }
    if !(args.parents && pool.node(&args.name)?.is_some()) {
        let is_told = args.verbose || args.parsable;
        let volume = asked
            .as_ref()
            .filter(|_| is_told)
            .map(|asked| asked.volume(pool.live.spa(), parts[parts.len() - 1], properties.clone()));
        tell_created(args, &given, volume.transpose()?.as_ref())?;
    }
    let mut above = node(&pool, parts[0])?;
    for (depth, part) in parts.iter().enumerate().skip(1) {
        let (name, is_last) = (parts[..=depth].join("/"), depth + 1 == parts.len());
        match pool.node(&name)? {
            Some(_) if is_last && args.parents => break,
            Some(_) if is_last => return Err(refuse("dataset already exists")),
            Some(known) if known.kind == Kind::Volume => {
                return Err(refuse("parent is not a filesystem"));
            }
            Some(known) => above = known,
            None if !is_last && !args.parents => return Err(refuse("parent does not exist")),
            None => {
                let made = match &asked {
                    Some(asked) if is_last => {
                        let new = asked.volume(pool.live.spa(), part, properties.clone())?;
                        make_volume(&pool, &above, new)?
                    }
                    _ => {
                        let own = if is_last { &properties[..] } else { &[] };
                        make_file_system(&pool, &above, part, own)?
                    }
                };
                made.map_err(|error| refuse(&error.to_string()))?;
                above = node(&pool, &name)?;
                for (name, value) in accounts.iter().filter(|_| is_last) {
                    limit::set_limit(&pool, &above, name, Some(value))?;
                }
                let limits = if is_last { &properties[..] } else { &[] };
                for (limit, value) in limits {
                    // A volume has what is kept free for it from the start.
                    let is_kept = asked.is_some() && limit == "refreservation";
                    if let Some(limit) = Limit::of(limit).filter(|_| !is_kept) {
                        set_limit(&pool, &above, limit, value.number().unwrap_or(0))?;
                    }
                }
            }
        }
    }
    Ok(pool.close(LabelState::Exported)?)
}

/// Says what would be made, or why it can't be.
fn would_create(
    args: &CreateArgs,
    place: &PoolPlace<'_>,
    (asked, given, properties): (Option<&Asked>, &[String], &[(String, LeafValue)]),
) -> Result<(), Failure> {
    let refuse = |why: &str| Failure::failed(format!("cannot create '{}': {why}", args.name));
    let pools = Pools::find(place)?;
    let spa = pools.open_of_dataset(&args.name)?;
    for (name, value) in properties {
        let has = |name: &str| has_feature(&spa, name);
        check_taken(name, Some(value), has).map_err(|why| refuse(&why))?;
    }
    let (above, last) = args.name.rsplit_once('/').expect("it lies below the pool's own");
    match pools.node(&spa, &args.name)? {
        Some(_) if args.parents => return Ok(()),
        Some(_) => return Err(refuse("dataset already exists")),
        None => {}
    }
    match pools.node(&spa, above)? {
        Some(above) if above.kind == Kind::Volume => {
            return Err(refuse("parent is not a filesystem"));
        }
        None if !args.parents => return Err(refuse("parent does not exist")),
        _ => {}
    }
    let volume = asked.map(|asked| asked.volume(&spa, last, properties.to_vec())).transpose()?;
    tell_created(args, given, volume.as_ref())
}

/// Says what is made, or would be, where that is asked for.
fn tell_created(
    args: &CreateArgs,
    given: &[String],
    volume: Option<&NewVolume>,
) -> Result<(), Failure> {
    if !args.verbose && !args.parsable {
        return Ok(());
    }
    let (name, would) = (&args.name, if args.dry_run { "would " } else { "" });
    let mut text = match (args.parents, args.parsable) {
        (false, _) => String::new(),
        (true, true) => format!("create_ancestors\t{name}\n"),
        (true, false) => format!("{would}create ancestors of {name}\n"),
    };
    text += &match args.parsable {
        true => format!("create\t{name}\n"),
        false => format!("{would}create {name}\n"),
    };
    let mut properties: Vec<(String, String)> = given
        .iter()
        .filter_map(|given| given.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if let Some(new) = volume {
        let numbers = [
            ("volsize", new.bytes),
            ("volblocksize", new.block_bytes),
            ("refreservation", new.reservation),
        ];
        let has = |all: &[String], name: &str| {
            all.iter().any(|given| given.split_once('=').is_some_and(|given| given.0 == name))
        };
        let has_block = args.block.is_some() || has(&args.properties, "volblocksize");
        let is_told = |name: &str| name != "volblocksize" || has_block;
        let own = numbers
            .into_iter()
            .filter(|(name, number)| *number > 0 && is_told(name) && !has(given, name));
        properties.extend(own.map(|(name, number)| (name.to_owned(), number.to_string())));
    }
    for (name, value) in properties {
        text += &match args.parsable {
            true => format!("property\t{name}\t{value}\n"),
            false => format!("\t{name}={value}\n"),
        };
    }
    print(&text)
}

fn make_volume(
    pool: &LivePool,
    above: &Node,
    new: NewVolume,
) -> Result<Result<u64, TaskError>, Failure> {
    let above = above.directory.number;
    Ok(pool.task(async move |tasks| tasks.create_volume(above, &new).await)?)
}

fn make_file_system(
    pool: &LivePool,
    above: &Node,
    name: &str,
    properties: &[(String, LeafValue)],
) -> Result<Result<u64, TaskError>, Failure> {
    let plain = properties.iter().filter(|(name, _)| Limit::of(name).is_none());
    let properties = plain.cloned().collect();
    let new = NewDataset { name: name.to_owned(), owner: (0, 0), properties };
    let above = above.directory.number;
    Ok(pool.task(async move |tasks| tasks.create(above, &new).await)?)
}

/// Carries out `snapshot`.
///
/// # Errors
/// With the line to print.
pub fn snapshot(args: &SnapshotArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let first = args.names.first().map_or("", String::as_str);
    let of = |name: &str| name.split_once('@').map(|(of, name)| (of.to_owned(), name.to_owned()));
    let mut wanted = Vec::new();
    for name in &args.names {
        let refuse = |why: &str| Failure::usage(format!("cannot create snapshot '{name}': {why}"));
        let (dataset, snapshot) =
            of(name).ok_or_else(|| refuse("missing '@' delimiter in snapshot name"))?;
        if pool_of(&dataset) != pool_of(first) {
            return Err(refuse("all snapshots must be of one pool").of_library());
        }
        wanted.push((dataset, snapshot));
    }
    let (whole, _) = of(first).unwrap_or_default();
    check_name(&whole)?;
    let mut properties = Vec::new();
    for property in &args.properties {
        let (name, value) = split(property)?;
        if !is_user(name) {
            let text = format!("cannot create snapshot '{first}': {NOT_OF_SNAPSHOTS}");
            return Err(Failure::failed(text));
        }
        properties.push((name.to_owned(), table::text(value)));
    }
    let pool = LivePool::of_dataset(place, &whole, args.force)?;
    let (live, recursive) = (Rc::clone(&pool.live), args.recursive);
    for (dataset, _) in &mut wanted {
        *dataset = within(live.spa(), dataset).into_owned();
    }
    let new = NewSnapshots { wanted, recursive, properties };
    let taken = pool.pools.wait(async move { snapshots::take(&live, &new).await });
    pool.close(LabelState::Exported)?;
    if let Err(error) = taken {
        say(&format!("spindle: {error}"));
        say("no snapshots were created");
        return Err(Failure::said());
    }
    Ok(())
}

/// Carries out `set`.
///
/// # Errors
/// With the line to print.
pub fn set(args: &SetArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let (pairs, datasets): (Vec<&String>, Vec<&String>) =
        args.words.iter().partition(|word| word.contains('='));
    if pairs.is_empty() {
        return Err(Failure::usage("missing property=value argument"));
    }
    if datasets.is_empty() {
        return Err(Failure::usage("missing dataset name"));
    }
    let what = format!("cannot set property for '{}'", datasets[0]);
    let mut values = Vec::new();
    for pair in pairs {
        let (name, value) = split(pair)?;
        let stored = match limit::is_account(name) {
            true => limit::stored(name, value),
            false if name == "version" => Err(other_version()),
            false => stored(name, value),
        };
        let (name, value) = stored.map_err(|failure| failure.of(&what))?;
        values.push((name, Setting::Value(value)));
    }
    let datasets: Vec<&str> = datasets.into_iter().map(String::as_str).collect();
    change(place, &datasets, values, (args.force, false))
}

/// Changes properties of datasets, each after another.
///
/// # Errors
/// With the line to print.
pub fn change(
    place: &PoolPlace<'_>,
    datasets: &[&str],
    values: Vec<(String, Setting)>,
    (force, recursive): (bool, bool),
) -> Result<(), Failure> {
    // Those of one pool are one command in its history.
    let mut of_pools: Vec<(&str, Vec<&str>)> = Vec::new();
    for &dataset in datasets {
        match of_pools.last_mut().filter(|(pool, _)| *pool == pool_of(dataset)) {
            Some((_, all)) if !dataset.contains('@') && !all[0].contains('@') => all.push(dataset),
            _ => of_pools.push((pool_of(dataset), vec![dataset])),
        }
    }
    for (_, all) in of_pools {
        if all[0].contains('@') {
            change_snapshot(place, all[0], &values, force)?;
            continue;
        }
        let pool = LivePool::of_dataset(place, all[0], force)?;
        let one = |dataset: &&str| change_one(&pool, dataset, &values, recursive);
        // A pool of which nothing was changed stays as it is.
        one(&all[0])?;
        let changed = all[1..].iter().try_for_each(one);
        pool.close(LabelState::Exported)?;
        changed?;
    }
    Ok(())
}

/// The same of a file system or volume, and where that is asked for of all below it.
fn change_one(
    pool: &LivePool,
    dataset: &str,
    values: &[(String, Setting)],
    recursive: bool,
) -> Result<(), Failure> {
    check_name(dataset)?;
    let of = node(pool, dataset)?;
    // Before anything is changed.
    for (name, value) in values {
        let what = format!("cannot set property for '{dataset}'");
        check_value(name, value.value(), of.kind).map_err(|failure| failure.of(&what))?;
        check_taken(name, value.value(), |name| has_feature(pool.live.spa(), name))
            .map_err(|why| Failure::failed(format!("{what}: {why}")))?;
    }
    let below = if recursive { pool.below(&of)? } else { Vec::new() };
    // What doesn't apply to what is below is passed over.
    let applies =
        |node: &Rc<Node>| values.iter().all(|(name, _)| check_applies(name, node.kind).is_ok());
    let mut all = std::iter::once(of).chain(below.into_iter().filter(applies));
    let mut change = || all.try_for_each(|of| change_in(pool, &of, values));
    match values.iter().any(|(name, value)| moves_mounts(name, value)) {
        true => moved::around(pool, dataset, (Change::Property, false), change),
        false => change(),
    }
}

/// Whether what is mounted is unmounted for it.
fn moves_mounts(name: &str, value: &Setting) -> bool {
    match name {
        "mountpoint" => true,
        "canmount" => value.value().and_then(LeafValue::number) == Some(0),
        _ => false,
    }
}

/// The same of a snapshot, which has users' own properties only.
fn change_snapshot(
    place: &PoolPlace<'_>,
    snapshot: &str,
    values: &[(String, Setting)],
    force: bool,
) -> Result<(), Failure> {
    let refuse =
        |why: &str| Failure::failed(format!("cannot set property for '{snapshot}': {why}"));
    let changed = Changed::open(place, snapshot.split('@').next().unwrap_or_default(), force)?;
    let number = changed.snapshot(snapshot)?.1.number;
    if !values.iter().all(|(name, _)| is_user(name)) {
        return Err(refuse(NOT_OF_SNAPSHOTS));
    }
    for (name, value) in values {
        let (name, value) = (name.clone(), value.value().cloned());
        let set =
            async move |tasks: &Tasks<'_>| tasks.set_snapshot_property(number, &name, value).await;
        changed.pool.task(set)?.map_err(|error| refuse(&error.to_string()))?;
    }
    Ok(changed.pool.finish()?)
}

fn change_in(pool: &LivePool, of: &Rc<Node>, values: &[(String, Setting)]) -> Result<(), Failure> {
    for (name, to) in values {
        let value = to.value();
        if limit::set_limit(pool, of, name, value)? || set_special(pool, of, name, value)? {
            continue;
        }
        let (directory, name, to) = (of.directory.number, name.clone(), to.clone());
        let done = pool.task(async move |tasks| match to {
            Setting::Value(value) => tasks.set_property(directory, &name, Some(value)).await,
            Setting::Inherited => tasks.set_property(directory, &name, None).await,
            Setting::Received => tasks.revert_property(directory, &name).await,
        })?;
        done.map_err(|error| {
            let dataset = &of.directory.name;
            Failure::failed(format!("cannot set property for '{dataset}': {error}"))
        })?;
    }
    Ok(())
}
