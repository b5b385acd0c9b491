//! filebench: workloads in WML, run as they are.
//!
//! filebench (Sun, later the File systems and Storage Lab of Stony Brook) describes a load as filesets,
//! processes, threads and *flowops*, in a workload model language. Its files, the *personalities*, have
//! been the field's way of saying "a file server", "a mail server", "a database" since Solaris 10.
//! Here they run unmodified over any [`FileTree`](rt::FileTree).
//!
//! **From file to figures**: `lexer` cuts the text into words, `parser` makes commands of them
//! (`syntax`), `plan` looks every name up and gives steps, `engine` carries them out with a
//! [`Crew`](workload::crew::Crew), `statistics` counts as filebench counts, `output` prints what its
//! users know. `library` has the classic personalities, written by us.
//!
//! **Source** of language and semantics: filebench 1.5-alpha3 as of its repository in February 2020, and
//! 1.4.9.1 for what older files use. What differs, and why, stands in docs/guide/filebench.md.

#![forbid(unsafe_code)]

mod distribution;
pub mod engine;
mod error;
mod fileset;
mod lexer;
pub mod library;
mod limits;
pub mod output;
mod parser;
pub mod plan;
pub mod statistics;
mod syntax;

pub use engine::{Console, FilebenchOutcome, run};
pub use error::{DistributionError, FilebenchError, FlowopError, Position, WmlError, WmlErrorKind};
pub use plan::{Plan, PlanOptions};
