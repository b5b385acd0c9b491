//! What could break: a parameter of another kind that is let through, a default that is not the documented one.

use super::super::error::Path;
use super::*;

fn read(kind: &str, text: &str) -> Result<Workload, String> {
    let reader =
        Reader::new(text.parse().expect("a table"), Path::default(), format!("workload '{kind}'"));
    Workload::read(kind, kind, reader, &BTreeMap::new()).map_err(|fault| fault.problem.to_string())
}

#[test]
fn every_kind_can_do_without_parameters() {
    for kind in KINDS {
        let workload = read(kind, "").expect(kind);
        assert_eq!(workload.kind_word(), kind);
        assert_eq!(workload.working_set, WorkingSet::Whole);
    }
}

#[test]
fn random_is_aligned_to_its_blocks_unless_it_says_otherwise() {
    let align = |text| match read("random", text).expect(text).kind {
        Kind::Random(random) => random.align,
        other => panic!("{other:?}"),
    };
    assert_eq!(align("block_size = \"32k\""), ByteCount::kib(32));
    assert_eq!(align("block_size = \"32k\"\nalign = 512"), SECTOR);
}

#[test]
fn a_parameter_of_another_kind_is_refused_by_name() {
    for (kind, text, problem) in [
        (
            "stream",
            "read_share = 0.5",
            "unknown key 'read_share' in workload 'stream'; there are: working_set, op, streams, \
             block_size, queue_depth, rate, rate_iops, only, except",
        ),
        (
            "random",
            "queue_dept = 1",
            "unknown key 'queue_dept' in workload 'random'; did you mean 'queue_depth'?",
        ),
        (
            "random",
            "read_share = 67",
            "'read_share' in workload 'random' is 67; it must be a share from 0 (writes only) to 1 \
             (reads only)",
        ),
        (
            "random",
            "block_size = 1000",
            "'block_size' in workload 'random' is \"1000\"; it must be a multiple of 512 bytes, the \
             smallest sector",
        ),
        (
            "slob",
            "readers = 0",
            "workload 'slob': there are neither readers nor writers; give one of them a number \
             above 0",
        ),
        (
            "probe",
            "time = \"3s\"\ntotal = \"1g\"",
            "workload 'probe': it has both 'total' and 'time'; leave out one of them",
        ),
        (
            "rebuild",
            "sampled = { per_stratum = 1 }",
            "'per_stratum' in 'sampled' of workload 'rebuild' is 1; it must be a whole number from \
             2 to 4096",
        ),
        (
            "rebalance",
            "change = \"shrink\"",
            "'change' in workload 'rebalance' is \"shrink\"; it must be \"add\" or \"drop\"",
        ),
        (
            "rebalance",
            "power = 2000",
            "'power' in workload 'rebalance' is 2000; it must be a whole number from 1 to 1024",
        ),
        (
            "check",
            "working_set = 0.5",
            "workload 'check': it is an operation on whole members, and has a working_set; leave that \
             out; `sampled` shortens an operation",
        ),
        (
            "random",
            "block_size = \"1t\"",
            "'block_size' in workload 'random' is \"1t\"; it must be 64 MiB at the most",
        ),
        (
            "stream",
            "working_set = 1.5",
            "'working_set' in workload 'stream' is 1.5; it must be a share above 0 and up to 1, or a \
             size such as \"4g\"",
        ),
    ] {
        assert_eq!(read(kind, text), Err(problem.to_owned()));
    }
}

#[test]
fn a_working_set_is_never_larger_than_the_volume() {
    let volume = ByteCount::gib(2);
    assert_eq!(WorkingSet::Whole.of(volume), volume);
    assert_eq!(WorkingSet::Share(0.5).of(volume), ByteCount::gib(1));
    assert_eq!(WorkingSet::Size(ByteCount::gib(4)).of(volume), volume);
    assert!(WorkingSet::Share(0.333).of(volume).is_multiple_of(SECTOR));
}
