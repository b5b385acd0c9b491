//! What a job counts by windows of time: bandwidth and I/Os a second, and logs in fio's format.
//!
//! A line of a log is `time (ms), value, direction (0 read, 1 write, 2 trim), block size (B)`, with the
//! place in the file where `log_offset` asks for it, and a priority, which is always 0. Values are KiB/s,
//! I/Os a second, or nanoseconds. Without `log_avg_msec` each I/O is a line, else each window, which has I/Os of many places
//! and, it may be, sizes: block size and place are 0 there, as fio 3.33 writes them.

use super::figures::{Direction, Each, Samples, Summary};
use super::spec::Spec;
use std::fmt::Write as _;
use std::time::Duration;
use stdx::Instant;

/// Bytes of one log at the most; a longer one ends there. It is some 10 million lines.
const LOG_BYTES_MAX: usize = 256 << 20;

/// How much earlier than its end a window may be closed, as in fio.
const SLACK: Duration = Duration::from_millis(1);

/// One log as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) text: String,
}

impl Log {
    fn line(&mut self, ms: u64, value: u64, at: usize, block: u64, offset: Option<u64>) {
        if self.text.len() >= LOG_BYTES_MAX {
            return;
        }
        // Writing to a string does not fail.
        let _ = match offset {
            Some(offset) => writeln!(self.text, "{ms}, {value}, {at}, {block}, {offset}, 0"),
            None => writeln!(self.text, "{ms}, {value}, {at}, {block}, 0"),
        };
    }
}

/// Rates of windows.
struct Windows {
    every: Duration,
    began: Instant,
    counted: Each<u64>,
    samples: Each<Samples>,
}

impl Windows {
    fn new(every: Duration, epoch: Instant) -> Windows {
        Windows { every, began: epoch, counted: [0; 3], samples: [Samples::default(); 3] }
    }

    /// Closes the window where it is time; gives each direction's count a second.
    fn close(&mut self, now: Instant, done: Each<u64>, scale: f64) -> Each<Option<u64>> {
        let spent = now.since(self.began);
        let mut rates = [None; 3];
        if spent + SLACK < self.every || spent.is_zero() {
            return rates;
        }
        for at in 0..rates.len() {
            let count = done[at].saturating_sub(self.counted[at]);
            if count == 0 {
                continue;
            }
            let rate = (count as f64 / spent.as_secs_f64() / scale) as u64;
            self.samples[at].add(rate);
            self.counted[at] = done[at];
            rates[at] = Some(rate);
        }
        self.began = now;
        rates
    }
}

/// Latencies of one kind that are averaged for a log.
#[derive(Default)]
struct Averaged {
    log: Log,
    samples: Each<Samples>,
}

/// See the [module](self).
pub(super) struct Series {
    epoch: Instant,
    bandwidth: Windows,
    iops: Windows,
    keep_bandwidth: bool,
    bandwidth_log: Option<Log>,
    iops_log: Option<Log>,
    /// slat, clat, lat.
    latency_logs: Option<[Averaged; 3]>,
    average: Duration,
    average_from: Instant,
    maximum: bool,
    offset: bool,
}

/// The latencies of one I/O in nanoseconds, where they are known.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub(super) slat: Option<u64>,
    pub(super) clat: u64,
    pub(super) lat: u64,
}

impl Series {
    pub(super) fn new(spec: &Spec, epoch: Instant) -> Series {
        let average = spec.logs.average;
        let window = |kept: Duration, log: bool| match (log, average.is_zero()) {
            (true, false) => kept.min(average),
            _ => kept,
        };
        let logs = &spec.logs;
        let bandwidth = window(spec.kept.bw_window, logs.bandwidth.is_some());
        let iops = window(spec.kept.iops_window, logs.iops.is_some());
        Series {
            epoch,
            bandwidth: Windows::new(bandwidth, epoch),
            iops: Windows::new(iops, epoch),
            keep_bandwidth: spec.kept.bw,
            bandwidth_log: logs.bandwidth.is_some().then(Log::default),
            iops_log: logs.iops.is_some().then(Log::default),
            latency_logs: logs.latency.is_some().then(Default::default),
            average,
            average_from: epoch,
            maximum: logs.maximum,
            offset: logs.offset,
        }
    }

    /// Whether single I/Os are looked at.
    pub(super) fn wants_each(&self) -> bool {
        let each = self.average.is_zero();
        self.latency_logs.is_some()
            || each && (self.bandwidth_log.is_some() || self.iops_log.is_some())
    }

    /// An I/O was answered.
    pub(super) fn answered(
        &mut self,
        direction: Direction,
        len: u64,
        offset: u64,
        took: Took,
        now: Instant,
    ) {
        let ms = self.ms(now);
        let at = direction.index();
        let place = self.offset.then_some(offset);
        let each = self.average.is_zero();
        if let Some(logs) = &mut self.latency_logs {
            let values = [took.slat, Some(took.clat), Some(took.lat)];
            for (log, value) in logs.iter_mut().zip(values) {
                let Some(value) = value else { continue };
                if each {
                    log.log.line(ms, value, at, len, place);
                } else if let Some(samples) = log.samples.get_mut(at) {
                    samples.add(value);
                }
            }
        }
        if !each {
            return;
        }
        if let Some(log) = &mut self.bandwidth_log {
            let ns = took.clat.max(1);
            let rate = (u128::from(len) * 1_000_000_000 / u128::from(ns) / 1024) as u64;
            log.line(ms, rate, at, len, place);
        }
        if let Some(log) = &mut self.iops_log {
            log.line(ms, 1, at, len, place);
        }
    }

    /// Closes the windows whose time has come. `done`: bytes and I/Os so far.
    pub(super) fn tick(&mut self, now: Instant, done: Each<(u64, u64)>) {
        let ms = self.ms(now);
        let windowed = !self.average.is_zero();
        let place = self.offset.then_some(0);
        if self.keep_bandwidth || self.bandwidth_log.is_some() {
            let rates = self.bandwidth.close(now, done.map(|(bytes, _)| bytes), 1024.0);
            if windowed && let Some(log) = &mut self.bandwidth_log {
                log_rates(log, rates, ms, place);
            }
        }
        if self.keep_bandwidth || self.iops_log.is_some() {
            let rates = self.iops.close(now, done.map(|(_, ios)| ios), 1.0);
            if windowed && let Some(log) = &mut self.iops_log {
                log_rates(log, rates, ms, place);
            }
        }
        if windowed && now.since(self.average_from) + SLACK >= self.average {
            self.average_from = now;
            self.close_latencies(ms);
        }
    }

    fn close_latencies(&mut self, ms: u64) {
        let place = self.offset.then_some(0);
        for averaged in self.latency_logs.iter_mut().flatten() {
            for (at, samples) in averaged.samples.iter_mut().enumerate() {
                let summary = std::mem::take(samples).summary();
                if summary.count > 0 {
                    let value = if self.maximum { summary.max } else { summary.mean as u64 };
                    averaged.log.line(ms, value, at, 0, place);
                }
            }
        }
    }

    /// When the next window closes.
    pub(super) fn next_tick(&self) -> Instant {
        let windows = [&self.bandwidth, &self.iops];
        let ends = windows.map(|window| window.began + window.every);
        let first = ends.into_iter().min().unwrap_or(Instant::NEVER);
        match self.latency_logs.is_some() && !self.average.is_zero() {
            true => first.min(self.average_from + self.average),
            false => first,
        }
    }

    /// From here on the counts begin again (the end of `ramp_time`).
    pub(super) fn restart(&mut self, now: Instant) {
        self.bandwidth = Windows::new(self.bandwidth.every, now);
        self.iops = Windows::new(self.iops.every, now);
    }

    /// Bandwidth and I/Os a second of the windows, by direction.
    pub(super) fn summaries(&self) -> Each<(Summary, Summary)> {
        std::array::from_fn(|at| {
            let bandwidth = match self.keep_bandwidth {
                true => self.bandwidth.samples[at].summary(),
                false => Summary::default(),
            };
            let iops = match self.keep_bandwidth {
                true => self.iops.samples[at].summary(),
                false => Summary::default(),
            };
            (bandwidth, iops)
        })
    }

    /// The logs, by the ends of their names.
    pub(super) fn into_logs(mut self, now: Instant) -> Vec<(&'static str, Log)> {
        let ms = self.ms(now);
        self.close_latencies(ms);
        let mut logs = Vec::new();
        logs.extend(self.bandwidth_log.map(|log| ("bw", log)));
        logs.extend(self.iops_log.map(|log| ("iops", log)));
        if let Some(latencies) = self.latency_logs {
            let names = ["slat", "clat", "lat"];
            logs.extend(names.into_iter().zip(latencies.into_iter().map(|averaged| averaged.log)));
        }
        logs
    }

    fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }
}

fn log_rates(log: &mut Log, rates: Each<Option<u64>>, ms: u64, place: Option<u64>) {
    for (at, rate) in rates.into_iter().enumerate() {
        if let Some(rate) = rate {
            log.line(ms, rate, at, 0, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Logs;

    #[test]
    fn windows_give_rates_and_lines_in_fios_format() {
        let logs = Logs {
            bandwidth: Some("x".into()),
            average: Duration::from_millis(100),
            ..Logs::default()
        };
        let mut series = Series::new(&Spec { logs, ..Spec::default() }, Instant::START);
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        series.tick(at(50), [(4096, 1), (0, 0), (0, 0)]);
        series.tick(at(100), [(409_600, 100), (0, 0), (0, 0)]);
        series.tick(at(200), [(409_600, 100), (8192, 2), (0, 0)]);
        let (bandwidth, _) = series.summaries()[0];
        assert_eq!((bandwidth.count, bandwidth.max), (1, 4000));
        let logs = series.into_logs(at(200));
        assert_eq!(logs[0].1.text, "100, 4000, 0, 0, 0\n200, 80, 1, 0, 0\n");
    }

    /// Side by side with fio 3.33: a window has no block size and no place, and the columns stay.
    #[test]
    fn lines_of_windows_have_neither_block_size_nor_place() {
        let took = Took { slat: Some(100), clat: 900, lat: 1000 };
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        for (offset, rest) in [(false, "0, 0"), (true, "0, 0, 0")] {
            let logs = Logs {
                bandwidth: Some("x".into()),
                latency: Some("x".into()),
                average: Duration::from_millis(100),
                offset,
                ..Logs::default()
            };
            let mut series = Series::new(&Spec { logs, ..Spec::default() }, Instant::START);
            series.answered(Direction::Read, 4096, 8192, took, at(50));
            series.tick(at(100), [(409_600, 100), (0, 0), (0, 0)]);
            let lines = series.into_logs(at(100));
            let texts: Vec<&str> = lines.iter().map(|(_, log)| log.text.as_str()).collect();
            let expected = [4000, 100, 900, 1000].map(|value| format!("100, {value}, 0, {rest}\n"));
            assert_eq!(texts, expected);
        }
    }
}
