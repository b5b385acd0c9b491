//! Dates, as the outputs of tools write them, and the zone of this process.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The zone that TZ names, or the host's. UTC where none can be had.
pub fn local() -> TimeZone {
    TimeZone::system()
}

/// Seconds since 1970 as C's `ctime` writes them, in universal time: `Sun Nov 22 01:08:55 2026`.
pub fn ctime(unix_s: u64) -> String {
    ::zfs::show::date(unix_s, &TimeZone::UTC)
}

/// Seconds and nanoseconds since 1970 as a form of `strftime` has them, in universal time; nothing where the calendar does
/// not reach so far.
pub fn universal(unix_s: i64, nanoseconds: u32, form: &str) -> Option<String> {
    let moment = Timestamp::new(unix_s, nanoseconds.try_into().ok()?).ok()?;
    Some(moment.strftime(form).to_string())
}

/// The date, in seconds since 1970, as results have it.
pub fn unix_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The moment of an event, as `zpool events` writes it: `Nov 22 2026 01:08:55.000000001`, in the zone of this process.
pub fn of_event(unix_s: u64, nanoseconds: u32) -> String {
    let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_zoned(local());
    format!("{}.{nanoseconds:09}", moment.strftime("%b %e %Y %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_that_of_ctime() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_309_735, "Sun Nov 22 01:08:55 2026"),
        ] {
            assert_eq!(ctime(seconds), text);
        }
    }
}
