//! Space and objects by user, group and project: what is used, and the limits.
//!
//! What is used stands in tables of the objset itself, by the number in hexadecimal; objects with `obj-` before it. Limits
//! stand in tables that the file system's master node names.
//!
//! Source: OpenZFS 2.3, `zfs_quota.c`.

use super::catalog::{Catalog, Node};
use super::property::view::Kind;
use crate::dmu::account::key;
use crate::dmu::{Dnode, Objset};
use crate::error::ZfsError;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use zfs_format::zpl::master;

/// Whose space or objects are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A user's.
    User = 0,
    /// A group's.
    Group = 1,
    /// A project's.
    Project = 2,
}

/// What is counted, or limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Whose.
    pub whose: Whose,
    /// Objects, not bytes.
    pub is_objects: bool,
    /// The limit, not what is used.
    pub is_quota: bool,
}

impl Account {
    /// The account of a property's name (`userobjused@1000`), and whose it is as written.
    pub fn of(name: &str) -> Option<(Account, &str)> {
        let (what, who) = name.split_once('@')?;
        let (whose, rest) = [Whose::User, Whose::Group, Whose::Project]
            .into_iter()
            .find_map(|whose| Some((whose, what.strip_prefix(whose.name())?)))?;
        let (is_objects, rest) = match rest.strip_prefix("obj") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let is_quota = match rest {
            "used" => false,
            "quota" => true,
            _ => return None,
        };
        Some((Account { whose, is_objects, is_quota }, who))
    }

    /// The entry of the master node that leads to the limits.
    fn table(self) -> &'static str {
        match (self.whose, self.is_objects) {
            (Whose::User, false) => "userquota@",
            (Whose::User, true) => "userobjquota@",
            (Whose::Group, false) => "groupquota@",
            (Whose::Group, true) => "groupobjquota@",
            (Whose::Project, false) => "projectquota@",
            (Whose::Project, true) => "projectobjquota@",
        }
    }
}

impl Whose {
    fn name(self) -> &'static str {
        match self {
            Whose::User => "user",
            Whose::Group => "group",
            Whose::Project => "project",
        }
    }
}

impl Catalog {
    /// What `userused@ID` and its like say of a file system; nothing where it doesn't count that.
    ///
    /// # Errors
    /// A table can't be had.
    #[boxed(?Send)]
    pub async fn account(
        &self,
        node: &Node,
        account: Account,
        id: u64,
    ) -> Result<Option<u64>, ZfsError> {
        if node.kind != Kind::FileSystem {
            return Ok(None);
        }
        let Some(table) = table(node.objset()?, account).await? else {
            return Ok(account.is_quota.then_some(0));
        };
        let name = key(id, account.is_objects && !account.is_quota);
        let value = Zap::open(table).await?.get(name.as_bytes()).await?;
        Ok(Some(value.and_then(|value| value.number()).unwrap_or(0)))
    }
}

/// The table of an account; nothing where there is none.
async fn table(objset: &Objset, account: Account) -> Result<Option<Dnode>, ZfsError> {
    if !account.is_quota {
        return Ok(objset.used(account.whose as usize));
    }
    let names = Zap::open(objset.dnode_without_bonus(master::OBJECT).await?).await?;
    match names.number(account.table()).await? {
        Some(table) => objset.dnode(table).await.map(Some),
        None => Ok(None),
    }
}

/// What stands in an account, by number.
///
/// # Errors
/// A table can't be had.
#[boxed(?Send)]
pub async fn all(objset: &Objset, account: Account) -> Result<BTreeMap<u64, u64>, ZfsError> {
    let Some(table) = table(objset, account).await? else { return Ok(BTreeMap::new()) };
    let mut found = BTreeMap::new();
    for entry in Zap::open(table).await?.entries().await? {
        let name = entry.text();
        // What is used stands in one table with the objects; limits don't.
        let (id, is_objects) = match name.strip_prefix("obj-") {
            Some(id) => (id, true),
            None => (name.as_str(), account.is_quota && account.is_objects),
        };
        let (id, value) = (u64::from_str_radix(id, 16), entry.number());
        if let (Ok(id), Some(value), true) = (id, value, is_objects == account.is_objects) {
            found.insert(id, value);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_told_by_their_names() {
        let account = |whose, is_objects, is_quota| Account { whose, is_objects, is_quota };
        assert_eq!(Account::of("userused@0"), Some((account(Whose::User, false, false), "0")));
        let objects = account(Whose::Project, true, true);
        assert_eq!(Account::of("projectobjquota@7"), Some((objects, "7")));
        assert!(
            ["userused", "user@1", "written@x", "useruser@1"]
                .iter()
                .all(|n| Account::of(n).is_none())
        );
    }
}
