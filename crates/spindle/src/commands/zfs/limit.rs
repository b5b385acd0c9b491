//! `zfs set userquota@USER=SIZE` and its like: limits of users, groups and projects.
//!
//! They stand in the file system itself, not among its properties, and are no dataset's below it.

use super::shown::id_of;
use crate::output::Failure;
use ::zfs::dsl::account::{Account, Whose};
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::property::view::Kind;
use ::zfs::zap::table;
use attach::pools::LivePool;
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::objset::flags;
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zpl::owner::NO_PROJECT;

/// Whether a property's name is that of a limit, or of what is counted.
pub fn is_account(name: &str) -> bool {
    Account::of(name).is_some()
}

/// A limit as it is stored; 0 is none.
///
/// # Errors
/// It is no limit but what is used, nobody is called so, or it is no size.
pub fn stored(name: &str, value: &str) -> Result<(String, LeafValue), Failure> {
    let invalid = || Failure::failed(format!("invalid property '{name}'"));
    let (account, who) = Account::of(name).ok_or_else(invalid)?;
    if !account.is_quota {
        return Err(Failure::failed(format!("'{name}' is readonly")));
    }
    id(account, who)?;
    let limit = match value {
        "none" => 0,
        value => {
            let size: Result<ByteCount, _> = value.parse();
            size.map_err(|_| Failure::failed(format!("bad numeric value '{value}'")))?.bytes()
        }
    };
    Ok((name.to_owned(), table::number(limit)))
}

fn id(account: Account, who: &str) -> Result<u64, Failure> {
    let what = match account.whose {
        Whose::User => "user",
        Whose::Group => "group",
        Whose::Project => "project",
    };
    let id = id_of(account.whose, who).filter(|id| *id <= u64::from(u32::MAX));
    let id = id.filter(|id| account.whose != Whose::Project || *id != NO_PROJECT);
    id.ok_or_else(|| Failure::failed(format!("there is no {what} '{who}'")))
}

/// Sets a limit of a file system, where the name is one; says whether it is.
///
/// # Errors
/// The dataset is none that has limits, or it can't be written.
pub fn set_limit(
    pool: &LivePool,
    of: &Rc<Node>,
    name: &str,
    value: Option<&LeafValue>,
) -> Result<bool, Failure> {
    let Some((account, who)) = Account::of(name) else { return Ok(false) };
    let dataset = &of.directory.name;
    let refuse =
        |why: String| Failure::failed(format!("cannot set property for '{dataset}': {why}"));
    if of.kind != Kind::FileSystem {
        let text = format!("'{name}' does not apply to datasets of this type");
        return Err(refuse(text));
    }
    let id = id(account, who)?;
    let limit = value.and_then(LeafValue::number).unwrap_or(0);
    let (live, node) = (Rc::clone(&pool.live), Rc::clone(of));
    let set = pool.pools.wait(async move {
        let files = live.files(&node).await?;
        let lacks = account.whose == Whose::Project
            && files.objset().root().flags & flags::PROJECT_QUOTA == 0;
        if lacks {
            return Ok(false);
        }
        files.set_limit(account.whose as usize, account.is_objects, id, limit).await?;
        live.syncer().note_deed();
        Ok::<bool, ::zfs::ZfsError>(true)
    });
    match set.map_err(|error| refuse(error.to_string()))? {
        true => Ok(true),
        false => Err(refuse("projects are not counted in it".to_owned())),
    }
}
