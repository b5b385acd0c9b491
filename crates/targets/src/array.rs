//! A layout built over devices, and what the array can do with itself.

mod built;
mod disk_group;
mod operations;

pub(crate) use built::Built;

use super::layout::{CHUNK_DEFAULT, Layout, Level};
use super::worth;
use built::{STAND_IN, unfit};
use lab::measure::ArrayOperations;
use lab::study::{DiskChange, Kind, OperationKind, Rebalance, Tool, Workload};
use lab::target::TargetError;
use md::{Array, ArraySpec, SpecError};
use operations::Operations;
use rt::filter::Slice;
use rt::memory::MemoryDevice;
use rt::{DeviceRef, Rt};
use sim::profile::OperationHabits;
use std::rc::Rc;
use stdx::Offset;

/// How many disks a workload needs beside the layout's: a rebuild and a clone write to a spare, which is as many disks as
/// are lost with one; a rebalance may begin with a new disk.
pub fn spares(layout: &Layout, workload: &Workload) -> usize {
    let of_a_member = || worth::lost_member(layout).map_or(1, |of| of.disks_in_all() as usize);
    match &workload.kind {
        Kind::Operation(operation) => match operation.kind {
            OperationKind::Rebuild | OperationKind::Clone => of_a_member(),
            OperationKind::Rebalance(Rebalance { change: DiskChange::Add, .. }) => 1,
            OperationKind::Initialise(_)
            | OperationKind::Check
            | OperationKind::Rebalance(Rebalance { change: DiskChange::Drop, .. }) => 0,
        },
        _ => 0,
    }
}

/// Whether a layout can be built and the workload makes sense on it, before anything runs.
///
/// # Errors
/// What can't be, why, and the mend.
pub fn check(name: &str, layout: &Layout, workload: &Workload) -> Result<(), TargetError> {
    let operation = match &workload.kind {
        Kind::Operation(operation) => Some(operation.kind),
        _ => None,
    };
    let nonsense = |why: &str| {
        Err(TargetError::Unfit {
            what: format!("'{}' on layout '{name}'", workload.name),
            why: why.to_owned(),
            mend: format!("restrict the workload with except = {{ layout = [\"{name}\"] }}"),
        })
    };
    if layout.level == Level::Asm {
        disk_group::check(name, layout)?;
        if let Some(of) = &layout.of {
            try_out(of).map_err(|error| unfit(name, &error))?;
        }
        return match operation {
            Some(OperationKind::Rebalance(Rebalance { change: DiskChange::Add, .. }))
                if layout.of.is_some() =>
            {
                nonsense("its members are sets, and there is no further set to add")
            }
            None | Some(OperationKind::Rebalance(_)) => Ok(()),
            Some(_) => nonsense("a disk group is only rebalanced"),
        };
    }
    try_out(layout).map_err(|error| unfit(name, &error))?;
    if let Some(OperationKind::Rebalance(_)) = operation {
        return nonsense("only a disk group (level = \"asm\") is rebalanced");
    }
    let mut sets = std::iter::successors(Some(layout), |layout| layout.of.as_deref());
    let redundant =
        sets.any(|layout| !matches!(layout.level, Level::Disk | Level::Linear | Level::Raid0));
    if operation.is_some() && !redundant {
        return nonsense(
            "it has no redundancy, so there is nothing to initialise, clone, rebuild or check",
        );
    }
    Ok(())
}

/// Builds a layout of stand-ins.
fn try_out(layout: &Layout) -> Result<(), SpecError> {
    if layout.level == Level::Disk {
        return Ok(());
    }
    if let Some(of) = &layout.of {
        try_out(of)?;
    }
    let members = (0..layout.members())
        .map(|member| MemoryDevice::new(&format!("member {member}"), STAND_IN) as DeviceRef);
    spec(layout, members.collect())?.check()
}

/// The engine's description of a set.
fn spec(layout: &Layout, members: Vec<DeviceRef>) -> Result<ArraySpec, SpecError> {
    let level = match layout.level {
        Level::Disk | Level::Asm => unreachable!("a plain disk, or a disk group, is no set"),
        Level::Linear => md::Level::Linear,
        Level::Raid0 => md::Level::Raid0,
        Level::Raid1 => md::Level::Raid1,
        Level::Raid4 => md::Level::Raid4,
        Level::Raid5 => md::Level::Raid5,
        Level::Raid6 => md::Level::Raid6,
        Level::Raid10 => md::Level::Raid10,
    };
    let mut spec = ArraySpec::new(level, members);
    spec.chunk = layout.chunk.unwrap_or(CHUNK_DEFAULT);
    if let Some(text) = &layout.layout {
        spec.layout = md::Layout::parse(level, text)?;
    }
    Ok(spec)
}

/// Why a tool can't run on a machine.
pub fn unfit_tool(tool: &Tool, why: String) -> TargetError {
    TargetError::Unfit {
        what: format!("'{}'", tool.kind.word()),
        why,
        mend: "docs/guide/studies.md lists what it takes".to_owned(),
    }
}

/// Builds a layout over the first of `disks`; what is left over are spares.
///
/// # Errors
/// What is wrong with the layout.
pub fn build(
    rt: &Rt,
    name: &str,
    layout: &Layout,
    disks: Vec<DeviceRef>,
) -> Result<Built, TargetError> {
    build_before(rt, name, layout, disks, OperationHabits::default(), &|device, _| device)
}

/// The same, with what lies between the layout and the host put before whatever the host sees as a
/// disk: the volume, or each LUN, which `before` is told by its number. Partitions lie on that. Operations
/// go as the controller's habits are.
///
/// # Errors
/// What is wrong with the layout.
pub fn build_before(
    rt: &Rt,
    name: &str,
    layout: &Layout,
    disks: Vec<DeviceRef>,
    habits: OperationHabits,
    before: &dyn Fn(DeviceRef, usize) -> DeviceRef,
) -> Result<Built, TargetError> {
    let mut disks = disks.into_iter();
    let mut redundant = None;
    let seen = |device: DeviceRef, lun: usize| partition(layout, before(device, lun), name);
    if layout.level == Level::Asm {
        let mut members = Vec::new();
        for number in 0..layout.members() as usize {
            let member = match &layout.of {
                None => Ok(next_disk(&mut disks)),
                Some(of) => {
                    let inner = format!("{name}/{number}");
                    assemble(rt, &inner, of, &mut disks, &mut redundant)
                }
            };
            members.push(seen(member.map_err(|error| unfit(name, &error))?, number)?);
        }
        let spare = disks.next().map(|disk| seen(disk, members.len())).transpose()?;
        return disk_group::build(rt, name, layout, members, spare);
    }
    let device = match &layout.of {
        Some(of) if layout.luns => {
            let mut luns = Vec::new();
            for lun in 0..layout.members() as usize {
                let inner = format!("{name}/{lun}");
                let set = assemble(rt, &inner, of, &mut disks, &mut redundant);
                luns.push(seen(set.map_err(|error| unfit(name, &error))?, lun)?);
            }
            let spec = spec(layout, luns).map_err(|error| unfit(name, &error))?;
            Array::create(rt, name, spec).map_err(|error| unfit(name, &error))?.device()
        }
        _ => {
            let volume = assemble(rt, name, layout, &mut disks, &mut redundant);
            seen(volume.map_err(|error| unfit(name, &error))?, 0)?
        }
    };
    let Some(array) = redundant else { return Ok(Built { device, operations: None }) };
    let spare = match worth::lost_member(layout) {
        None => disks.next(),
        Some(of) if of.disks_in_all() > disks.len() as u64 => None,
        Some(of) => {
            let spare = assemble(rt, &format!("{name}/spare"), of, &mut disks, &mut None);
            Some(spare.map_err(|error| unfit(name, &error))?)
        }
    };
    let operations = Rc::new(Operations::new(rt, array, spare, habits)) as Rc<dyn ArrayOperations>;
    Ok(Built { device, operations: Some(operations) })
}

/// The partition of what the host sees as a disk.
fn partition(layout: &Layout, disk: DeviceRef, name: &str) -> Result<DeviceRef, TargetError> {
    let Some(start) = layout.partition_offset.filter(|start| !start.is_zero()) else {
        return Ok(disk);
    };
    let geometry = disk.geometry();
    if !start.is_multiple_of(geometry.logical_block) || start >= geometry.capacity {
        return Err(TargetError::Unfit {
            what: format!("layout '{name}'"),
            why: format!(
                "partition_offset = {start} is no place on {} with blocks of {}",
                disk.name(),
                geometry.logical_block
            ),
            mend: "choose a multiple of the block".to_owned(),
        });
    }
    let len = geometry.capacity - start;
    Ok(Slice::new(disk, Offset(start.bytes()), len))
}

/// Builds a set, inner sets first. The first with redundancy, which is an innermost one, is the one that operations work on: it is
/// where a lost disk is mended.
fn assemble(
    rt: &Rt,
    name: &str,
    layout: &Layout,
    disks: &mut dyn Iterator<Item = DeviceRef>,
    redundant: &mut Option<Rc<Array>>,
) -> Result<DeviceRef, SpecError> {
    if layout.level == Level::Disk {
        return Ok(next_disk(disks));
    }
    let mut members = Vec::new();
    for member in 0..layout.members() {
        members.push(match &layout.of {
            None => next_disk(disks),
            Some(of) => assemble(rt, &format!("{name}/{member}"), of, disks, redundant)?,
        });
    }
    let array = Array::create(rt, name, spec(layout, members)?)?;
    if !matches!(layout.level, Level::Linear | Level::Raid0) && redundant.is_none() {
        *redundant = Some(Rc::clone(&array));
    }
    Ok(array.device())
}

fn next_disk(disks: &mut dyn Iterator<Item = DeviceRef>) -> DeviceRef {
    disks.next().expect("the target has checked that there are enough disks")
}

#[cfg(test)]
mod tests;
