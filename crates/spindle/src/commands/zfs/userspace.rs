//! `zfs userspace`, `groupspace`, `projectspace`: what each user, group or project takes of a file system or snapshot, and may
//! take.
//!
//! Lines are sorted by type and name, after what `-s` and `-S` say. A name is this host's where it has one for the number,
//! and the number otherwise; names come before numbers, as text does before numbers there.
//!
//! Objects are counted only in pools with the feature `userobj_accounting`; where they are not, both columns have `-`.

use super::shown::host_names;
use super::source::ViewArgs;
use crate::output::{Failure, print};
use crate::printable;
use ::zfs::dmu::Objset;
use ::zfs::dsl::account::{Account, Whose, all};
use ::zfs::{ZfsError, show};
use attach::pools::{PoolPlace, Session};
use clap::Args;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use zfs_format::objset::{ObjsetKind, flags};
use zfs_format::zpl::Fuid;

// What the three commands take.
#[derive(Args)]
pub struct UserspaceArgs {
    /// Numbers, not names
    #[arg(short = 'n')]
    numbers: bool,
    /// For scripts: no heads, columns divided by tabs
    #[arg(short = 'H')]
    scripted: bool,
    /// Sizes in full
    #[arg(short = 'p')]
    literal: bool,
    /// Columns: type, name, used, quota, objused, objquota
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        default_value = "type,name,used,quota,objused,objquota"
    )]
    columns: String,
    /// Sort by this column
    #[arg(short = 's', value_name = "COLUMN")]
    ascending: Vec<String>,
    /// Sort by this column, the largest first
    #[arg(short = 'S', value_name = "COLUMN")]
    descending: Vec<String>,
    /// Types: posixuser, smbuser, posixgroup, smbgroup, all
    #[arg(short = 't', value_name = "TYPE,...")]
    types: Option<String>,
    /// Foreign ids as this host's, where it has one for them
    #[arg(short = 'i')]
    translate: bool,
    #[command(flatten)]
    view: ViewArgs,
    /// The file system or snapshot
    dataset: String,
}

/// What a line is about: in the order in which OpenZFS sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Group,
    User,
    ForeignGroup,
    ForeignUser,
    Project,
}

impl Type {
    fn of(whose: Whose, id: u64) -> Type {
        match (whose, Fuid(id).domain()) {
            (Whose::User, 0) => Type::User,
            (Whose::User, _) => Type::ForeignUser,
            (Whose::Group, 0) => Type::Group,
            (Whose::Group, _) => Type::ForeignGroup,
            (Whose::Project, _) => Type::Project,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Type::Group => "POSIX Group",
            Type::User => "POSIX User",
            Type::ForeignGroup => "SMB Group",
            Type::ForeignUser => "SMB User",
            Type::Project => "Project",
        }
    }

    fn whose(self) -> Whose {
        match self {
            Type::Group | Type::ForeignGroup => Whose::Group,
            Type::User | Type::ForeignUser => Whose::User,
            Type::Project => Whose::Project,
        }
    }

    fn list(words: &str) -> Result<Vec<Type>, Failure> {
        let mut found = Vec::new();
        for word in words.split(',') {
            found.extend(match word {
                "posixgroup" => vec![Type::Group],
                "posixuser" => vec![Type::User],
                "smbgroup" => vec![Type::ForeignGroup],
                "smbuser" => vec![Type::ForeignUser],
                "all" => vec![Type::Group, Type::User, Type::ForeignGroup, Type::ForeignUser],
                other => {
                    let text = format!("invalid type '{other}' for -t option");
                    return Err(Failure::usage(text));
                }
            });
        }
        Ok(found)
    }
}

/// A name or, where there is none, a number: names first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Text(String),
    Number(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Type,
    Name,
    Used,
    Quota,
    Objects,
    ObjectQuota,
}

impl Column {
    const ALL: [(&'static str, Column); 6] = [
        ("type", Column::Type),
        ("name", Column::Name),
        ("used", Column::Used),
        ("quota", Column::Quota),
        ("objused", Column::Objects),
        ("objquota", Column::ObjectQuota),
    ];

    fn named(word: &str) -> Option<Column> {
        Column::ALL.iter().find(|(name, _)| *name == word).map(|(_, column)| *column)
    }

    fn head(self) -> String {
        let named = Column::ALL.iter().find(|(_, column)| *column == self);
        named.map_or(String::new(), |(name, _)| name.to_uppercase())
    }

    fn is_left(self) -> bool {
        matches!(self, Column::Type | Column::Name)
    }
}

/// What one user, group or project takes and may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    used: u64,
    quota: u64,
    objects: Option<u64>,
    object_quota: Option<u64>,
}

type Lines = BTreeMap<(Type, u64), Line>;

/// What a file system says of all users, groups or projects.
async fn lines(objset: Objset, wanted: Vec<Whose>) -> Result<Lines, ZfsError> {
    let mut lines = Lines::new();
    let counts_objects = objset.root().flags & flags::USER_OBJECT_ACCOUNTING != 0;
    for whose in wanted {
        for (is_objects, is_quota) in [(false, false), (false, true), (true, false), (true, true)] {
            if is_objects && !counts_objects {
                continue;
            }
            for (id, value) in all(&objset, Account { whose, is_objects, is_quota }).await? {
                let line = lines.entry((Type::of(whose, id), id)).or_default();
                match (is_objects, is_quota) {
                    (false, false) => line.used = value,
                    (false, true) => line.quota = value,
                    (true, false) => line.objects = Some(value),
                    (true, true) => line.object_quota = Some(value),
                }
                if is_objects {
                    // Who has one of both has the other, too.
                    line.objects.get_or_insert(0);
                    line.object_quota.get_or_insert(0);
                }
            }
        }
    }
    Ok(lines)
}

/// A line with its name.
struct Shown {
    kind: Type,
    name: Name,
    line: Line,
}

impl Shown {
    fn cell(&self, column: Column, literal: bool) -> String {
        let size = |size: u64, is_quota: bool| match literal {
            true => size.to_string(),
            false if is_quota && size == 0 => "none".to_owned(),
            false => show::bytes(size),
        };
        let objects = |count: Option<u64>, is_quota: bool| match count {
            None => "-".to_owned(),
            Some(count) if literal => count.to_string(),
            Some(0) if is_quota => "none".to_owned(),
            Some(count) => show::count(count),
        };
        match column {
            Column::Type => self.kind.text().to_owned(),
            Column::Name => match &self.name {
                Name::Text(name) => printable::word(name).into_owned(),
                Name::Number(number) => number.to_string(),
            },
            Column::Used => size(self.line.used, false),
            Column::Quota => size(self.line.quota, true),
            Column::Objects => objects(self.line.objects, false),
            Column::ObjectQuota => objects(self.line.object_quota, true),
        }
    }

    fn compare(&self, other: &Shown, by: Column) -> Ordering {
        match by {
            Column::Type => self.kind.cmp(&other.kind),
            Column::Name => self.name.cmp(&other.name),
            Column::Used => self.line.used.cmp(&other.line.used),
            Column::Quota => self.line.quota.cmp(&other.line.quota),
            Column::Objects => self.line.objects.cmp(&other.line.objects),
            Column::ObjectQuota => self.line.object_quota.cmp(&other.line.object_quota),
        }
    }
}

fn table(shown: &[Shown], columns: &[Column], scripted: bool, literal: bool) -> String {
    let cells = |line: &Shown| -> Vec<String> {
        columns.iter().map(|column| line.cell(*column, literal)).collect()
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    if !scripted && !shown.is_empty() {
        rows.push(columns.iter().map(|column| column.head()).collect());
    }
    rows.extend(shown.iter().map(cells));
    let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let padded: Vec<String> = row
            .iter()
            .zip(columns)
            .zip(&widths)
            .map(|((cell, column), width)| match column.is_left() {
                _ if scripted => cell.clone(),
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(&padded.join(if scripted { "\t" } else { "  " }));
        text.push('\n');
    }
    text
}

/// Carries out `userspace`, `groupspace` or `projectspace`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &UserspaceArgs, whose: Whose, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let column = |word: &str| {
        let text = || format!("invalid type '{word}' for -o option");
        Column::named(word).ok_or_else(|| Failure::usage(text()))
    };
    let columns = args.columns.split(',').map(column).collect::<Result<Vec<_>, _>>()?;
    let mut order: Vec<(Column, bool)> = Vec::new();
    let asked = args.ascending.iter().map(|word| (word, false));
    for (word, is_reverse) in asked.chain(args.descending.iter().map(|word| (word, true))) {
        let known = Column::named(word);
        let known = known.ok_or_else(|| Failure::usage(format!("invalid field '{word}'")))?;
        order.push((known, is_reverse));
    }
    let is_project = whose == Whose::Project;
    let given = [(args.numbers, 'n'), (args.types.is_some(), 't'), (args.translate, 'i')];
    if let Some((_, option)) = given.into_iter().find(|(given, _)| is_project && *given) {
        return Err(Failure::usage(format!("invalid option '{option}'")));
    }
    let types = match (&args.types, whose) {
        (Some(words), _) => Type::list(words)?,
        (None, Whose::User) => vec![Type::User, Type::ForeignUser],
        (None, Whose::Group) => vec![Type::Group, Type::ForeignGroup],
        (None, Whose::Project) => vec![Type::Project],
    };
    let session = Session::open(place, &args.view.view())?;
    let of = session.dataset(&args.dataset)?;
    let root = of.objset.root();
    let refuse =
        |why: &str| Failure::failed(format!("cannot get used/quota for {}: {why}", args.dataset));
    if root.kind != ObjsetKind::FileSystem {
        return Err(Failure::failed(
            "operation is only applicable to filesystems and their snapshots",
        ));
    }
    if root.flags & flags::USER_ACCOUNTING == 0 {
        let why = "not all of it is counted; OpenZFS counts the rest when it mounts it";
        return Err(refuse(why));
    }
    let mut wanted = Vec::new();
    for kind in &types {
        let is_counted = *kind != Type::Project || root.flags & flags::PROJECT_QUOTA != 0;
        if is_counted && !wanted.contains(&kind.whose()) {
            wanted.push(kind.whose());
        }
    }
    let objset = of.objset.clone();
    let found = session.wait(async move { lines(objset, wanted).await });
    let found = found.map_err(|error| refuse(&error.to_string()))?;
    let names = |whose| if args.numbers { BTreeMap::new() } else { host_names(whose) };
    let (users, groups) = (names(Whose::User), names(Whose::Group));
    let mut shown: Vec<Shown> = Vec::new();
    for ((kind, id), line) in found.into_iter().filter(|((kind, _), _)| types.contains(kind)) {
        let id = u64::from(Fuid(id).id());
        let name = match kind {
            Type::User => users.get(&id),
            Type::Group => groups.get(&id),
            _ => None,
        };
        let name = name.map_or(Name::Number(id), |name| Name::Text(name.clone()));
        shown.push(Shown { kind, name, line });
    }
    order.extend([(Column::Type, false), (Column::Name, false)]);
    shown.sort_by(|one, other| {
        let each = order.iter().map(|(column, is_reverse)| {
            let ordering = one.compare(other, *column);
            if *is_reverse { ordering.reverse() } else { ordering }
        });
        each.fold(Ordering::Equal, Ordering::then)
    });
    print(&table(&shown, &columns, args.scripted, args.literal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: Name, used: u64, quota: u64) -> Shown {
        let line = Line { used, quota, objects: Some(used / 512), object_quota: Some(0) };
        Shown { kind: Type::User, name, line }
    }

    #[test]
    fn a_table_is_openzfss() {
        let lines =
            [shown(Name::Text("root".into()), 4608, 0), shown(Name::Number(1001), 2048, 5 << 20)];
        let columns: Vec<Column> = Column::ALL.iter().map(|(_, column)| *column).collect();
        assert_eq!(
            table(&lines, &columns, false, false),
            "TYPE        NAME   USED  QUOTA  OBJUSED  OBJQUOTA\n\
             POSIX User  root  4.50K   none        9      none\n\
             POSIX User  1001     2K     5M        4      none\n"
        );
        assert_eq!(table(&lines[1..], &columns[1..4], true, true), "1001\t2048\t5242880\n",);
    }

    #[test]
    fn words_that_are_none_are_refused() {
        assert!(Type::list("posixuser,all").is_ok() && Type::list("user").is_err());
        assert_eq!(Column::named("objused"), Some(Column::Objects));
        assert_eq!(Column::named("avail"), None);
    }
}
