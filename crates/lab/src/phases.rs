//! What tools that go through phases measured in each, by the names that their users know.
//!
//! Such a tool has one figure that it is judged by, and that is of several phases together: it says which layout is the
//! better one on the whole, and hides that one writes faster and the other seeks faster. So wherever it stands, it is said
//! what it is of, and the phases stand beside it, in the order in which they run.

use crate::study::{Kind, ToolKind, Workload};

/// A phase of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its rate among the metrics; more is better.
    pub metric: &'static str,
    /// What it is called in prose and over a column.
    pub name: &'static str,
}

/// bonnie++'s, by the heads of its own table.
const BONNIE: [Phase; 12] = [
    Phase { metric: "putc_throughput_mb_s", name: "output per chr" },
    Phase { metric: "put_block_throughput_mb_s", name: "output block" },
    Phase { metric: "rewrite_throughput_mb_s", name: "rewrite" },
    Phase { metric: "getc_throughput_mb_s", name: "input per chr" },
    Phase { metric: "get_block_throughput_mb_s", name: "input block" },
    Phase { metric: "seeks_ops_per_s", name: "random seeks" },
    Phase { metric: "seq_create_ops_per_s", name: "sequential create" },
    Phase { metric: "seq_stat_ops_per_s", name: "sequential read" },
    Phase { metric: "seq_del_ops_per_s", name: "sequential delete" },
    Phase { metric: "ran_create_ops_per_s", name: "random create" },
    Phase { metric: "ran_stat_ops_per_s", name: "random read" },
    Phase { metric: "ran_del_ops_per_s", name: "random delete" },
];

/// Those of the small files.
const SMALL_FILES: [Phase; 5] = [
    Phase { metric: "create_ops_per_s", name: "create" },
    Phase { metric: "stat_ops_per_s", name: "stat" },
    Phase { metric: "read_ops_per_s", name: "read" },
    Phase { metric: "copy_ops_per_s", name: "copy" },
    Phase { metric: "delete_ops_per_s", name: "delete" },
];

/// The phases of a tool, in the order of running; none of a tool that has none of a fixed name.
pub fn of(tool: ToolKind) -> &'static [Phase] {
    match tool {
        ToolKind::Bonnie => &BONNIE,
        ToolKind::SmallFiles => &SMALL_FILES,
        _ => &[],
    }
}

/// The phase whose rate this is, with its place in the order of running.
pub fn rate_of(metric: &str) -> Option<(usize, &'static Phase)> {
    let place = |phases: &'static [Phase]| {
        phases.iter().enumerate().find(|(_, phase)| phase.metric == metric)
    };
    place(&BONNIE).or_else(|| place(&SMALL_FILES))
}

/// What a phase is called in prose whose metrics begin with this.
pub fn name_of(prefix: &str) -> &str {
    let its = |phase: &&Phase| {
        let rest = phase.metric.strip_prefix(prefix);
        rest.is_some_and(|rest| rest == "_throughput_mb_s" || rest == "_ops_per_s")
    };
    BONNIE.iter().find(its).map_or(prefix, |phase| phase.name)
}

/// What this figure of a tool that goes through phases is of; nothing for others.
pub fn what_is_measured(workload: &Workload, metric: &str) -> Option<&'static str> {
    let Kind::Tool(tool) = &workload.kind else { return None };
    Some(match (tool.kind, metric) {
        (ToolKind::Bonnie, "throughput_mb_s") => {
            "what the phases output block, rewrite and input block moved, over their time together; more is better"
        }
        (ToolKind::Bonnie, "ops_per_s") => {
            "the files of the phases (create, read and delete, sequential and random), over their time together; more is \
             better"
        }
        (ToolKind::SmallFiles, "ops_per_s") => {
            "the files of the phases (create, stat, read, copy and delete), over their time together; more is better"
        }
        _ => return None,
    })
}
