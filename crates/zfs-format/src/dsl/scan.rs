//! Scans of a pool (scrub and resilver) and of its error log: how far they came.
//!
//! The values of `scan` and `error_scrub` in the pool's directory, as numbers of 8 bytes.
//!
//! Source: OpenZFS, `dsl_scan.h`, `zio.h`.

use crate::wire::record;

record! {
    /// A place in the tree of all blocks: `zbookmark_phys`.
    ScanBookmark = "scan bookmark", 32, {
        /// The objset.
        objset: u64,
        /// The object.
        object: u64,
        /// The level; −1 the objset's block, −2 the intent log, −3 a dnode.
        level: i64,
        /// The block of that level.
        block: u64,
    }
}

record! {
    /// A place in the deduplication tables.
    DdtBookmark = "deduplication bookmark", 32, {
        /// The class of entries.
        class: u64,
        /// The type of table.
        kind: u64,
        /// The checksum's function.
        checksum: u64,
        /// The cursor in the table.
        cursor: u64,
    }
}

record! {
    /// How far a scan came; [`Record::from_numbers`](crate::wire::Record::from_numbers) takes it from the ZAP.
    Scan = "scan", 192, {
        /// 0 none, 1 scrub, 2 resilver, 3 scrub of errors.
        function: u64,
        /// 0 none, 1 scanning, 2 finished, 3 cancelled, 4 scrub of errors.
        state: u64,
        /// The queue of datasets.
        queue: u64,
        /// Blocks born from here on …
        min_txg: u64,
        /// … up to here are scanned.
        max_txg: u64,
        /// The same for the dataset at hand.
        current_min_txg: u64,
        /// The same for the dataset at hand.
        current_max_txg: u64,
        /// When it began, in seconds since 1970.
        start_time: u64,
        /// When it ended, in seconds since 1970.
        end_time: u64,
        /// Bytes to be scanned.
        to_examine: u64,
        /// Bytes scanned so far.
        examined: u64,
        /// Bytes passed over.
        skipped: u64,
        /// Bytes repaired or resilvered.
        processed: u64,
        /// Errors.
        errors: u64,
        /// The last class of deduplication tables that is scanned apart.
        ddt_class_max: u64,
        /// How far in the deduplication tables.
        ddt_bookmark: DdtBookmark,
        /// How far in the datasets.
        bookmark: ScanBookmark,
        /// 1: visit the dataset at hand again; 2: the scrub is paused.
        flags: u64,
    }
}

record! {
    /// How far a scrub of the error log came.
    ErrorScrub = "error scrub", 72, {
        /// As in [`Scan`].
        function: u64,
        /// As in [`Scan`].
        state: u64,
        /// The cursor in the error log.
        cursor: u64,
        /// When it began, in seconds since 1970.
        start_time: u64,
        /// When it ended, in seconds since 1970.
        end_time: u64,
        /// Blocks to be looked at.
        to_examine: u64,
        /// Blocks looked at so far.
        examined: u64,
        /// Errors.
        errors: u64,
        /// Whether it is paused.
        paused: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_hold() {
        crate::wire::checks::holds_for_any_bytes::<ScanBookmark>();
        crate::wire::checks::holds_for_any_bytes::<DdtBookmark>();
        crate::wire::checks::holds_for_any_bytes::<Scan>();
        crate::wire::checks::holds_for_any_bytes::<ErrorScrub>();
    }
}
