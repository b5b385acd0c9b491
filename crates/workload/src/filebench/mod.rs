//! filebench.
mod distribution;
mod error;
mod lexer;
mod parser;
pub mod plan;
mod syntax;
