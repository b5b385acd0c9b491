//! What could break: an option that is listed and not known (or the other way round), a default that is
//! not fio's, values of three directions mixed up.

use super::*;
use crate::error::Place;
use crate::spec::{Distribution, Engine, Extent, Mode};
use crate::value::Machine;

const MACHINE: Machine = Machine { page_bytes: 4096, processors: 2, memory_mib: 1024 };

fn set(spec: &mut Spec, name: &str, value: &str) -> Result<(), JobError> {
    let written = Written {
        name: name.into(),
        value: Some(value.into()),
        place: Place { file: "j.fio".into(), line: 3, column: 1 },
        unset: None,
    };
    apply(spec, &written, Reading { kb_base: 1024, machine: &MACHINE })
}

#[test]
fn every_supported_name_is_known_and_no_refused_one() {
    for name in names::SUPPORTED {
        // Some value is wrong for it, but the name is not.
        let outcome = set(&mut Spec::default(), name, "\u{1}");
        assert!(
            !matches!(
                outcome,
                Err(JobError::UnknownOption { .. } | JobError::RefusedOption { .. })
            ),
            "{name}"
        );
    }
    for name in ["prio", "cpus_allowed", "read_iolog", "cgroup"] {
        let error = set(&mut Spec::default(), name, "1").expect_err(name).to_string();
        assert!(
            error.starts_with(&format!("j.fio:3:1: option {name} is not supported: ")),
            "{error}"
        );
    }
}

#[test]
fn a_misspelt_option_and_an_engine_of_others_are_refused_by_name() {
    let refused = |name, value| set(&mut Spec::default(), name, value).expect_err(name).to_string();
    assert_eq!(refused("iodpeth", "4"), "j.fio:3:1: unknown option iodpeth; did you mean iodepth?");
    assert!(refused("ioengine", "rdma").starts_with("j.fio:3:1: ioengine=rdma is not supported"));
    assert!(refused("file_append", "1").contains("name a new file"));
    assert_eq!(refused("bs", "4q"), "j.fio:3:1: bs=4q: write a size such as 4k or 1g");
}

#[test]
fn values_of_directions_fill_up_as_fio_fills_them() {
    let mut spec = Spec::default();
    set(&mut spec, "bs", "8k,16k").expect("well formed");
    assert_eq!(spec.block.map(|(low, _)| low >> 10), [8, 16, 16]);
    set(&mut spec, "bs", ",32k").expect("well formed");
    assert_eq!(spec.block.map(|(low, _)| low >> 10), [8, 32, 32]);
    set(&mut spec, "rate", "1m,500k").expect("well formed");
    assert_eq!(spec.rate, [1 << 20, 500 << 10, 500 << 10]);
    assert!(set(&mut spec, "bs", "1,2,3,4").is_err());
}

#[test]
fn modes_modifiers_splits_and_distributions_are_read() {
    let mut spec = Spec::default();
    set(&mut spec, "rw", "read:-8k").expect("well formed");
    assert_eq!((spec.sequence_add, spec.mode.random), (-8192, false));
    set(&mut spec, "readwrite", "randrw:8").expect("well formed");
    let both = Mode { read: true, write: true, random: true, ..Mode::default() };
    assert_eq!((spec.mode, spec.sequence_nr), (both, 8));
    set(&mut spec, "bssplit", "4k/50:64k/:32k/40").expect("well formed");
    assert_eq!(spec.block_split[0], [(4096, 50), (65536, 10), (32768, 40)]);
    set(&mut spec, "random_distribution", "zoned:50/5:30/15:20/").expect("well formed");
    let zones = vec![(50, 5), (30, 15), (20, 80)];
    assert_eq!(spec.distribution, Distribution::Zoned([zones.clone(), zones.clone(), zones]));
    set(&mut spec, "size", "50%").expect("well formed");
    assert_eq!(spec.size, Extent::Percent(50));
    set(&mut spec, "ioengine", "libaio").expect("well formed");
    assert_eq!((spec.engine, spec.engine_name), (Engine::Queued, "libaio"));
    for (name, bad) in [
        ("rw", "randreadwrite"),
        ("bssplit", "4k/60:8k/60"),
        ("random_distribution", "zipf:1.0"),
        ("random_distribution", "zoned:50/50"),
        ("iodepth", "0"),
        ("percentage_random", "101"),
        ("percentile_list", "0:101"),
    ] {
        assert!(set(&mut spec, name, bad).is_err(), "{name}={bad}");
    }
}
