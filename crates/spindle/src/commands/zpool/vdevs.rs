//! Vdevs as words give them, for `create` and `add`.
//!
//! ```text
//!   mirror a b  mirror c d  log e  special mirror f g  spare h i  cache k
//!   draid2:4d:8c:1s j k …
//!   └ one vdev each; a word begins the next, and a bare device is a vdev of its own
//! ```
//!
//! Vdevs of different redundancy, and devices of different sizes in one vdev, are put together only where that is forced.
//!
//! Source for the words: OpenZFS 2.3, `zpool_vdev.c`.

use super::draid::{self, Asked};
use super::tree::{self, Devices, Naming};
use crate::output::Failure;
use crate::printable;
use ::zfs::dsl::make::Fresh;
use ::zfs::spa::add::NewVdevs;
use ::zfs::spa::expand::usable;
use attach::pools::NewMember;
use std::path::PathBuf;
use zfs_format::nvlist::{Text, Value};
use zfs_format::vdev::{Raidz, Vdev, VdevKind};
use zfs_store::alloc;
use zfs_store::vdev::draid::Layout;

/// Bytes of the smallest device of a pool.
const DEVICE_BYTES_MIN: u64 = 64 << 20;

/// A vdev as it was given.
pub struct Given {
    kind: GivenKind,
    class: Class,
    devices: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GivenKind {
    Device,
    Mirror,
    Raidz(u64),
    Draid(Asked),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Normal,
    Log,
    Special,
    Dedup,
    Spare,
    Cache,
}

impl Given {
    /// What it is called where a layout is shown.
    fn shown(&self) -> String {
        let many = self.devices.len();
        match self.kind {
            GivenKind::Draid(asked) => asked.over(many).map(|draid| draid::name(&draid, many)),
            kind => Ok(kind.name()),
        }
        .unwrap_or_else(|_| self.kind.name())
    }
}

impl GivenKind {
    /// What a word begins; nothing where it is a device.
    fn of(word: &str) -> Result<Option<GivenKind>, Failure> {
        Ok(match word {
            "mirror" => Some(GivenKind::Mirror),
            "raidz" | "raidz1" => Some(GivenKind::Raidz(1)),
            "raidz2" => Some(GivenKind::Raidz(2)),
            "raidz3" => Some(GivenKind::Raidz(3)),
            _ if word.starts_with("draid") => {
                Some(GivenKind::Draid(Asked::of(word).map_err(Failure::failed)?))
            }
            _ => None,
        })
    }

    fn name(self) -> String {
        match self {
            GivenKind::Device => "device".to_owned(),
            GivenKind::Mirror => "mirror".to_owned(),
            GivenKind::Raidz(parity) => format!("raidz{parity}"),
            GivenKind::Draid(asked) => format!("draid{}", asked.parity),
        }
    }

    fn devices_min(self) -> usize {
        match self {
            GivenKind::Device => 1,
            GivenKind::Mirror => 2,
            GivenKind::Raidz(parity) | GivenKind::Draid(Asked { parity, .. }) => {
                parity as usize + 1
            }
        }
    }
}

impl Class {
    fn of(word: &str) -> Option<Class> {
        Some(match word {
            "log" | "logs" => Class::Log,
            "special" => Class::Special,
            "dedup" => Class::Dedup,
            "spare" => Class::Spare,
            "cache" => Class::Cache,
            _ => return None,
        })
    }

    /// What they stand under where a layout is shown.
    fn head(self) -> &'static str {
        match self {
            Class::Normal => "",
            Class::Log => "logs",
            Class::Special => "special",
            Class::Dedup => "dedup",
            Class::Spare => "spares",
            Class::Cache => "cache",
        }
    }

    /// The word that begins them.
    fn word(self) -> &'static str {
        match self {
            Class::Log => "log",
            Class::Spare => "spare",
            _ => self.head(),
        }
    }

    /// Whether they are no part of the tree.
    fn is_apart(self) -> bool {
        matches!(self, Class::Spare | Class::Cache)
    }
}

fn wrong(text: String) -> Failure {
    Failure::failed(format!("invalid vdev specification: {text}"))
}

/// What the words say.
///
/// # Errors
/// They are no vdevs.
pub fn given(words: &[String]) -> Result<Vec<Given>, Failure> {
    let mut all: Vec<Given> = Vec::new();
    let mut seen: Vec<Class> = Vec::new();
    let mut class = Class::Normal;
    let mut open = false;
    for word in words {
        if let Some(next) = Class::of(word) {
            let is_empty = seen.last() == Some(&class) && !open_in(&all, class);
            if class != Class::Normal && is_empty {
                return Err(wrong(format!("{} requires at least 1 devices", class.head())));
            }
            if seen.contains(&next) && !matches!(next, Class::Special | Class::Dedup) {
                return Err(wrong(format!("'{word}' can be specified only once")));
            }
            seen.push(next);
            (class, open) = (next, false);
        } else if let Some(kind) = GivenKind::of(word)? {
            if class.is_apart() {
                // They are no groups, and what follows is none of theirs.
                class = Class::Normal;
            }
            all.push(Given { kind, class, devices: Vec::new() });
            open = true;
        } else {
            match all.last_mut().filter(|_| open) {
                Some(last) => last.devices.push(word.into()),
                None => {
                    all.push(Given { kind: GivenKind::Device, class, devices: vec![word.into()] })
                }
            }
        }
    }
    if class != Class::Normal && !open_in(&all, class) {
        return Err(wrong(format!("{} requires at least 1 devices", class.head())));
    }
    for vdev in &all {
        let (least, has, name) = (vdev.kind.devices_min(), vdev.devices.len(), vdev.kind.name());
        if has < least {
            return Err(wrong(format!("{name} requires at least {least} devices, and has {has}")));
        }
        if vdev.class == Class::Log && matches!(vdev.kind, GivenKind::Raidz(_)) {
            let text = "unsupported 'log' device: raidz; mirror it, or name devices";
            return Err(wrong(text.to_owned()));
        }
        if let GivenKind::Draid(asked) = vdev.kind {
            if vdev.class != Class::Normal {
                let text = "device: draid; mirror it, or name devices";
                return Err(wrong(format!("unsupported '{}' {text}", vdev.class.word())));
            }
            asked.over(has).map_err(Failure::failed)?;
        }
    }
    Ok(all)
}

/// Whether there is a vdev of this class.
fn open_in(all: &[Given], class: Class) -> bool {
    all.iter().any(|vdev| vdev.class == class)
}

/// Refuses vdevs of which none holds data.
///
/// # Errors
/// None does.
pub fn check_data(all: &[Given]) -> Result<(), Failure> {
    match open_in(all, Class::Normal) {
        true => Ok(()),
        false => Err(wrong("at least one toplevel vdev must be specified".to_owned())),
    }
}

/// All devices, in the order in which they were given.
pub fn paths(all: &[Given]) -> Vec<PathBuf> {
    all.iter().flat_map(|vdev| vdev.devices.clone()).collect()
}

/// What a vdev bears.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    /// What it is: `disk` and `file` are alike.
    kind: &'static str,
    /// Losses of devices that it bears.
    parity: u64,
    children: usize,
}

impl Level {
    fn of_given(vdev: &Given) -> Level {
        let children = vdev.devices.len();
        let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.is_file());
        match vdev.kind {
            GivenKind::Device if vdev.devices.iter().all(is_file) => {
                Level { kind: "file", parity: 0, children: 1 }
            }
            GivenKind::Device => Level { kind: "disk", parity: 0, children: 1 },
            GivenKind::Mirror => Level { kind: "mirror", parity: children as u64 - 1, children },
            GivenKind::Raidz(parity) => Level { kind: "raidz", parity, children },
            GivenKind::Draid(asked) => Level { kind: "draid", parity: asked.parity, children },
        }
    }

    /// Of a vdev that a pool has; nothing where it is of another kind.
    fn of_vdev(vdev: &Vdev) -> Option<Level> {
        let children = vdev.children.len();
        Some(match &vdev.kind {
            VdevKind::File => Level { kind: "file", parity: 0, children: 1 },
            VdevKind::Disk => Level { kind: "disk", parity: 0, children: 1 },
            VdevKind::Mirror => {
                Level { kind: "mirror", parity: (children as u64).saturating_sub(1), children }
            }
            VdevKind::Raidz(raidz) => Level { kind: "raidz", parity: raidz.parity, children },
            VdevKind::Draid(draid) => Level { kind: "draid", parity: draid.parity, children },
            // What stands in for a device at the top is one.
            VdevKind::Replacing | VdevKind::Spare => {
                return vdev.children.first().and_then(Level::of_vdev);
            }
            _ => return None,
        })
    }

    fn is_bare(&self) -> bool {
        matches!(self.kind, "disk" | "file")
    }

    fn is_striped(&self) -> bool {
        matches!(self.kind, "raidz" | "draid")
    }

    /// Whether they are of different kinds that bear losses alike: a mirror that bears as much as a raidz is as good.
    fn is_mixed(&self, other: &Level) -> bool {
        let kinds = [self, other];
        let of = |kind: &str| kinds.iter().any(|level| level.kind == kind);
        let striped = kinds.iter().filter(|level| level.is_striped()).count();
        striped == 2 && self.kind != other.kind || striped == 1 && of("mirror")
    }

    /// How two vdevs that are given differ, in OpenZFS's words; nothing where they don't.
    fn difference(&self, other: &Level) -> Option<String> {
        let (one, two) = (self.kind, other.kind);
        let (parity, of_other) = (self.parity, other.parity);
        if self.is_mixed(other) {
            let text = format!(
                "{one} and {two} vdevs with different redundancy, {parity} vs. {of_other} are present"
            );
            return (parity != of_other).then_some(text);
        }
        if self.is_bare() && other.is_bare() {
            None
        } else if one != two {
            Some(format!("both {one} and {two} vdevs are present"))
        } else if parity != of_other && self.is_striped() {
            Some(format!("both {parity} and {of_other} device parity {one} vdevs are present"))
        } else if self.children != other.children {
            let (has, own) = (self.children, other.children);
            Some(format!("both {has}-way and {own}-way {one} vdevs are present"))
        } else {
            None
        }
    }

    /// How a new vdev differs from a pool's, in OpenZFS's words; nothing where it doesn't.
    fn mismatch(&self, new: &Level) -> Option<String> {
        if self.is_mixed(new) && self.parity == new.parity {
            return None;
        }
        let (one, other) = (self.kind, new.kind);
        if self.is_bare() && new.is_bare() {
            None
        } else if one != other {
            Some(format!("pool uses {one} and new vdev is {other}"))
        } else if self.parity != new.parity && self.is_striped() {
            let (parity, own) = (self.parity, new.parity);
            Some(format!("pool uses {parity} device parity and new vdev uses {own}"))
        } else if self.children != new.children {
            let (has, own) = (self.children, new.children);
            Some(format!("pool uses {has}-way {one} and new vdev uses {own}-way {other}"))
        } else {
            None
        }
    }
}

/// Whether the redundancy of all is the same, and that of a pool's vdevs, where there is a pool already.
///
/// # Errors
/// It isn't.
pub fn check_redundancy(all: &[Given], pool: Option<&Vdev>) -> Result<(), Failure> {
    let counts = |vdev: &&Given| vdev.class != Class::Log && !vdev.class.is_apart();
    let data: Vec<Level> = all.iter().filter(counts).map(Level::of_given).collect();
    let refuse = |what: String| {
        let text = format!("mismatched replication level: {what}; use '-f' to override");
        Err(Failure::failed(format!("invalid vdev specification: {text}")))
    };
    for (last, vdev) in data.iter().zip(data.iter().skip(1)) {
        if let Some(how) = last.difference(vdev) {
            return refuse(how);
        }
    }
    let Some(pool) = pool else { return Ok(()) };
    let tops = pool.children.iter().filter(|top| alloc::Class::of(top) != alloc::Class::Log);
    let mut levels: Vec<Level> = tops.filter_map(Level::of_vdev).collect();
    levels.dedup();
    // A pool that is mixed already has no level that another vdev could miss.
    let [level] = levels.as_slice() else { return Ok(()) };
    data.iter().find_map(|vdev| level.mismatch(vdev)).map_or(Ok(()), refuse)
}

/// The sector of new vdevs, as somebody says it.
///
/// # Errors
/// No vdev has such sectors.
pub fn ashift(value: &str) -> Result<u64, Failure> {
    let number: Option<u64> = value.parse().ok().filter(|shift| (9..=16).contains(shift));
    number.ok_or_else(|| {
        let text = "is invalid, only values between 9 and 16 are allowed";
        Failure::failed(format!("property 'ashift' number {value} {text}"))
    })
}

/// The vdevs over their devices, which were opened in the order in which they were given; top-level ones are numbered from 0.
///
/// # Errors
/// A device is too small, or those of a vdev differ in size and nobody forces it.
pub fn over(
    all: &[Given],
    members: &[NewMember],
    fresh: &dyn Fresh,
    ashift: u64,
    force: bool,
) -> Result<NewVdevs, Failure> {
    let mut members = members.iter();
    let mut new = NewVdevs::default();
    for vdev in all {
        let mut leaves = Vec::new();
        let mut sizes = Vec::new();
        for (number, path) in (0..).zip(&vdev.devices) {
            let member = members.next().expect("each device was opened");
            if member.bytes.bytes() < DEVICE_BYTES_MIN {
                let text = "device is too small: a pool's have 64 MiB at the least";
                return Err(Failure::failed(format!("{}: {text}", path.display())));
            }
            sizes.push(usable(member.bytes.bytes()) >> ashift << ashift);
            let kind = if member.is_disk { VdevKind::Disk } else { VdevKind::File };
            let mut leaf = Vdev::new(kind, number, member.guid);
            leaf.path = Some(Text::from(member.path.display().to_string().as_str()));
            if member.is_disk {
                leaf.other.push((Text::from("whole_disk"), Value::Uint64(0)));
            }
            leaves.push(leaf);
        }
        if vdev.class.is_apart() {
            leaves.iter_mut().for_each(|leaf| leaf.ashift = Some(ashift));
            let list = if vdev.class == Class::Spare { &mut new.spares } else { &mut new.cache };
            list.extend(leaves);
            continue;
        }
        let least = sizes.iter().copied().min().unwrap_or(0);
        if !force && sizes.iter().any(|size| *size != least) {
            let text = format!(
                "invalid vdev specification: {} contains devices of different sizes; use '-f' to override",
                vdev.kind.name()
            );
            return Err(Failure::failed(text));
        }
        let many = leaves.len();
        let (mut top, asize) = match vdev.kind {
            GivenKind::Device => (leaves.remove(0), least),
            GivenKind::Mirror => (Vdev::new(VdevKind::Mirror, 0, fresh.number()), least),
            GivenKind::Raidz(parity) => {
                let raidz = Raidz { parity, expanding: false, expand_txgs: Vec::new() };
                (Vdev::new(VdevKind::Raidz(raidz), 0, fresh.number()), least * many as u64)
            }
            GivenKind::Draid(asked) => {
                let draid = asked.over(many).map_err(Failure::failed)?;
                let asize = Layout::new(&draid, many).map_or(0, |layout| layout.asize(least));
                (Vdev::new(VdevKind::Draid(draid), 0, fresh.number()), asize)
            }
        };
        top.id = new.tops.len() as u64;
        (top.ashift, top.asize, top.children) = (Some(ashift), Some(asize), leaves);
        top.is_log = Some(u64::from(vdev.class == Class::Log));
        top.allocation_bias = match vdev.class {
            Class::Log => Some(Text::from("log")),
            Class::Special => Some(Text::from("special")),
            Class::Dedup => Some(Text::from("dedup")),
            Class::Normal | Class::Spare | Class::Cache => None,
        };
        new.tops.push(top);
    }
    Ok(new)
}

/// What a pool has already, where a layout is shown.
#[derive(Default)]
pub struct Present {
    /// Top-level vdevs.
    pub tops: Vec<Vdev>,
    /// Spares.
    pub spares: Vec<Vdev>,
    /// Cache devices.
    pub cache: Vec<Vdev>,
}

impl Present {
    fn of(&self, class: Class) -> Vec<&Vdev> {
        let of_tops = |wanted: alloc::Class| {
            let tops = self.tops.iter().filter(move |top| alloc::Class::of(top) == wanted);
            tops.filter(|top| !matches!(top.kind, VdevKind::Hole | VdevKind::Indirect(_))).collect()
        };
        match class {
            Class::Normal => of_tops(alloc::Class::Normal),
            Class::Log => of_tops(alloc::Class::Log),
            Class::Special => of_tops(alloc::Class::Special),
            Class::Dedup => of_tops(alloc::Class::Dedup),
            Class::Spare => self.spares.iter().collect(),
            Class::Cache => self.cache.iter().collect(),
        }
    }
}

/// The layout of a pool with these vdevs, as `-n` shows it.
pub fn layout(pool: &str, present: &Present, all: &[Given]) -> String {
    let mut text = format!("\t{pool}\n");
    use Class::{Cache, Dedup, Log, Normal, Spare, Special};
    for class in [Normal, Dedup, Special, Log, Cache, Spare] {
        let (old, new) = (present.of(class), all.iter().filter(|vdev| vdev.class == class));
        let new: Vec<&Given> = new.collect();
        if class != Normal && !(old.is_empty() && new.is_empty()) {
            text += &format!("\t{}\n", class.head());
        }
        old.iter().for_each(|vdev| show(&mut text, vdev, "\t  "));
        for vdev in new {
            let mut indent = "\t  ";
            if vdev.kind != GivenKind::Device {
                text += &format!("{indent}{}\n", vdev.shown());
                indent = "\t    ";
            }
            for device in &vdev.devices {
                text += &format!("{indent}{}\n", printable::word(&device.display().to_string()));
            }
        }
    }
    text
}

/// A vdev that is there, and what it is made of.
fn show(text: &mut String, vdev: &Vdev, indent: &str) {
    let name = tree::shown(vdev, vdev.children.len(), &Devices::new(), Naming::default());
    *text += &format!("{indent}{name}\n");
    vdev.children.iter().for_each(|child| show(text, child, &format!("{indent}  ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn words_are_vdevs_of_their_classes() {
        let all = given(&words("mirror a b log c spare d e cache f mirror g h")).expect("vdevs");
        assert_eq!(
            layout("tank", &Present::default(), &all),
            "\ttank\n\t  mirror\n\t    a\n\t    b\n\t  mirror\n\t    g\n\t    h\n\tlogs\n\t  c\n\tcache\n\t  f\n\tspares\n\t  d\n\t  e\n"
        );
        for (text, why) in [
            ("a spare", "requires at least 1"),
            ("a cache spare b", "requires at least 1"),
            ("a spare b log c spare d", "'spare' can be specified only once"),
            ("log raidz a b", "unsupported 'log' device"),
            ("draid2:3d a b c d", "at most 2 disks are available for data"),
            ("draid2 a b", "draid2 requires at least 3 devices"),
            ("a special draid b c", "unsupported 'special' device: draid"),
        ] {
            let failure = given(&words(text)).err().expect("it is refused");
            assert!(failure.message.contains(why), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn vdevs_that_differ_are_told_in_openzfs_words() {
        for (text, why) in [
            ("mirror a b raidz c d e f", None),
            ("mirror a b raidz2 c d e f", Some("mirror and raidz vdevs with different redundancy")),
            ("draid2 a b c d raidz2 e f g", None),
            (
                "draid a b c raidz2 e f g",
                Some("draid and raidz vdevs with different redundancy, 1"),
            ),
            ("draid a b c draid d e f g", Some("both 3-way and 4-way draid vdevs")),
            ("draid a b c draid2 d e f", Some("both 1 and 2 device parity draid vdevs")),
            ("mirror a b c", None),
            ("a draid b c", Some("both disk and draid vdevs are present")),
        ] {
            let all = given(&words(text)).expect("vdevs");
            let said = check_redundancy(&all, None).err().map(|failure| failure.message);
            let fits = match (&said, why) {
                (Some(said), Some(why)) => said.contains(why),
                (said, why) => said.is_none() && why.is_none(),
            };
            assert!(fits, "{text}: {said:?}");
        }
    }

    #[test]
    fn what_bears_less_than_the_pool_is_told() {
        let mut pool = Vdev::new(VdevKind::Root, 0, 1);
        pool.children = vec![Vdev::new(VdevKind::Mirror, 0, 2)];
        let leaf = |id| Vdev::new(VdevKind::Disk, id, id + 10);
        pool.children[0].children = vec![leaf(0), leaf(1)];
        for (text, why) in [
            ("/dev/null", "pool uses mirror and new vdev is disk"),
            ("mirror a b c", "pool uses 2-way mirror and new vdev uses 3-way mirror"),
            ("raidz2 a b c d", "pool uses mirror and new vdev is raidz"),
        ] {
            let all = given(&words(text)).expect("vdevs");
            let failure = check_redundancy(&all, Some(&pool)).expect_err("it differs");
            assert!(failure.message.contains(why), "{text}: {}", failure.message);
        }
        for text in ["mirror a b", "log a", "cache a spare b", "raidz1 a b c"] {
            let all = given(&words(text)).expect("vdevs");
            assert!(check_redundancy(&all, Some(&pool)).is_ok(), "{text}");
        }
    }
}
