//! Pitfalls from the outside: each is planted in a simulated machine, a study runs on it, and the cell, the
//! report and `results.json` say so; a clean run says nothing.
//!
//! What could break: a measurement that does not look, evidence of another stretch of time, a pitfall that
//! is found and lost on the way to the report, and above all a warning about an honest run.

use crate::scripted;

use futures_util::FutureExt;
use lab::design::CellSpec;
use lab::measure::{DataSource, DiskSample, DiskView, FlushSample, Volume};
use lab::pitfalls::{FlushFacts, Grid, Link, LinkSpan, Partition, Surroundings};
use lab::report::{TextOptions, html, text};
use lab::results::{Cell, Results};
use lab::run::{NoObserver, run};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use rt::filter::stats::Stats;
use rt::filter::{Delay, Slice, Slowness};
use rt::memory::MemoryDevice;
use rt::{Device, DeviceRef, Geometry, IoFuture, OpKind, Request, Rt, Work, WorkKind};
use scripted::{options, set, study_with};
use sim::Machine;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};
use workload::content::ContentSpec;

const STUDY: &str = r#"
title = "t"
question = "q?"
repeats = 5
[steady]
round = "2s"
[machine]
[layouts.disk]
[[factor]]
name = "layout"
levels = ["disk"]
[[workload]]
name = "mixed"
kind = "random"
read_share = 0.7
queue_depth = 8
"#;

/// A machine with one thing wrong.
#[derive(Clone, Copy)]
struct Planted {
    drive: &'static str,
    link: Option<&'static str>,
    plant: fn(&Rt, &mut Volume),
}

const CLEAN: Planted = Planted { drive: "st3750640as", link: None, plant: |_, _| {} };

struct View(Rc<Stats>);

impl DiskView for View {
    fn name(&self) -> String {
        self.0.name().to_string()
    }
    fn sample(&self) -> DiskSample {
        let counters = self.0.counters();
        let [reads, writes, flushes] =
            [OpKind::Read, OpKind::Write, OpKind::Flush].map(|kind| counters.of_kind(kind));
        DiskSample {
            reads: reads.ios,
            read_bytes: reads.bytes.bytes(),
            writes: writes.ios,
            written_bytes: writes.bytes.bytes(),
            flushes: Some(FlushSample { ios: flushes.ios, time: flushes.latency_sum }),
            busy: counters.busy,
            at_work: std::time::Duration::ZERO,
            reads_from_cache: None,
            unwritten: 0,
            keeps_up: false,
        }
    }
}

/// What an honest target says of a simulated disk.
fn honest() -> Surroundings {
    Surroundings {
        cores: Some(4),
        memory: Some(ByteCount::gib(8)),
        disk_caches: None,
        buffered: Some(false),
        write_back: None,
        content: Some(ContentSpec::default()),
        partitions: vec![partition(ByteCount::mib(1))],
        record: Some(ByteCount::kib(4)),
        ssds: None,
        stripe: None,
        link: None,
        flush: FlushFacts {
            honoured: Some(true),
            volatile_cache: Some(true),
            ..Default::default()
        },
        space: Some((ByteCount::gib(300), ByteCount::gib(500))),
    }
}

fn partition(start: ByteCount) -> Partition {
    let grids = vec![(Grid::PhysicalBlock, ByteCount::kib(4))];
    Partition { name: "disk0p1".to_owned(), start, origin: ByteCount::ZERO, grids }
}

impl Target for Planted {
    fn machine(&self, _: &[CellSpec]) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    fn simulated(&self) -> bool {
        true
    }
    fn jobs_max(&self) -> usize {
        2
    }
    fn check(&self, _: &CellSpec) -> Result<(), TargetError> {
        Ok(())
    }
    fn run(
        &self,
        cell: &CellSpec,
        plan: &RepeatPlan,
        stop: &StopFlag,
    ) -> Result<CellRun, TargetError> {
        let mut machine = Machine::builder(plan.seed).host("opteron-2008").expect("a profile");
        if let Some(link) = self.link {
            machine = machine.link(link).expect("a profile");
        }
        let machine = machine.drives(self.drive, 1).expect("a profile").build();
        let rt = machine.rt();
        let stats = Stats::new(Rc::clone(&machine.devices()[0]), &rt);
        let mut volume = Volume {
            device: Rc::clone(&stats) as DeviceRef,
            disks: vec![Rc::new(View(stats))],
            unwritten: None,
            operations: None,
            data: DataSource::words(Prng::for_part(plan.seed, "data")),
            surroundings: honest(),
            host: None,
        };
        (self.plant)(&rt, &mut volume);
        let (workload, plan, stop) = (cell.workload.clone(), plan.clone(), stop.clone());
        let measured =
            async move { lab::measure::block::block(rt, volume, &workload, &plan, &stop).await };
        let measured = machine.run(measured.boxed_local()).expect("the machine goes on");
        Ok(measured.expect("the load runs"))
    }
}

fn ran(planted: Planted, settings: &[&str]) -> Results {
    let study = study_with(STUDY, &set(settings));
    run(&study, &planted, &options(2, &[]), &NoObserver).expect("it runs")
}

fn ids(cell: &Cell) -> Vec<&str> {
    cell.pitfalls.iter().map(|pitfall| pitfall.id.as_str()).collect()
}

/// The cell has this pitfall and no other, and every form of the results tells it with its mend.
#[track_caller]
fn finds(id: &str, planted: Planted, settings: &[&str]) {
    let results = ran(planted, settings);
    let cell = &results.cells[0];
    assert_eq!(ids(cell), [id], "{:?}", cell.warnings);
    let (found, page) = (&cell.pitfalls[0], html(&results));
    assert_eq!(cell.warnings, [found.warning()]);
    let wide = TextOptions { width: 400, colour: false, full: false };
    let terminal = text(&results, wide).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(terminal.contains(&found.text) && terminal.contains(&found.mend), "{terminal}");
    assert!(terminal.contains("Before you believe it"), "{terminal}");
    assert!(page.contains("Before you believe it") && page.contains(&format!("<td>{id}</td>")));
    let json = lab::output::to_json(&results);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["cells"][0]["pitfalls"][0]["id"], id);
}

#[test]
fn an_honest_run_has_no_pitfalls_and_no_warnings() {
    for settings in [
        &[][..],
        &["workload.mixed.read_share=0"],
        &["workload.mixed.read_share=1"],
        &["workload.mixed.block_size=64k"],
    ] {
        let results = ran(CLEAN, settings);
        let cell = &results.cells[0];
        assert!(cell.warnings.is_empty() && cell.pitfalls.is_empty(), "{:?}", cell.warnings);
        assert!(!html(&results).contains("Before you believe it"));
    }
}

#[test]
fn reads_from_memory_are_cached() {
    let plant = |rt: &Rt, volume: &mut Volume| {
        let memory = MemoryDevice::new("cache", ByteCount::gib(1));
        let latency = Duration::from_millis(1);
        volume.device = Delay::new(memory, rt, Slowness { latency, bytes_per_second: None });
    };
    let planted = Planted { plant, ..CLEAN };
    finds("cached", planted, &["workload.mixed.read_share=1"]);
    finds("cached-writes", planted, &["workload.mixed.read_share=0"]);
}

/// Reads and writes whole records, whatever is asked of it.
struct Records {
    below: DeviceRef,
    record: ByteCount,
}

impl Device for Records {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }
    fn name(&self) -> Arc<str> {
        self.below.name()
    }
    fn begin(&self, request: Request) -> IoFuture {
        let (below, record) = (Rc::clone(&self.below), self.record);
        if !matches!(request.kind(), OpKind::Read | OpKind::Write) {
            return below.submit(request);
        }
        let at = request.offset;
        IoFuture::new(async move {
            let start = at.round_down(record);
            let whole = below.submit(Request::read(start, record)).await?;
            if request.kind() == OpKind::Write {
                return below.submit(Request::write(start, whole)).await;
            }
            let from = (at - start).as_usize();
            Ok(whole.slice(from..from + request.len().as_usize()))
        })
    }
}

#[test]
fn records_larger_than_the_io_are_found() {
    let plant = |_: &Rt, volume: &mut Volume| {
        let record = ByteCount::kib(128);
        volume.device = Rc::new(Records { below: Rc::clone(&volume.device), record });
        volume.surroundings.record = Some(record);
    };
    finds("record-size", Planted { plant, ..CLEAN }, &["workload.mixed.working_set=64g"]);
}

#[test]
fn a_partition_at_sector_63_is_misaligned() {
    let plant = |_: &Rt, volume: &mut Volume| {
        let start = ByteCount(63 * 512);
        let len = ByteCount::gib(100);
        volume.device = Slice::new(Rc::clone(&volume.device), Offset(start.bytes()), len);
        volume.surroundings.partitions = vec![partition(start)];
    };
    finds("misaligned", Planted { plant, ..CLEAN }, &[]);
}

#[test]
fn a_write_cache_that_ignores_flushes_is_found() {
    let plant = |_: &Rt, volume: &mut Volume| volume.surroundings.flush.honoured = Some(false);
    finds("flush-ignored", Planted { plant, ..CLEAN }, &[]);
}

#[test]
fn few_repeats_are_found() {
    finds("few-repeats", CLEAN, &["repeats=1"]);
}

/// Takes longer and longer.
struct Slowing {
    below: DeviceRef,
    rt: Rt,
}

impl Device for Slowing {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }
    fn name(&self) -> Arc<str> {
        self.below.name()
    }
    fn begin(&self, request: Request) -> IoFuture {
        let (below, rt) = (Rc::clone(&self.below), self.rt.clone());
        IoFuture::new(async move {
            rt.sleep(rt.now().since(stdx::Instant::START) / 100).await;
            below.submit(request).await
        })
    }
}

#[test]
fn a_load_that_never_settles_is_not_steady() {
    let plant = |rt: &Rt, volume: &mut Volume| {
        volume.device = Rc::new(Slowing { below: Rc::clone(&volume.device), rt: rt.clone() });
    };
    finds("not-steady", Planted { plant, ..CLEAN }, &["steady.rounds_max=6"]);
}

#[test]
fn a_full_link_is_found() {
    let plant = |_: &Rt, volume: &mut Volume| {
        let Ok(sim::Profile::Link(link)) = sim::profile::load("iscsi-1g-1500") else {
            panic!("a link");
        };
        volume.surroundings.link = Some(Link {
            limit_mb_s: link.rate_mb_s.value,
            full_duplex: link.full_duplex.value,
            span: LinkSpan::AllDisks,
        });
    };
    let planted = Planted { drive: "870-evo", link: Some("iscsi-1g-1500"), plant };
    let large = ["workload.mixed.block_size=1m", "workload.mixed.read_share=1"];
    finds("saturated-link", planted, &large);
    // The same disk with smaller I/Os does not fill it.
    let results = ran(Planted { drive: "st3750640as", ..planted }, &[]);
    assert_eq!(ids(&results.cells[0]), [""; 0]);
}

/// Costs the host a millisecond and a half of work for each I/O.
struct Costly {
    below: DeviceRef,
    rt: Rt,
}

impl Device for Costly {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }
    fn name(&self) -> Arc<str> {
        self.below.name()
    }
    fn begin(&self, request: Request) -> IoFuture {
        let (below, rt) = (Rc::clone(&self.below), self.rt.clone());
        IoFuture::new(async move {
            rt.charge(Work::new(WorkKind::Copy, ByteCount::mib(2))).await;
            below.submit(request).await
        })
    }
}

#[test]
fn a_full_processor_is_found() {
    let plant = |rt: &Rt, volume: &mut Volume| {
        volume.device = Rc::new(Costly { below: Rc::clone(&volume.device), rt: rt.clone() });
    };
    let deep = ["workload.mixed.queue_depth=32"];
    finds("saturated-processor", Planted { drive: "870-evo", link: None, plant }, &deep);
}

#[test]
fn compressible_data_are_found() {
    let plant = |_: &Rt, volume: &mut Volume| {
        let content = ContentSpec { compressible: 0.5, ..ContentSpec::default() };
        volume.surroundings.content = Some(content);
    };
    finds("compressible", Planted { plant, ..CLEAN }, &[]);
    let reads = ran(Planted { plant, ..CLEAN }, &["workload.mixed.read_share=1"]);
    assert_eq!(ids(&reads.cells[0]), [""; 0], "nothing is written");
}

#[test]
fn a_file_smaller_than_memory_is_found_where_it_is_read_through_memory() {
    let plant = |_: &Rt, volume: &mut Volume| volume.surroundings.buffered = Some(true);
    let planted = Planted { plant, ..CLEAN };
    finds("smaller-than-memory", planted, &["workload.mixed.working_set=1g"]);
    assert_eq!(ids(&ran(planted, &[]).cells[0]), [""; 0], "750 GB don't fit");
}

#[test]
fn a_volume_nearly_full_is_found() {
    let plant = |_: &Rt, volume: &mut Volume| {
        volume.surroundings.space = Some((ByteCount::gib(7), ByteCount::gib(500)));
    };
    finds("nearly-full", Planted { plant, ..CLEAN }, &[]);
}
