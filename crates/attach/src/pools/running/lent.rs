//! What who holds a pool lends to commands that work on files of their own: a volume, or the files of a dataset.
//!
//! Such a command (`zfs load`, `zfs cp` into a pool) has its standard input, its working directory and its rights, and may have to
//! wait for what it reads for as long as it likes; it may even read what the holder itself serves. So it runs in its own process, and
//! only what it changes is done by the holder: a volume by NBD ([`Lent::Volume`]), files by [calls](super::files).
//!
//! Both go on over the connection that asked, once it was answered and the command has sent a byte ([`GO`]): so nothing of them is
//! taken for a part of the answer. They end with it, or with the holder, which waits for them before it closes the pool.

use super::files;
use super::protocol::GO;
use crate::error::Error;
use crate::pools::find::HeldBy;
use ::zfs::ZfsError;
use ::zfs::dsl::catalog::Node as DatasetNode;
use ::zfs::dsl::name::below;
use ::zfs::dsl::property::view::Kind;
use ::zfs::mounted::{MountOptions, Mounted, Writing};
use ::zfs::spa::datasets::TaskError;
use ::zfs::spa::live::set_number;
use ::zfs::zvol::live::LiveVolume;
use export::nbd::{CLIENT_MEMORY_MIN, Export, Server};
use export::tls::Tls;
use futures_util::future::select;
use host::CalendarClock;
use rt::inodes::{InodeError, Inodes, Node};
use rt::{BufMut, Rt, StreamRef};
use std::pin::pin;
use std::rc::Rc;

/// See the [module](self).
pub(super) enum Lent {
    Volume(LiveVolume),
    /// Files, and the root of the dataset among them.
    Files(Rc<Mounted>, Node),
}

fn cannot_open(name: &str) -> impl Fn(ZfsError) -> Error {
    move |error| Error::CannotOpen { name: name.to_owned(), error: Box::new(error) }
}

/// Where a path of datasets leads in a mount.
async fn walked(mounted: &Mounted, path: &str) -> Result<Node, InodeError> {
    let mut at = Node::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        at = mounted.lookup(at, part.as_bytes()).await?.node;
    }
    Ok(at)
}

impl Lent {
    async fn dataset(pool: &HeldBy, name: &str) -> Result<Rc<DatasetNode>, Error> {
        let catalog = pool.live.spa().catalog(0).await.map_err(cannot_open(name))?;
        let found = catalog.find(name).await.map_err(cannot_open(name))?;
        found.ok_or_else(|| Error::NoDataset { name: name.to_owned() })
    }

    /// A volume that nobody else has open: clients of one that is served would not hear of what changes.
    pub(super) async fn volume(pool: &HeldBy, name: &str) -> Result<Lent, Error> {
        let node = Lent::dataset(pool, name).await?;
        if node.kind != Kind::Volume {
            return Err(Error::IsFileSystem { dataset: name.to_owned() });
        }
        if pool.live.is_used(node.head.number) {
            let error = TaskError::Busy;
            return Err(Error::NotLent { name: name.to_owned(), error });
        }
        if set_number(&node, "readonly").unwrap_or(0) != 0 {
            let why = "its property readonly is on".into();
            return Err(Error::NotWritable { volume: name.to_owned(), why });
        }
        let volume = LiveVolume::open(&pool.live, &node).await;
        Ok(Lent::Volume(volume.map_err(cannot_open(name))?))
    }

    /// The files of a dataset: of the mount that shows it, where there is one.
    pub(super) async fn files(pool: &HeldBy, name: &str) -> Result<Lent, Error> {
        let node = Lent::dataset(pool, name).await?;
        if node.kind != Kind::FileSystem {
            return Err(Error::IsVolume { dataset: name.to_owned() });
        }
        let catalog = pool.live.spa().catalog(0).await.map_err(cannot_open(name))?;
        for mounted in pool.mounted() {
            let at = catalog.dataset_name(mounted.dataset()).await.map_err(cannot_open(name))?;
            if let Some(path) = below(&at, name) {
                let shown = mounted.shown().await.map_err(cannot_open(name))?;
                if !shown.iter().any(|(dataset, _)| dataset == name) {
                    continue;
                }
                let root = walked(&mounted, path).await;
                let gone = |_| Error::NoDataset { name: name.to_owned() };
                return Ok(Lent::Files(Rc::clone(&mounted), root.map_err(gone)?));
            }
            // Who holds which file there is that mount's own knowledge.
            if below(name, &at).is_some() {
                return Err(Error::MountedBelow { dataset: name.to_owned(), below: at });
            }
        }
        let found = pool.live.spa().dsl().find(name).await.map_err(cannot_open(name))?;
        let (directory, dataset) =
            found.ok_or_else(|| Error::NoDataset { name: name.to_owned() })?;
        let writing = Writing { live: Rc::clone(&pool.live), clock: Rc::new(CalendarClock) };
        let how = MountOptions::default();
        let tell = Rc::new(|_: &::zfs::mounted::Notice| ());
        let opened =
            Mounted::open_for_writing(writing, Rc::new(directory), dataset, how, tell).await;
        let mounted = Rc::new(opened.map_err(cannot_open(name))?);
        pool.add_mounted(&mounted);
        Ok(Lent::Files(mounted, Node::ROOT))
    }

    /// Serves it, until the command goes or this ends.
    pub(super) async fn serve(self, rt: &Rt, stream: StreamRef, ends: impl Future<Output = ()>) {
        match stream.read(BufMut::for_overwrite(1), 0).await {
            Ok((go, 1)) if go[0] == GO => {}
            _ => return,
        }
        match self {
            Lent::Volume(volume) => {
                let (name, description) = Default::default();
                let device = Rc::new(volume);
                let export = Export { name, description, device, read_only: false };
                let server = Server::with_memory(rt, vec![export], Tls::off(), CLIENT_MEMORY_MIN);
                let server = server.expect("one export without a name can be served");
                let its = server.clone();
                let serving = rt.spawn(async move { its.serve(stream).await });
                let mut serving = pin!(serving);
                select(serving.as_mut(), pin!(ends)).await;
                server.stop();
                // What fails is told to the command, if it is still there.
                let _ = server.drained().await;
            }
            Lent::Files(files, root) => files::serve(&files, root, &stream, ends).await,
        }
    }
}
