//! A layout built over devices, and what the array can do with itself.

use super::layout::{Layout, Level};
use lab::measure::ArrayOperations;
use lab::study::{Kind, OperationKind, Workload};
use lab::target::TargetError;
use rt::{DeviceRef, Rt};
use std::rc::Rc;

/// A layout, built.
pub struct Built {
    /// What the load sees.
    pub device: DeviceRef,
    /// What the array can do; `None` for a plain disk.
    pub operations: Option<Rc<dyn ArrayOperations>>,
}

/// How many disks a workload needs beside the layout's: a rebuild and a clone write to a spare.
pub fn spares(workload: &Workload) -> usize {
    match &workload.kind {
        Kind::Operation(operation) => match operation.kind {
            OperationKind::Rebuild | OperationKind::Clone => 1,
            OperationKind::Initialise | OperationKind::Check => 0,
        },
        _ => 0,
    }
}

pub fn check(_name: &str, _layout: &Layout, _workload: &Workload) -> Result<(), TargetError> { Ok(()) }

pub fn build(_rt: &Rt, _name: &str, layout: &Layout, disks: Vec<DeviceRef>) -> Result<Built, TargetError> {
    assert_eq!(layout.level, Level::Disk);
    Ok(Built { device: disks[0].clone(), operations: None })
}
