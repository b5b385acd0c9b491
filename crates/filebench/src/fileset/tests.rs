//! What could break: a tree with too few files or the wrong shape, a file that two threads have at
//! once, a round that skips or repeats.

use super::*;
use crate::plan::{Plan, PlanOptions};

fn fileset(attributes: &str) -> Fileset {
    let text = format!(
        "set $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)\n\
         set $depth=randvar(type=uniform,min=1,mean=4)\n\
         define fileset name=a,path=$dir,{attributes}\n\
         define process name=p {{ thread name=t {{ flowop read name=r,filename=a }} }}"
    );
    let plan =
        Plan::read("t.f", &text, &PlanOptions { directory: "/d".into(), ..PlanOptions::default() });
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    Fileset::populate(&plan.filesets[0], &plan.variables, 3)
}

#[test]
fn the_tree_has_all_files_and_the_mean_width_and_size() {
    let set = fileset("entries=20000,size=$size,dirwidth=20,leafdirs=0");
    assert_eq!(set.files(), 20_000);
    let paths: BTreeSet<PathBuf> =
        (0..20_000).map(|file| set.path_of(EntryKind::File, file)).collect();
    assert_eq!(paths.len(), 20_000, "no two files have one name");
    let holding: BTreeSet<u32> = set.files.iter().map(|node| node.directory).collect();
    // Rounded up, the mean of a gamma distribution gains a half.
    let width = 20_000.0 / holding.len() as f64;
    assert!((width - 20.5).abs() < 1.5, "{width}");
    let size = set.bytes as f64 / 20_000.0;
    assert!((size / 16384.0 - 1.0).abs() < 0.03, "{size}");
    assert!((set.mean_depth - 3.3).abs() < 0.01, "{}", set.mean_depth);
}

#[test]
fn without_gamma_the_tree_is_regular() {
    let set = fileset("entries=100,size=4k,dirwidth=10,dirgamma=0");
    // log 100 / log 10 = 2: the root, then directories of ten files.
    assert_eq!(set.directories.len(), 11);
    assert_eq!(set.path_of(EntryKind::File, 99), PathBuf::from("a/00000010/00000010"));
    let odd = fileset("entries=3,leafdirs=2,dirwidth=1");
    assert_eq!((odd.files(), odd.leaves()), (3, 2));
    let drawn = fileset("entries=500,size=1,dirwidth=5,dirdepthrv=$depth");
    assert_eq!(drawn.files(), 500);
}

#[test]
fn files_and_leaf_directories_have_names_of_their_own() {
    let set = fileset("entries=40,leafdirs=40,dirwidth=8");
    let files = (0..40).map(|file| set.path_of(EntryKind::File, file));
    let leaves = (0..40).map(|leaf| set.path_of(EntryKind::LeafDirectory, leaf));
    let directories =
        (0..set.directories()).map(|number| set.path_of(EntryKind::Directory, number as u32));
    let all: BTreeSet<PathBuf> = files.chain(leaves).chain(directories).collect();
    assert_eq!(all.len(), 80 + set.directories.len());
}

#[test]
fn sizes_follow_the_old_gamma_where_it_is_given() {
    let set = fileset("entries=20000,size=64k,filesizegamma=1500,dirwidth=20");
    let mean = set.bytes as f64 / 20_000.0;
    assert!((mean / 65536.0 - 1.0).abs() < 0.03, "{mean}");
    let square: f64 = set.sizes.iter().map(|size| (*size as f64 - mean).powi(2)).sum();
    let deviation = (square / 20_000.0).sqrt() / mean;
    assert!((deviation - 1.0 / 1.5f64.sqrt()).abs() < 0.03, "{deviation}");
}

#[test]
fn picks_go_round_and_never_share() {
    let set = fileset("entries=4,size=1,dirwidth=10");
    let next = |set: &Fileset| set.pick(EntryKind::File, Want::Existing, Which::Next);
    assert_eq!(next(&set), Picked::None);
    (0..4).for_each(|file| set.set_existing(EntryKind::File, file, true));
    assert_eq!(next(&set), Picked::Entry(0));
    assert_eq!(next(&set), Picked::Entry(1));
    set.release(EntryKind::File, 0, Release { opens: 1, ..Release::default() });
    let number = |number| set.pick(EntryKind::File, Want::Existing, Which::Number(number));
    assert_eq!(number(1), Picked::Entry(2), "the next one that is not busy");
    assert_eq!(
        (next(&set), next(&set), next(&set)),
        (Picked::Entry(3), Picked::Entry(0), Picked::Busy)
    );
    set.release(EntryKind::File, 3, Release { exists: Some(false), ..Release::default() });
    let missing = set.pick(EntryKind::File, Want::Missing, Which::Next);
    assert_eq!((missing, set.opens(0)), (Picked::Entry(3), 1));
    let (one, other) = (Rotor::default(), Rotor::default());
    (0..4).for_each(|file| set.set_existing(EntryKind::File, file, true));
    for expected in [0, 1] {
        for rotor in [&one, &other] {
            let picked = set.pick(EntryKind::File, Want::Existing, Which::NextOf(rotor));
            assert_eq!(picked, Picked::Entry(expected));
            set.release(EntryKind::File, expected, Release::default());
        }
    }
}

#[test]
fn the_share_that_is_there_beforehand_is_what_was_asked_for() {
    let set = fileset("entries=10000,size=1,dirwidth=100,prealloc=80");
    let drawn = set.draw_existing(EntryKind::File, &mut Prng::new(1));
    let share = drawn.iter().filter(|(_, there)| *there).count() as f64 / 10_000.0;
    assert!((share - 0.8).abs() < 0.02, "{share}");
    assert_ne!(drawn[..5].iter().map(|(file, _)| *file).collect::<Vec<_>>(), vec![0, 1, 2, 3, 4]);
}
