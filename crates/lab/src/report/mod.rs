//! What a run found, for people: a page of HTML, tables in the terminal, a CSV for other programs.
//!
//! Everything here is a pure function of a [`Results`](crate::results::Results) value: the same
//! results give the same bytes, and a stored `results.json` can be reported again years later.
//!
//! * [`fn@text`], [`fn@csv`] and [`fn@html`] write the three forms;
//! * `shape` decides which factor makes rows, axis and panels, for the terminal and the page alike;
//! * `estimate` draws cells together; `figures` writes numbers; `findings` gathers warnings;
//! * `account` tells what was run, and what layouts are worth beside their speed;
//! * `distributions` is a page of its own: response times of a model beside those of the drive;
//! * `plot` draws SVG and knows nothing of studies.
//!
//! A report never hides: what is averaged is said, failed cells are named, claims that don't hold
//! stay in, and whatever was simulated or shortened says so at its top.

mod account;
mod coverage;
mod csv;
mod distributions;
mod estimate;
mod figures;
mod findings;
mod html;
mod plot;
mod shape;
mod text;

#[cfg(test)]
mod sample;

pub use self::csv::csv;
pub use self::distributions::{CURVE_POINTS, Curve, DistributionPage};
pub use self::html::html;
pub use self::text::{TextOptions, printable, text};
#[cfg(test)]
mod tests;
