//! Many tasks at once, on a device that takes its time. What could break: two that wait for one another,
//! a step that went on with what another one changed meanwhile, a page that is written back twice.

use crate::world;

use fixtures::extent::some;
use inplace::{FileSystem, MountOptions, Settings};
use rt::filter::{Delay, Slowness};
use rt::{Buf, DeviceRef, FileTree, IoErrorKind, OpenHow, Request, TreeErrorKind};
use std::path::PathBuf;
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset, Prng};
use world::*;

const CAPACITY: ByteCount = ByteCount::mib(48);
const LANES: u64 = 8;
const OPERATIONS: usize = 120;

/// One operation on names and files that all lanes share. What may fail, fails by name.
async fn operation(tree: &FileSystem, prng: &mut Prng) {
    let file = PathBuf::from(format!("d{}/f{}", prng.below(3), prng.below(6)));
    let other = PathBuf::from(format!("d{}/f{}", prng.below(3), prng.below(6)));
    let (at, len) = (prng.below(400) * 512, (1 + prng.below(60)) * 512);
    let write = OpenHow { write: true, create: true, ..OpenHow::default() };
    let done = match prng.below(12) {
        0 => tree.remove_file(&file).await,
        1 => tree.rename(&file, &other).await,
        2 => tree.create_directory(&PathBuf::from(format!("d{}", prng.below(4)))).await,
        3 => tree.list(&PathBuf::from(format!("d{}", prng.below(3)))).await.map(drop),
        4 => tree.sync().await,
        what => match tree.open(&file, write.with_direct(prng.chance(0.4))).await {
            Err(error) => Err(error),
            Ok(file) => {
                let word = prng.next_u64();
                let request = match what {
                    5 | 6 => Request::read(Offset(at), ByteCount(len)),
                    7 => Request::discard(Offset(at), ByteCount(len)),
                    _ => Request::write(Offset(at), Buf::fill(word, len as usize)),
                };
                file.submit(request).await.expect("done");
                match prng.below(8) {
                    0 => file.sync().await,
                    1 => file.set_size(ByteCount(at + 100)).await,
                    2 => file.allocate(ByteCount(at + len)).await,
                    3 => file.drop_cache().await,
                    _ => Ok(()),
                }
            }
        },
    };
    use TreeErrorKind::{Exists, NotFound, NotSupported};
    let expected = |error: &rt::TreeError| matches!(error.kind, Exists | NotFound | NotSupported);
    assert!(done.as_ref().err().is_none_or(expected), "{done:?}");
}

fn play(name: String, settings: Settings, options: MountOptions, seed: u64) {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let slowness = Slowness { latency: Duration::from_micros(700), ..Slowness::default() };
        let device: DeviceRef = Delay::new(memory(CAPACITY), &rt, slowness);
        let tree = fresh(&rt, Rc::clone(&device), &settings, options).await;
        for directory in ["d0", "d1", "d2"] {
            tree.create_directory(path(directory)).await.expect("made");
        }
        let lanes = (0..LANES).map(|lane| {
            let (tree, rt2) = (Rc::clone(&tree), rt.clone());
            rt.spawn(async move {
                let mut prng = Prng::new(seed * LANES + lane);
                for _ in 0..OPERATIONS {
                    operation(&tree, &mut prng).await;
                    rt2.sleep(Duration::from_micros(prng.below(3000))).await;
                }
            })
        });
        let lanes: Vec<_> = lanes.collect();
        let all = async {
            for lane in lanes {
                lane.await;
            }
        };
        // Minutes of virtual time for what takes seconds: more is a circle of waiting.
        let limit = rt.sleep(Duration::from_secs(600));
        let all = std::pin::pin!(all);
        let ended = futures_util::future::select(all, limit).await;
        let ended = matches!(ended, futures_util::future::Either::Left(_));
        assert!(ended, "{name}, seed {seed}: lanes wait for one another");
        assert_sound(&tree, &name).await;
        assert_eq!(tree.damage(), None, "{name}");
        let before = content(&*tree).await;
        tree.unmount().await.expect("unmounted");
        let refused = tree.open(path("d0/f0"), OpenHow::read()).await.map(drop);
        assert_eq!(refused.expect_err("gone").kind, TreeErrorKind::Io(IoErrorKind::Gone));
        let tree = FileSystem::mount(&rt, device, options).await.expect("mounted");
        assert!(content(&*tree).await == before, "{name}, seed {seed}: other content");
        assert_sound(&tree, &name).await;
    });
}

#[test]
fn many_tasks_leave_a_sound_tree_and_none_waits_for_ever() {
    fixtures::takes_long!();
    for (name, mut settings, mut options) in variants(CAPACITY) {
        settings.journal = settings.block * 256;
        for seed in some(0..6, 2) {
            if seed % 2 == 1 {
                options.cache = settings.block * 256;
            }
            play(name.clone(), settings, options, seed);
        }
    }
}
