//! Files and block devices as disks.

use crate::views::FilterView;
use host::{FileDevice, FileOptions, HostRuntime, OpenError};
use lab::target::TargetError;
use rt::filter::stats::Stats;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// How often a file is looked at again that somebody has open, and after how long: the cell before had it, and the system lets go of
/// what was queued there a moment after it was closed.
const TRIES_MAX: u32 = 100;
const TRY_REST: Duration = Duration::from_millis(20);

fn cannot_open(error: OpenError) -> TargetError {
    TargetError::Fatal {
        doing: "opening the disks".to_owned(),
        why: error.to_string(),
        mend: "see to it that nothing else uses or removes them".to_owned(),
    }
}

fn open_once_free(
    runtime: &HostRuntime,
    file: &Path,
    options: FileOptions,
) -> Result<FileDevice, OpenError> {
    let mut tries = 0..TRIES_MAX;
    loop {
        match FileDevice::open(&runtime.host(), file, options) {
            Err(OpenError::Locked(_)) if tries.next().is_some() => std::thread::sleep(TRY_REST),
            opened => return opened,
        }
    }
}

/// The files as disks that count what is asked of them.
pub(crate) fn open_disks(
    runtime: &HostRuntime,
    files: &[PathBuf],
    options: FileOptions,
) -> Result<Vec<FilterView>, TargetError> {
    let open = |file: &PathBuf| {
        let device = open_once_free(runtime, file, options).map_err(cannot_open)?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        Ok(FilterView { name, stats: Stats::new(Rc::new(device), &runtime.rt()), drive: None })
    };
    files.iter().map(open).collect()
}
