//! What follows `-o` where something is mounted, as mount(8) has it.

use clap::ValueEnum;

/// What a mount is. `nosuid` and `nodev` hold without being named.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MountOption {
    /// To read.
    Ro,
    /// To write.
    Rw,
    /// Without set-user bits.
    Nosuid,
    /// Without devices.
    Nodev,
}

impl MountOption {
    /// Whether these have it written or only read: of several the last one counts.
    pub fn for_writing(options: &[MountOption]) -> Option<bool> {
        let is_way = |option: &&MountOption| matches!(option, MountOption::Ro | MountOption::Rw);
        options.iter().rfind(is_way).map(|option| *option == MountOption::Rw)
    }
}
