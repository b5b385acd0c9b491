//! Files and block devices as disks.

use crate::views::FilterView;
use host::{FileDevice, FileOptions, HostRuntime, OpenError};
use lab::target::TargetError;
use rt::filter::stats::Stats;
use std::path::PathBuf;
use std::rc::Rc;

fn cannot_open(error: OpenError) -> TargetError {
    TargetError::Fatal {
        doing: "opening the disks".to_owned(),
        why: error.to_string(),
        mend: "see to it that nothing else uses or removes them".to_owned(),
    }
}

/// The files as disks that count what is asked of them.
pub(crate) fn open_disks(
    runtime: &HostRuntime,
    files: &[PathBuf],
    options: FileOptions,
) -> Result<Vec<FilterView>, TargetError> {
    let open = |file: &PathBuf| {
        let device = FileDevice::open(&runtime.host(), file, options).map_err(cannot_open)?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        Ok(FilterView { name, stats: Stats::new(Rc::new(device), &runtime.rt()), drive: None })
    };
    files.iter().map(open).collect()
}
