//! Limits on what users, groups and projects take: set, and asked for before a file takes more.
//!
//! A limit stands in a table of the file system by the number in hexadecimal, one table for each of the six kinds, which
//! the master node names once there is one. Who is at his limit or above it, by what was counted as of the last group
//! ([`dmu::account`](crate::dmu::account)), gets nothing more. So within a group a limit is passed.
//!
//! ```text
//!   bytes are written         bytes of the file's user, group, project
//!   something is made         bytes and objects of its user, group, project
//!   another owner is set      bytes and objects of the new one
//! ```
//!
//! Objects and projects are asked for only where all of them are counted, which the root block says. Project 0 has no limit,
//! though one can be set.
//!
//! Source: OpenZFS 2.1 to 2.4, `zfs_quota.c`, `zfs_vnops.c` (`zfs_write`), `zfs_acl.c` (`zfs_acl_ids_overquota`).

use super::attributes::Attributes;
use super::{FileSystem, Limits};
use crate::dmu::account::key;
use crate::dmu::{NewObject, Step};
use crate::error::{Problem, ZfsError};
use crate::zap::change::{Plan, empty};
use crate::zap::table;
use async_recursion::async_recursion as boxed;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::flags;
use zfs_format::zpl::master;
use zfs_format::zpl::owner::{Owner, PROJECT};

/// The first version of file systems that are counted.
const VERSION_COUNTED: u64 = 4;
/// Tables of users, groups and projects.
const TABLES: usize = 3;
const PROJECTS: usize = 2;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// Bytes.
    Bytes,
    /// Bytes, and an object.
    Object,
}

impl Attributes {
    /// Whose the file is.
    pub fn owner(&self) -> Owner {
        let project = if self.flags & PROJECT != 0 { self.project } else { 0 };
        Owner { user: self.user.0, group: self.group.0, project }
    }
}

impl FileSystem {
    /// Whether a user, group or project has all that it may have, or more; nothing of those that are not asked for.
    pub(crate) fn is_full(&self, ids: [Option<u64>; TABLES], more: More) -> Step<bool> {
        let limits = self.limits()?;
        if limits == Limits::default() {
            return Ok(false);
        }
        for (table, id) in ids.into_iter().enumerate() {
            let Some(id) = id else { continue };
            let counts_objects = self.objset().root().flags & flags::USER_OBJECT_ACCOUNTING != 0;
            let is_full = self.reaches(&limits, table, id, false)?
                || more == More::Object
                    && counts_objects
                    && self.reaches(&limits, table, id, true)?;
            if is_full {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the owner of a file has all that he may have, or more.
    pub(crate) fn is_owner_full(&self, of: Owner, more: More) -> Step<bool> {
        let project = Some(of.project).filter(|project| *project != 0);
        self.is_full([Some(of.user), Some(of.group), project], more)
    }

    fn limits(&self) -> Step<Limits> {
        let master = self.objset().resident(master::OBJECT)?;
        let version = master.version();
        {
            let known = self.0.limits.borrow();
            if let Some((_, _, limits)) = known.as_ref().filter(|(_, of, _)| *of == version) {
                return Ok(*limits);
            }
        }
        let names = Plan::of(&master)?;
        let mut limits = Limits::default();
        for (table, name) in limits.iter_mut().zip(master::QUOTAS) {
            *table = names.get(name.as_bytes())?.and_then(|value| value.number());
        }
        *self.0.limits.borrow_mut() = Some((master, version, limits));
        Ok(limits)
    }

    fn reaches(&self, limits: &Limits, table: usize, id: u64, objects: bool) -> Step<bool> {
        let objset = self.objset();
        let counts_projects = objset.root().flags & flags::PROJECT_QUOTA != 0;
        if table == PROJECTS && !counts_projects {
            return Ok(false);
        }
        let number = limits[table + if objects { TABLES } else { 0 }];
        let (Some(number), Some(used)) = (number, objset.used(table)) else { return Ok(false) };
        let limit = Plan::of(&objset.resident(number)?)?.get(key(id, false).as_bytes())?;
        let Some(limit) = limit.and_then(|value| value.number()) else { return Ok(false) };
        let used = Plan::of(&used)?.get(key(id, objects).as_bytes())?;
        Ok(used.and_then(|value| value.number()).is_some_and(|used| used >= limit))
    }

    /// Sets a limit of a user (0), group (1) or project (2), in bytes or objects; 0 takes it away.
    ///
    /// # Errors
    /// The file system is of a version that is not counted; or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn set_limit(
        &self,
        table: usize,
        is_objects: bool,
        id: u64,
        limit: u64,
    ) -> Result<(), ZfsError> {
        let objset = self.objset();
        if self.version() < VERSION_COUNTED {
            return Err(objset.wrong(master::OBJECT, Problem::Version(self.version())));
        }
        let name = master::QUOTAS[table + if is_objects { TABLES } else { 0 }];
        let limits = objset
            .change(|tx| {
                let mut names = Plan::of(&objset.resident(master::OBJECT)?)?;
                let known = names.get(name.as_bytes())?.and_then(|value| value.number());
                if known.is_some() || limit == 0 {
                    return Ok(known);
                }
                let (number, endian) = objset.plan_number(1)?;
                names.set(name.as_bytes(), table::number(number))?;
                let names = names.ready()?;
                let salt = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let new = NewObject::of(ObjectType::USERGROUP_QUOTA, 512);
                objset.make_at(tx, number, endian, &new.with_first(empty(salt, 0, endian)));
                names.carry_out(tx);
                Ok(Some(number))
            })
            .await?;
        let Some(number) = limits else { return Ok(()) };
        let limits = objset.dnode(number).await?;
        let id = key(id, false);
        match limit {
            0 => table::remove(objset, &limits, &id).await.map(drop),
            limit => table::set(objset, &limits, &id, table::number(limit)).await,
        }
    }
}
