//! ZFS pools of this host: found, opened, and their datasets with the keys that they need.
//!
//! * [`export_table`]: which exports are volumes of a pool that is held.
//! * [`find`]: which pools there are, and one of them opened.
//! * [`host`]: whose pools are.
//! * [`mod@label_clear`]: labels of devices that are to be no part of a pool any more.
//! * [`mount_table`]: which datasets of a pool that is held are mounted.
//! * [`names`]: names of datasets.
//! * [`keys`]: keys of encrypted datasets.
//! * [`fresh`]: what makes new things new.
//! * [`members`]: devices that are to be parts of a pool.
//! * [`writing`]: pools that are open for writing.
//! * [`running`]: a pool that is held for long, and its socket.
//! * [`snapshots`]: taken, by whoever has the pool.
//! * [`datasets`]: pools that were opened, and what is read of them.

pub mod datasets;
pub mod export_table;
pub mod find;
pub mod fresh;
pub mod host;
pub mod keys;
pub mod label_clear;
pub mod members;
pub mod mount_table;
pub mod names;
pub mod running;
pub mod snapshots;
pub mod writing;

pub use datasets::{OpenDataset, Session, View};
pub use find::{HeldBy, PoolPlace, Pools};
pub use fresh::HostFresh;
pub use label_clear::label_clear;
pub use members::{NewMember, NewMembers, Wanted};
pub use names::{check_name, pool_of, within};
pub use running::asked::{Asked, Queue, WhenAsked, carry_out_and_close_until, carry_out_until};
pub use running::{HeldPool, RunningPool};
pub use writing::{AddedMembers, LivePool, Opening, Rewind, open_rewound};
