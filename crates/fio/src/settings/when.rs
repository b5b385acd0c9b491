//! Options that say in which order jobs run, for how long and how fast, and when they end.

use super::given::{Trouble, Value};
use crate::spec::{ExitWhat, LatencyTarget, RateProcess, Spec, Steady, SteadyFigure};
use crate::value::{TimeUnit, Wanted, fraction};
use std::time::Duration;

/// Clones of one job at the most, as many as a load has workers.
const CLONES_MAX: u64 = workload::crew::WORKERS_MAX as u64;

/// fio's defaults of `steadystate`'s companions.
const STEADY_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn apply(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    let seconds = || value.time(TimeUnit::Seconds);
    match name {
        "numjobs" => {
            spec.numjobs = value.number_in(1, CLONES_MAX, "a number of clones, 1 to 4096")?;
        }
        "stonewall" => spec.stonewall = value.flag()?,
        "new_group" => spec.new_group = value.flag()?,
        "group_reporting" => spec.group_reporting = value.flag()?,
        // Workers are threads, whatever the job says: nothing that is measured tells them apart.
        "thread" => {
            value.flag()?;
        }
        "wait_for" => spec.wait_for = Some(value.text()?.to_owned()),
        "exitall" => spec.exit_all = value.flag()?,
        "exitall_on_error" => spec.exit_all_on_error = value.flag()?,
        "exit_what" => {
            let words = [
                ("group", ExitWhat::Group),
                ("stonewall", ExitWhat::Stonewall),
                ("all", ExitWhat::All),
            ];
            spec.exit_what = value.one_of(&words, "group, stonewall or all")?;
        }
        "startdelay" => {
            let text = value.text()?;
            let (low, high) = text.split_once('-').unwrap_or((text, text));
            let read = |text| value.reading.time(text, TimeUnit::Seconds);
            let (low, high) = (read(low)?, read(high)?);
            spec.start_delay = (low.min(high), low.max(high));
        }
        "runtime" => spec.runtime = seconds()?,
        "time_based" => spec.time_based = value.flag()?,
        "ramp_time" => spec.ramp = seconds()?,
        "loops" => spec.loops = value.number()?.max(1),
        "flow" => spec.flow = value.number_in(1, 1000, "a weight, 1 to 1000")?,
        "flow_id" => spec.flow_id = value.number()?,
        "flow_sleep" => spec.flow_sleep = value.time(TimeUnit::Microseconds)?,
        "steadystate" => steady(spec, value)?,
        "steadystate_duration" => steady_of(spec).window = seconds()?,
        "steadystate_ramp_time" => steady_of(spec).ramp = seconds()?,
        "steadystate_check_interval" => {
            let interval = seconds()?;
            if interval < STEADY_INTERVAL {
                return Err("an interval of at least 1 s".into());
            }
            steady_of(spec).interval = interval;
        }
        _ => return pace(spec, name, value),
    }
    Ok(())
}

/// Rates, pauses and latencies.
fn pace(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    let micros = || value.time(TimeUnit::Microseconds);
    match name {
        "rate" => value.each(&mut spec.rate, |text| value.reading.size(text))?,
        "rate_min" => value.each(&mut spec.rate_min, |text| value.reading.size(text))?,
        "rate_iops" => value.each(&mut spec.rate_iops, |text| value.reading.number(text))?,
        "rate_iops_min" => {
            value.each(&mut spec.rate_iops_min, |text| value.reading.number(text))?;
        }
        "rate_process" => {
            let words = [("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)];
            spec.rate_process = value.one_of(&words, "linear or poisson")?;
        }
        "rate_cycle" => spec.rate_cycle = value.time(TimeUnit::Milliseconds)?,
        "rate_ignore_thinktime" => spec.rate_ignores_thinking = value.flag()?,
        // Since fio 2 it changes nothing there either.
        "rwmixcycle" => {
            value.number()?;
        }
        "thinktime" => spec.think.time = micros()?,
        "thinktime_spin" => spec.think.spin = micros()?,
        "thinktime_blocks" => spec.think.blocks = Some(value.number()?.max(1)),
        "thinktime_blocks_type" => {
            let words = [("complete", false), ("issue", true)];
            spec.think.by_issue = value.one_of(&words, "complete or issue")?;
        }
        "thinktime_iotime" => spec.think.io_time = value.time(TimeUnit::Seconds)?,
        "max_latency" => {
            let read = |text: &str| value.reading.time(text, TimeUnit::Microseconds);
            value.each(&mut spec.max_latency, read)?;
        }
        "latency_target" => latency_of(spec).target = micros()?,
        "latency_window" => latency_of(spec).window = micros()?,
        "latency_percentile" => {
            let percentile = fraction(value.text()?)?;
            if percentile > 100.0 {
                return Err("a share in per cent, 0 to 100".into());
            }
            latency_of(spec).percentile = percentile;
        }
        "latency_run" => latency_of(spec).go_on = value.flag()?,
        // All but the clock of the runtime are ways to read the same time.
        "clocksource" => {
            value.text()?;
        }
        _ => return Err(Trouble::Unknown),
    }
    Ok(())
}

fn latency_of(spec: &mut Spec) -> &mut LatencyTarget {
    spec.latency.get_or_insert(LatencyTarget {
        target: Duration::ZERO,
        window: Duration::ZERO,
        percentile: 100.0,
        go_on: false,
    })
}

fn steady_of(spec: &mut Spec) -> &mut Steady {
    spec.steady.get_or_insert(Steady {
        figure: SteadyFigure::Iops,
        slope: false,
        limit: 0.0,
        percent: false,
        window: Duration::ZERO,
        ramp: Duration::ZERO,
        interval: STEADY_INTERVAL,
    })
}

/// `iops:10%`, `bw_slope:1000`, …
fn steady(spec: &mut Spec, value: &Value) -> Result<(), Trouble> {
    const WANTED: Wanted = "iops, bw or lat, perhaps with _slope, and a limit, as in iops:5%";
    let (figure, limit) = value.text()?.split_once(':').ok_or(WANTED)?;
    let (figure, slope) = match figure.strip_suffix("_slope") {
        Some(figure) => (figure, true),
        None => (figure, false),
    };
    let figure = match figure {
        "iops" => SteadyFigure::Iops,
        "bw" => SteadyFigure::Bandwidth,
        "lat" => SteadyFigure::Latency,
        _ => return Err(WANTED.into()),
    };
    let (number, percent) = match limit.strip_suffix('%') {
        Some(number) => (fraction(number)?, true),
        None if figure == SteadyFigure::Bandwidth => (value.reading.size(limit)? as f64, false),
        None => (fraction(limit)?, false),
    };
    let steady = steady_of(spec);
    (steady.figure, steady.slope, steady.limit, steady.percent) = (figure, slope, number, percent);
    Ok(())
}
