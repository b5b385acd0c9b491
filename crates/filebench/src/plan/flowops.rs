//! Processes, threads and flowops, composites unfolded.
//!
//! A composite is unfolded where it is used, with its own variables set to what the use says, as
//! filebench 1.4 does and 1.5 means to. A flowop within one has the composite's name before its own.

use super::build::{Builder, Composite};
use super::values::Variable;
use super::{
    DESCRIPTORS, FLOWOPS_MAX, Flowop, FlowopKind, Number, ProcessPlan, Row, Target, ThreadPlan,
};
use crate::error::{Position, WmlError, WmlErrorKind};
use crate::syntax::{Attributes, FlowopUse, ThreadDefinition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use workload::crew::WORKERS_MAX;

/// Composites within one another, at the most: a longer chain is a mistake, and each level is a call
/// of ours.
const COMPOSITE_DEPTH_MAX: usize = 32;

/// What is looked up after all flowops are known.
#[derive(Default)]
struct Open {
    /// Flowops of the thread: name, slot, kind.
    thread: Vec<(Arc<str>, usize, FlowopKind)>,
    /// Targets that are to be found in the thread: slot of the flowop, its place, the name.
    limits: BTreeMap<usize, (Position, FlowopKind, String)>,
    /// Names that wakeups and posts need, with the kind that must have them.
    named: Vec<(Position, FlowopKind, Arc<str>)>,
    /// Blocks and semaphores of all threads.
    waiting: BTreeSet<(FlowopKind, Arc<str>)>,
}

impl Builder<'_> {
    /// All processes of a run.
    pub(super) fn unfold(
        &mut self,
        definitions: &[(Attributes, Vec<ThreadDefinition>)],
    ) -> Result<Vec<ProcessPlan>, WmlError> {
        let (mut open, mut workers) = (Open::default(), 0u64);
        let mut processes = Vec::new();
        for (attributes, threads) in definitions {
            let max = WORKERS_MAX as u64;
            let instances = self.variables.bounded(attributes, "instances", 1, 0, max)?;
            let name = self.variables.required_text(attributes, "name")?;
            if attributes.get("nice").is_some()
                && self.variables.constant(attributes, "nice", 0)? != 0
            {
                self.notes.insert("nice has no effect; start Spindle with nice instead".to_owned());
            }
            let mut plans = Vec::new();
            for thread in threads {
                let plan = self.thread(thread, &mut open)?;
                workers = workers.saturating_add(instances.saturating_mul(plan.instances));
                if workers > max {
                    return self.fail(thread.attributes.at, WmlErrorKind::Workers(workers));
                }
                plans.push(plan);
            }
            processes.push(ProcessPlan { name: name.into(), instances, threads: plans });
        }
        for (at, kind, name) in &open.named {
            if !open.waiting.contains(&(*kind, Arc::clone(name))) {
                let (kind, name, where_) = (kind.word(), name.to_string(), "");
                return self.fail(*at, WmlErrorKind::Target { kind, name, where_ });
            }
        }
        Ok(processes)
    }

    fn thread(
        &mut self,
        thread: &ThreadDefinition,
        open: &mut Open,
    ) -> Result<ThreadPlan, WmlError> {
        let attributes = &thread.attributes;
        let name = self.variables.required_text(attributes, "name")?;
        let max = WORKERS_MAX as u64;
        // filebench starts one thread where it is told to start none.
        let instances = self.variables.bounded(attributes, "instances", 1, 0, max)?.max(1);
        // Its value is checked; threads here write from memory that is made for each write.
        self.variables.number(attributes, "memsize", 0)?;
        self.variables.truth(attributes, "useism", false)?;
        if attributes.get("ioprio").is_some() {
            self.variables.constant(attributes, "ioprio", 0)?;
            self.notes.insert("ioprio has no effect; start Spindle with ionice instead".to_owned());
        }
        open.thread.clear();
        open.limits.clear();
        let mut flowops = Vec::new();
        for flowop in &thread.flowops {
            flowops.push(self.flowop(flowop, None, 0, open)?);
        }
        let mut targets = BTreeMap::new();
        for (slot, (at, kind, name)) in &open.limits {
            let ends = format!(".{name}");
            let found = open
                .thread
                .iter()
                .find(|(full, ..)| **full == **name)
                .or_else(|| open.thread.iter().find(|(full, ..)| full.ends_with(&ends)));
            let io = |kind: FlowopKind| kind.direction() != super::Direction::None;
            use FlowopKind::{BwLimit, FinishOnBytes, IopsLimit};
            let needs_io = matches!(kind, BwLimit | FinishOnBytes | IopsLimit);
            match found {
                Some((_, target, of)) if !needs_io || io(*of) => {
                    targets.insert(*slot, *target);
                }
                found => {
                    let where_ = " in the same thread";
                    let kind = if found.is_some() { "reading or writing" } else { "other" };
                    let name = name.clone();
                    return self.fail(*at, WmlErrorKind::Target { kind, name, where_ });
                }
            }
        }
        resolve(&mut flowops, &targets);
        Ok(ThreadPlan { name: name.into(), instances, flowops, slots: open.thread.len() })
    }

    fn flowop(
        &mut self,
        used: &FlowopUse,
        prefix: Option<&str>,
        depth: usize,
        open: &mut Open,
    ) -> Result<Flowop, WmlError> {
        self.flowops += 1;
        if self.flowops > FLOWOPS_MAX {
            let (what, max) = ("flowops, composites unfolded", FLOWOPS_MAX as u64);
            return self.fail(used.at, WmlErrorKind::TooMany { what, max });
        }
        let attributes = &used.attributes;
        let name = self.variables.required_text(attributes, "name")?;
        let name: Arc<str> = match prefix {
            Some(prefix) => format!("{prefix}.{name}").into(),
            None => name.into(),
        };
        let built_in = FlowopKind::BUILT_IN.iter().find(|(word, _)| *word == used.kind);
        let kind = built_in.map_or(FlowopKind::Composite, |(_, kind)| *kind);
        let slot = open.thread.len();
        open.thread.push((Arc::clone(&name), slot, kind));
        let row = Row { name: Arc::clone(&name), kind };
        let row = self.rows.iter().position(|other| *other == row).unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        });
        let fileset =
            match (self.variables.text(attributes, "filename")?, attributes.get("filename")) {
                (Some(name), Some(attribute)) => Some(self.fileset_number(attribute.at, &name)?),
                _ => None,
            };
        if let Some(local) = used.locals.first().filter(|_| kind != FlowopKind::Composite) {
            let (expected, found) = ("an attribute", format!("${}", local.name));
            return self.fail(local.at, WmlErrorKind::Expected { expected, found });
        }
        let values = &self.variables;
        let descriptor = |name| {
            let number = values.bounded(attributes, name, 0, 0, DESCRIPTORS as u64 - 1)?;
            Ok(number as usize)
        };
        let truth = |name| values.truth(attributes, name, false);
        let (value, message) = match kind {
            FlowopKind::Print => {
                (Number::Constant(0), values.text(attributes, "value")?.unwrap_or_default())
            }
            _ => (values.number(attributes, "value", 0)?, String::new()),
        };
        let mut flowop = Flowop {
            kind,
            row,
            slot,
            fileset,
            descriptor: descriptor("fd")?,
            source_descriptor: descriptor("srcfd")?,
            iterations: values.number(attributes, "iters", 1)?,
            iosize: values.number(attributes, "iosize", 0)?,
            working_set: values.number(attributes, "workingset", 0)?,
            random: truth("random")?,
            durable: truth("dsync")?,
            direct: truth("directio")?,
            no_read_ahead: truth("noreadahead")?,
            open_next: truth("opennext")?,
            blocking: truth("blocking")?,
            value,
            message,
            highwater: values.constant(attributes, "highwater", 1)?,
            index: match attributes.get("indexed") {
                Some(_) => Some(values.number(attributes, "indexed", 0)?),
                None => None,
            },
            target: Target::None,
            inner: Vec::new(),
            name,
        };
        self.check_needs(used, &flowop)?;
        self.target(used, &mut flowop, open)?;
        if let Some(composite) = self.composites.get(&used.kind).cloned() {
            self.composite(used, &composite, &mut flowop, depth, open)?;
        }
        Ok(flowop)
    }

    fn check_needs(&self, used: &FlowopUse, flowop: &Flowop) -> Result<(), WmlError> {
        use FlowopKind as K;
        let needs = match flowop.kind {
            K::AioWrite if !flowop.random => "random: writes at the next place are not started so",
            K::OpenFile | K::CreateFile | K::MakeDir | K::RemoveDir | K::ListDir | K::FsyncSet
                if flowop.fileset.is_none() =>
            {
                "filename=: the file or fileset"
            }
            K::Wakeup | K::SemPost if used.attributes.get("target").is_none() => {
                "target=: the name of the flowops that it wakes"
            }
            _ => return Ok(()),
        };
        self.fail(used.at, WmlErrorKind::FlowopNeeds { flowop: flowop.kind.word(), needs })
    }

    fn target(
        &self,
        used: &FlowopUse,
        flowop: &mut Flowop,
        open: &mut Open,
    ) -> Result<(), WmlError> {
        use FlowopKind as K;
        if let K::Block | K::SemBlock = flowop.kind {
            open.waiting.insert((flowop.kind, Arc::clone(&flowop.name)));
        }
        let (Some(name), Some(attribute)) =
            (self.variables.text(&used.attributes, "target")?, used.attributes.get("target"))
        else {
            return Ok(());
        };
        match flowop.kind {
            K::Wakeup | K::SemPost => {
                let kind = if flowop.kind == K::Wakeup { K::Block } else { K::SemBlock };
                let name: Arc<str> = name.into();
                open.named.push((attribute.at, kind, Arc::clone(&name)));
                flowop.target = Target::Named(name);
            }
            K::BwLimit | K::IopsLimit | K::OpsLimit | K::FinishOnBytes | K::FinishOnCount => {
                open.limits.insert(flowop.slot, (attribute.at, flowop.kind, name));
            }
            // Others don't look at it, in filebench either.
            _ => {}
        }
        Ok(())
    }

    fn composite(
        &mut self,
        used: &FlowopUse,
        composite: &Composite,
        flowop: &mut Flowop,
        depth: usize,
        open: &mut Open,
    ) -> Result<(), WmlError> {
        if depth >= COMPOSITE_DEPTH_MAX {
            let (what, max) = ("composites within one another", COMPOSITE_DEPTH_MAX as u64);
            return self.fail(used.at, WmlErrorKind::TooMany { what, max });
        }
        if used.attributes.get("iters").is_none() {
            flowop.iterations = self.variables.number(&composite.attributes, "iters", 1)?;
        }
        let mut locals: BTreeMap<String, Variable> = BTreeMap::new();
        for local in &composite.locals {
            if let Some(value) = &local.value {
                locals.insert(local.name.clone(), self.variables.evaluate(value)?);
            }
        }
        for local in &used.locals {
            if !composite.locals.iter().any(|known| known.name == local.name) {
                let known: Vec<String> =
                    composite.locals.iter().map(|known| format!("${}", known.name)).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let name = format!("${}", local.name);
                return self.fail(local.at, WmlErrorKind::NoSuchVariable { name, known });
            }
            if let Some(value) = &local.value {
                locals.insert(local.name.clone(), self.variables.evaluate(value)?);
            }
        }
        self.variables.enter(locals);
        let name = Arc::clone(&flowop.name);
        let inner: Result<Vec<Flowop>, WmlError> = composite
            .flowops
            .iter()
            .map(|inner| self.flowop(inner, Some(&name), depth + 1, open))
            .collect();
        self.variables.leave();
        flowop.inner = inner?;
        Ok(())
    }
}

/// Enters what was found for limits.
fn resolve(flowops: &mut [Flowop], targets: &BTreeMap<usize, usize>) {
    for flowop in flowops {
        if let Some(target) = targets.get(&flowop.slot) {
            flowop.target = Target::Slot(*target);
        }
        resolve(&mut flowop.inner, targets);
    }
}
