//! A workload of a cell, measured, and what went wrong in the lab's terms.

use lab::measure::{MeasureError, Volume};
use lab::study::{Kind, Workload};
use lab::target::{CellRun, RepeatPlan, StopFlag, TargetError};
use rt::{IoErrorKind, Rt};

/// Runs the workload of a cell on a volume, and says what went wrong in the lab's terms.
pub(crate) async fn measure(
    rt: Rt,
    volume: Volume,
    workload: Workload,
    plan: RepeatPlan,
    stop: StopFlag,
) -> Result<CellRun, TargetError> {
    let measured = match &workload.kind {
        Kind::Operation(operation) => {
            lab::measure::operation::operation(rt, volume, operation, &plan, &stop).await
        }
        _ => lab::measure::block::block(rt, volume, &workload, &plan, &stop).await,
    };
    measured.map_err(|error| {
        let doing = format!("running '{}'", workload.name);
        let failed = |mend: &str| TargetError::Failed {
            doing: doing.clone(),
            why: error.to_string(),
            mend: mend.to_owned(),
        };
        match &error {
            MeasureError::Interrupted => TargetError::Interrupted,
            MeasureError::Io(io) if io.kind == IoErrorKind::NoSpace => TargetError::Fatal {
                doing: doing.clone(),
                why: error.to_string(),
                mend: "free some space or choose another folder".to_owned(),
            },
            MeasureError::Io(_) => failed("see to the device that the error names"),
            MeasureError::VolumeTooSmall { .. } => failed("or leave the cell out"),
            MeasureError::NoOperation { .. } | MeasureError::NothingDone { .. } => {
                failed("or leave the cell out with `except`")
            }
        }
    })
}
