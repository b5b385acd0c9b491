//! Seeks: several threads read blocks at random places of the file, and write one in ten back.
//!
//! The places are drawn before, and the seekers take the next one as they come; each has its own open
//! file. Beside them, whoever drew the places makes the file durable and closes it once, right after
//! the start, as bonnie++'s first thread does. The time runs from the first seeker's start to the last
//! one's end, with the `fsync` that each ends with: where the file is in memory, that is most of it.
//!
//! bonnie++ hands the places out through a pipe, and waits three seconds before, for the threads to
//! come up. Here they are counted off an atomic number, and start [together](crate::gate).

use super::bulk::{Rewriter, Why, close};
use super::figures::{Figure, Phase};
use super::glibc_rand::GlibcRand;
use super::plan::{File, UPDATE_ONE_IN};
use super::{BonnieError, Job};
use crate::crew::{Calls, Crew, Place};
use crate::gate::{Gate, start_together};
use rt::OpenHow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use stdx::{Instant, Offset};

/// The first seeker's number among the sources of content; those below are the bulk phases'.
const FIRST_WORKER: u64 = 16;

/// What the seekers share.
struct Places {
    all: Vec<u32>,
    next: AtomicUsize,
}

/// What one seeker reports.
struct Report {
    begun: Instant,
    ended: Instant,
    processor: Duration,
    latency_max: Duration,
}

/// Draws the places, and has the seekers go there.
pub(super) async fn run(
    crew: &dyn Crew,
    job: &Job,
    plan: &File,
    random: &mut GlibcRand,
) -> Result<Figure, BonnieError> {
    let all = (0..plan.seeks).map(|_| random.next()).collect();
    let places = Arc::new(Places { all, next: AtomicUsize::new(0) });
    let (for_workers, plan_of_workers) = (job.clone(), plan.clone());
    // One more than there are seekers: who makes the file durable at the start.
    let count = plan.seekers as usize + 1;
    (job.listener)(Phase::Seeks, true);
    let (_, reports) = start_together(
        crew,
        "bonnie seeker",
        count,
        Calls::Blocking,
        move |number, place, gate| {
            let (job, plan) = (for_workers.clone(), plan_of_workers.clone());
            let places = Arc::clone(&places);
            async move {
                let done = match number + 1 == count {
                    true => settle(&place, &job, &gate).await.map(|()| None),
                    false => seek(&place, &job, &plan, number, &gate, &places).await,
                };
                done.map_err(|why| why.in_phase(Phase::Seeks))
            }
        },
    )
    .await?;
    let mut figure = Figure { amount: u64::from(plan.seeks), ..Figure::default() };
    let (mut begun, mut ended) = (None::<Instant>, Instant::START);
    for report in reports.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        begun = Some(begun.map_or(report.begun, |begun| begun.min(report.begun)));
        ended = ended.max(report.ended);
        figure.processor += report.processor;
        figure.latency_max = figure.latency_max.max(report.latency_max);
    }
    figure.elapsed = begun.map_or(Duration::ZERO, |begun| ended.since(begun));
    (job.listener)(Phase::Seeks, false);
    Ok(figure)
}

async fn settle(place: &Place, job: &Job, gate: &Gate) -> Result<(), Why> {
    let file = place.tree.open(&job.path(), OpenHow::write()).await?;
    if gate.pass().await {
        close(file).await?;
    }
    Ok(())
}

async fn seek(
    place: &Place,
    job: &Job,
    plan: &File,
    number: usize,
    gate: &Gate,
    places: &Places,
) -> Result<Option<Report>, Why> {
    let file = place.tree.open(&job.path(), OpenHow::write()).await?;
    let worker = FIRST_WORKER + number as u64;
    let mut rewriter = Rewriter::new(&job.content, worker, plan.chunk);
    if !gate.pass().await {
        return Ok(None);
    }
    let rt = &place.rt;
    let (begun, processor) = (rt.now(), rt.processor_time());
    let mut latency_max = Duration::ZERO;
    while let Some(drawn) = places.all.get(places.next.fetch_add(1, Ordering::Relaxed)) {
        job.go_on().map_err(Why::Ended)?;
        let start = rt.now();
        let block = u64::from(*drawn) % plan.chunks();
        let at = Offset(block * plan.chunk.bytes());
        let data = rewriter.read(&file, at, plan.chunk).await?;
        if drawn.is_multiple_of(UPDATE_ONE_IN) {
            let change = (block % plan.chunk.bytes()) as usize;
            rewriter.write_changed(&file, at, data, change, -1).await?;
            if job.plan.durable {
                file.sync().await?;
            }
        }
        latency_max = latency_max.max(rt.now().since(start));
    }
    close(file).await?;
    let processor = rt.processor_time().saturating_sub(processor);
    Ok(Some(Report { begun, ended: rt.now(), processor, latency_max }))
}
