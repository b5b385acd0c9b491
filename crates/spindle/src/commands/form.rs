//! The forms that lists of pools and datasets are printed in, as OpenZFS's commands have them.

use clap::Args;

// How a list is printed.
#[derive(Args)]
pub struct FormArgs {
    /// For scripts: no heads, columns divided by tabs
    #[arg(short = 'H')]
    pub scripted: bool,
    /// Numbers in full
    #[arg(short = 'p')]
    pub literal: bool,
    /// As JSON
    #[arg(short = 'j', long = "json")]
    pub json: bool,
    /// Numbers as numbers, with -j
    #[arg(long = "json-int", requires = "json")]
    pub numbers: bool,
}
