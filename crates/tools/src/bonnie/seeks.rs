//! Seeks: several threads read blocks at random places of the file, and write one in ten back.
//!
//! The places are drawn before and handed out as [tickets](workload::tickets), on a host through a pipe as
//! bonnie++ does; each seeker takes the next one when it is free, and has an open file of its own. Who
//! hands them out then makes the file durable and closes it, as bonnie++'s first thread does. The time
//! runs from the first seeker's first ticket to the last one's end, with the `fsync` that each ends with:
//! where the file is in memory, tickets and `fsync` are most of it.
//!
//! bonnie++ waits three seconds before, for the threads to come up. Here they start
//! [together](workload::gate).

use super::bulk::{Rewriter, Why, close};
use super::figures::{Figure, Phase};
use super::glibc_rand::GlibcRand;
use super::job::{BonnieError, Heard, Job};
use super::plan::{File, UPDATE_ONE_IN};
use rt::{FileRef, OpenHow};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Offset};
use workload::crew::{Calls, Crew, Place};
use workload::gate::{Gate, start_together};
use workload::tickets::Tickets;

/// The first seeker's number among the sources of content; those below are the bulk phases'.
const FIRST_WORKER: u64 = 16;

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
    let tickets = crew.tickets(all, plan.seekers as usize);
    let (for_workers, plan_of_workers) = (job.clone(), plan.clone());
    // One more than there are seekers: who hands out the tickets.
    let count = plan.seekers as usize + 1;
    (job.listener)(Heard::Begins(Phase::Seeks));
    let (_, reports) = start_together(
        crew,
        "bonnie seeker",
        count,
        Calls::Blocking,
        move |number, place, gate| {
            let (job, plan) = (for_workers.clone(), plan_of_workers.clone());
            let tickets = Arc::clone(&tickets);
            async move {
                let done = match number + 1 == count {
                    true => hand_out(&place, &job, &gate, &*tickets).await.map(|()| None),
                    false => seek(&place, &job, &plan, number, &gate, &*tickets).await,
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
    (job.listener)(Heard::Ends(Phase::Seeks, figure));
    Ok(figure)
}

async fn hand_out(place: &Place, job: &Job, gate: &Gate, tickets: &dyn Tickets) -> Result<(), Why> {
    let file = place.tree.open(&job.path(), OpenHow::write()).await?;
    if gate.pass().await {
        tickets.offer();
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
    tickets: &dyn Tickets,
) -> Result<Option<Report>, Why> {
    let file = place.tree.open(&job.path(), OpenHow::write()).await?;
    let worker = FIRST_WORKER + number as u64;
    let mut rewriter = Rewriter::new(&job.content, worker, plan.chunk);
    if !gate.pass().await {
        return Ok(None);
    }
    let rt = &place.rt;
    let mut next = tickets.take();
    let (begun, processor) = (rt.now(), rt.processor_time());
    let mut latency_max = Duration::ZERO;
    while let Some(drawn) = next {
        let start = rt.now();
        if let Err(why) = go_there(job, plan, &file, &mut rewriter, drawn).await {
            // Who hands the tickets out must not wait for takers.
            while tickets.take().is_some() {}
            return Err(why);
        }
        latency_max = latency_max.max(rt.now().since(start));
        next = tickets.take();
    }
    close(file).await?;
    let processor = rt.processor_time().saturating_sub(processor);
    Ok(Some(Report { begun, ended: rt.now(), processor, latency_max }))
}

/// Reads the block that was drawn, and now and then writes it back.
async fn go_there(
    job: &Job,
    plan: &File,
    file: &FileRef,
    rewriter: &mut Rewriter,
    drawn: u32,
) -> Result<(), Why> {
    job.go_on().map_err(Why::Ended)?;
    let block = u64::from(drawn) % plan.chunks();
    let at = Offset(block * plan.chunk.bytes());
    let data = rewriter.read(file, at, plan.chunk).await?;
    if drawn.is_multiple_of(UPDATE_ONE_IN) {
        let change = (block % plan.chunk.bytes()) as usize;
        rewriter.write_changed(file, at, data, change, -1).await?;
        if job.plan.durable {
            file.sync().await?;
        }
    }
    Ok(())
}
