//! The property `sync`: what programs' wishes for durability do.

/// What programs' wishes for durability do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// They are fulfilled.
    #[default]
    Standard,
    /// As if each change came with one.
    Always,
    /// Nothing.
    Never,
}

impl Synchronous {
    /// Of the property's number. One that is none of it counts as if nothing were set.
    pub fn of(number: Option<u64>) -> Synchronous {
        match number {
            Some(1) => Synchronous::Always,
            Some(2) => Synchronous::Never,
            _ => Synchronous::Standard,
        }
    }
}
