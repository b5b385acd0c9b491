//! A pool in memory, mounted for writing by the kernel, and judged by `fsx`, by `pjdfstest` and by `zdb`.
//!
//! What could break: what the kernel asks at once and in another order than a test would; groups that are synced in the midst of it;
//! what POSIX wants of names, times and errors.
//!
//! Each test says so and is skipped where nothing can be mounted, or a judge is missing.

#![allow(clippy::disallowed_methods, reason = "programs, threads and files are what it is about")]

#[path = "../../../export/tests/support/judges.rs"]
mod judges;

use super::{Rig, mounted::mounted, top};
use export::fuse::Server;
use fixtures::extent::by_extent;
use futures_util::future::{Either, join, select};
use host::{CalendarClock, FuseMount, HostRuntime, MountError, ReactorKind};
use judges::{judge, judged};
use rt::InodesRef;
use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::spa::{OpenOptions, Spa, find};
use zfs_format::vdev::VdevKind;

/// A pool that another thread has made and serves, until it is dropped; then `zdb` judges it.
struct Served {
    folder: tempfile::TempDir,
    stop: Option<rt::sync::oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

impl Served {
    /// Nothing, said aloud, where nothing can be mounted.
    fn new() -> Option<Served> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let (stop, stopped) = rt::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let server = std::thread::spawn(move || {
            let rig = Rig::new(vec![top(0, VdevKind::File, 1), top(1, VdevKind::Mirror, 2)]);
            let runtime = HostRuntime::new(ReactorKind::Threads).expect("it runs");
            let mount = match FuseMount::new(&runtime.host(), &path, "tank", host::Use::WRITE) {
                Ok(mount) => mount,
                Err(error @ (MountError::Device(_) | MountError::Denied(_))) => {
                    return tell.send(Err(error.to_string())).expect("it is awaited");
                }
                Err(error) => panic!("{error}"),
            };
            tell.send(Ok(())).expect("it is awaited");
            let all: Vec<_> = rig.devices().into_values().collect();
            let (rt, fresh) = (runtime.runtime().handle(), Rc::clone(&rig.fresh));
            let ended = runtime.runtime().block_on(async move {
                let found = find(&all).await;
                let spa = Spa::open(&rt, &found.pools[0], OpenOptions::default()).await;
                let live = Live::open(Rc::new(spa.expect("it opens")), &fresh).await;
                let live = Rc::new(live.expect("it opens for writing"));
                let (end, ended) = rt::sync::oneshot::channel::<()>();
                let syncing = {
                    let live = Rc::clone(&live);
                    rt.spawn(async move { live.keep_synced(async { drop(ended.await) }).await })
                };
                let inodes: InodesRef = Rc::new(mounted(&live, Rc::new(CalendarClock)).await);
                let server = Server::with_notices(inodes, mount.stream(), mount.notices());
                let serving = pin!(server.serve());
                match select(serving, stopped).await {
                    Either::Left((served, _)) => served.expect("served"),
                    Either::Right((_, serving)) => {
                        let (served, unmounted) = join(serving, mount.unmount_served()).await;
                        served.expect("served");
                        unmounted.expect("unmounted");
                    }
                }
                let _ = end.send(());
                syncing.await.expect("groups were committed");
                live.close(LabelState::Exported).await.expect("it is closed");
                mount.unmount()
            });
            ended.expect("a real run never stalls").expect("unmounted");
            rig.judge();
        });
        match told.recv_timeout(Duration::from_secs(60)).expect("it mounts") {
            Ok(()) => Some(Served { folder, stop: Some(stop), server: Some(server) }),
            Err(reason) => {
                println!("skipped: {reason}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let ended = self.server.take().expect("it was started").join();
        if !std::thread::panicking() {
            ended.expect("the server ends in order, and its pool is sound");
        }
    }
}

#[test]
fn fsx_finds_no_byte_in_a_pool_that_should_be_another() {
    fixtures::takes_long!();
    let Some(fsx) = judge("fsx") else { return };
    let Some(served) = Served::new() else { return };
    let config = tempfile::NamedTempFile::new().expect("a file");
    let text = "flen = 1000000\n[opsize]\nmax = 200000\n[weights]\nclose_open = 1\ninvalidate = 1\n\
                truncate = 5\nfsync = 0.1\nfdatasync = 0.1\nposix_fallocate = 3\npunch_hole = 5\nsendfile = 2\n\
                posix_fadvise = 2\ncopy_file_range = 5\n";
    fs::write(config.path(), text).expect("written");
    let artefacts = tempfile::tempdir().expect("a folder");
    let operations = by_extent("1500", "4000");
    for seed in ["1", "2"] {
        let mut command = Command::new(&fsx);
        command.args(["-q", "-N", operations, "-S", seed, "-P"]).arg(artefacts.path());
        command.arg("-f").arg(config.path()).arg(served.path(seed));
        judged(&mut command, Duration::from_secs(120));
    }
}

/// Tests of pjdfstest that can't hold here, and why.
const EXPECTED: [&str; 0] = [];

#[test]
fn pjdfstest_finds_in_a_pool_what_posix_wants() {
    fixtures::takes_long!();
    let Some(pjdfstest) = judge("pjdfstest") else { return };
    let Some(served) = Served::new() else { return };
    let config = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "[features]\nposix_fallocate = {{}}\nutime_now = {{}}\nutimensat = {{}}\nrename_ctime = {{}}\n\
         [settings]\nnaptime = 0.002\nexpected_failures = {EXPECTED:?}\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"games\", \"games\"]]\n"
    );
    fs::write(config.path(), text).expect("written");
    let other = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(pjdfstest);
    command.arg("-c").arg(config.path()).arg("-p").arg(served.folder.path());
    command.arg("-s").arg(other.path());
    let said = judged(&mut command, Duration::from_secs(240));
    println!("{}", said.lines().last().unwrap_or_default());
}
