//! The sequence carried out by Spindle.

use super::deeds::{Content, Deed, FileDeed};
use crate::datasets::{node, number, task};
use crate::logs::clock;
use crate::{Rig, top, volumes};
use rt::inodes::{Caller, Fallocate, Inodes, New, Node, RenameHow, SetAttributes, SetHow, WriteAt};
use rt::{Buf, Device, Request, SgList};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::dsl::make::Fresh;
use zfs::mounted::{MountOptions, Mounted, Writing};
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::datasets::bookmarks::BookmarkSource;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::features::Feature;
use zfs_format::vdev::VdevKind;

/// What both set for the whole pool: by number, and as users say it.
pub(super) const SETTINGS: [(&str, u64, &str); 3] =
    [("atime", 0, "off"), ("xattr", 2, "sa"), ("sync", 2, "disabled")];

struct Ours {
    live: Rc<Live>,
    content: Rc<Vec<u8>>,
    mounts: BTreeMap<String, Mounted>,
}

/// Carries it out on a new pool; gives the pool, and the first group after each commit.
pub(super) fn run(
    features: &[&str],
    ashift: u64,
    deeds: &[Deed],
    content: &[u8],
) -> (Rig, Vec<u64>) {
    let mut disk = top(0, VdevKind::File, 1);
    disk.ashift = Some(ashift);
    let guid = |name: &&str| Feature::named(name).expect("it is known").guid;
    let rig = Rig::with_features(vec![disk], features.iter().map(guid).collect());
    let (deeds, content) = (deeds.to_vec(), Rc::new(content.to_vec()));
    let marks = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let root = node(&live, "tank").await.directory.number;
        for (name, value, _) in SETTINGS {
            set(&live, root, name, value).await;
        }
        let mut ours = Ours { live, content, mounts: BTreeMap::new() };
        let mut marks = Vec::new();
        for deed in &deeds {
            if matches!(deed, Deed::Sync) {
                ours.live.sync(async |_| Ok(())).await.expect("it is written");
                marks.push(ours.live.spa().uberblock().txg + 1);
            } else {
                ours.carry_out(deed).await;
            }
        }
        ours.mounts.clear();
        ours.live.finish_freeing().await.expect("all is freed");
        ours.live.close(LabelState::Exported).await.expect("it is closed");
        marks
    });
    (rig, marks)
}

async fn set(live: &Live, directory: u64, name: &str, value: u64) {
    let done = task(live, async |tasks| {
        tasks.set_property(directory, name, Some(table::number(value))).await
    });
    done.await.expect("it is set");
}

/// The last part of a dataset's name.
fn last(name: &str) -> &str {
    name.rsplit('/').next().expect("a name")
}

impl Ours {
    fn bytes(&self, of: Content) -> Buf {
        Buf::copy_of(&self.content[of.at..of.at + of.len])
    }

    async fn mount(&mut self, name: &str) -> &Mounted {
        if !self.mounts.contains_key(name) {
            let found = self.live.spa().dsl().find(name).await.expect("it is read");
            let (directory, dataset) = found.expect("it is there");
            let writing = Writing { live: Rc::clone(&self.live), clock: clock() };
            let (directory, how) = (Rc::new(directory), MountOptions::default());
            let opened =
                Mounted::open_for_writing(writing, directory, dataset, how, Rc::new(|_| {})).await;
            self.mounts.insert(name.to_owned(), opened.expect("it is mounted"));
        }
        &self.mounts[name]
    }

    async fn carry_out(&mut self, deed: &Deed) {
        match deed {
            Deed::File(of, deed) => return self.change_files(of, deed).await,
            Deed::VolumeWrite(of, at, content) => {
                let write = Request::write(Offset(*at), self.bytes(*content));
                return self.ask_volume(of, write).await;
            }
            Deed::VolumeDiscard(of, at, len) => {
                return self.ask_volume(of, Request::discard(Offset(*at), ByteCount(*len))).await;
            }
            _ => {}
        }
        self.mounts.clear();
        let live = &self.live;
        let above = node(live, "tank").await.directory.number;
        let done = match deed {
            Deed::CreateFiles(name, record) => {
                let properties = vec![("recordsize".to_owned(), table::number(*record))];
                let new = NewDataset { name: last(name).to_owned(), owner: (0, 0), properties };
                task(live, async |tasks| tasks.create(above, &new).await).await.map(|_| ())
            }
            Deed::CreateVolume(name, bytes, block) => {
                volumes::make(live, volumes::new(last(name), *bytes, *block, 0)).await
            }
            Deed::Snapshot(name) => {
                let (of, name) = name.split_once('@').expect("a snapshot");
                let of = number(live, of).await;
                task(live, async |tasks| tasks.snapshot(of, name).await).await.map(|_| ())
            }
            Deed::Clone(snapshot, name, _) => {
                let snapshot = number(live, snapshot).await;
                let new = NewClone { name: last(name).to_owned(), properties: Vec::new() };
                let done = task(live, async |tasks| tasks.clone(snapshot, above, &new).await).await;
                done.map(|_| ())
            }
            Deed::Rollback(snapshot) => {
                let of = number(live, snapshot.split('@').next().expect("a name")).await;
                let snapshot = number(live, snapshot).await;
                task(live, async |tasks| tasks.rollback(of, snapshot).await).await
            }
            Deed::DestroySnapshot(name) => {
                let snapshot = number(live, name).await;
                task(live, async |tasks| tasks.destroy_snapshot(snapshot, false).await).await
            }
            Deed::Destroy(name) => {
                let of = number(live, name).await;
                task(live, async |tasks| tasks.destroy(of).await).await
            }
            Deed::Promote(name) => {
                let of = number(live, name).await;
                task(live, async |tasks| tasks.promote(of).await).await
            }
            Deed::Bookmark(snapshot, mark) => {
                let (of, mark) = mark.split_once('#').expect("a bookmark");
                let of = number(live, of).await;
                let source = BookmarkSource::Snapshot(number(live, snapshot).await);
                task(live, async |tasks| tasks.bookmark(of, mark, &source).await).await
            }
            Deed::Set(of, (name, value, _)) => {
                set(live, node(live, of).await.directory.number, name, *value).await;
                Ok(())
            }
            Deed::File(..) | Deed::VolumeWrite(..) | Deed::VolumeDiscard(..) | Deed::Sync => {
                unreachable!("done above")
            }
        };
        done.unwrap_or_else(|error| panic!("{deed:?}: {error}"));
    }

    async fn ask_volume(&self, of: &str, request: Request) {
        let volume = volumes::open(&self.live, of).await;
        volume.submit(request).await.expect("it is done");
    }

    async fn change_files(&mut self, of: &str, deed: &FileDeed) {
        let bytes = match deed {
            FileDeed::Write(_, _, content)
            | FileDeed::Append(_, content)
            | FileDeed::SetValue(_, content) => self.bytes(*content),
            _ => Buf::zeros(0),
        };
        act(self.mount(of).await, deed, bytes).await;
    }
}

async fn find(of: &dyn Inodes, path: &str) -> Node {
    let mut node = Node::ROOT;
    for name in path.split('/') {
        node = of.lookup(node, name.as_bytes()).await.expect("it is there").node;
    }
    node
}

async fn above<'a>(of: &dyn Inodes, path: &'a str) -> (Node, &'a [u8]) {
    match path.rsplit_once('/') {
        Some((directory, name)) => (find(of, directory).await, name.as_bytes()),
        None => (Node::ROOT, path.as_bytes()),
    }
}

async fn act(of: &dyn Inodes, deed: &FileDeed, bytes: Buf) {
    let by = Caller::default();
    let new = New { permissions: 0o644, umask: 0 };
    let done = match deed {
        FileDeed::Create(path) => {
            let (directory, name) = above(of, path).await;
            of.create(by, directory, name, new).await.map(|made| of.release(made.node))
        }
        FileDeed::Mkdir(path) => {
            let (directory, name) = above(of, path).await;
            let new = New { permissions: 0o755, ..new };
            of.mkdir(by, directory, name, new).await.map(|_| ())
        }
        FileDeed::Rmdir(path) => {
            let (directory, name) = above(of, path).await;
            of.rmdir(by, directory, name).await
        }
        FileDeed::Write(path, at, _) => {
            let (node, at) = (find(of, path).await, WriteAt::Offset(Offset(*at)));
            of.write(by, node, at, SgList::from(bytes), false).await.map(|_| ())
        }
        FileDeed::Append(path, _) => {
            let node = find(of, path).await;
            of.write(by, node, WriteAt::End, SgList::from(bytes), false).await.map(|_| ())
        }
        FileDeed::Truncate(path, len) => {
            let set = SetAttributes { size: Some(ByteCount(*len)), ..SetAttributes::default() };
            of.setattr(by, find(of, path).await, set).await.map(|_| ())
        }
        FileDeed::Punch(path, at, len) => {
            let (node, at, len) = (find(of, path).await, Offset(*at), ByteCount(*len));
            of.fallocate(by, node, at, len, Fallocate::PunchHole).await.map(|_| ())
        }
        FileDeed::Rename(from, to) => {
            let (from, to) = (above(of, from).await, above(of, to).await);
            of.rename(by, from, to, RenameHow::Replace).await
        }
        FileDeed::Link(from, to) => {
            let (node, (directory, name)) = (find(of, from).await, above(of, to).await);
            of.link(by, node, directory, name).await.map(|_| ())
        }
        FileDeed::Symlink(to, path) => {
            let (directory, name) = above(of, path).await;
            of.symlink(by, directory, name, to.as_bytes()).await.map(|_| ())
        }
        FileDeed::Unlink(path) => {
            let (directory, name) = above(of, path).await;
            of.unlink(by, directory, name).await
        }
        FileDeed::Chmod(path, mode) => {
            let set = SetAttributes { permissions: Some(*mode), ..SetAttributes::default() };
            of.setattr(by, find(of, path).await, set).await.map(|_| ())
        }
        FileDeed::Chown(path, user, group) => {
            let (user, group) = (Some(*user), Some(*group));
            let set = SetAttributes { user, group, ..SetAttributes::default() };
            of.setattr(by, find(of, path).await, set).await.map(|_| ())
        }
        FileDeed::SetValue(path, _) => {
            let (node, how) = (find(of, path).await, SetHow::Any);
            of.set_extended_attribute(by, node, b"user.v", bytes.bytes(), how).await
        }
    };
    done.unwrap_or_else(|error| panic!("{deed:?}: {error:?}"));
}
