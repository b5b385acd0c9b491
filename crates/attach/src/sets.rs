//! RAID sets of this host: which there are, opened for reading or for writing, and run while somebody serves them.
//!
//! * [`sources`]: which devices, and the sets on them.
//! * [`name`]: what a set is called.
//! * [`missing`]: who takes no part in a set, and whether it is started without them.
//! * [`place`]: which device is which; [`images`], [`parted`]: partitions of disk images, opened for writing.
//! * [`reading`], [`live`]: a set opened for reading, and for writing.
//! * [`running`]: a set that is served for writing, and what runs beside it.
//!
//! What only reads never writes a byte: devices are opened for reading alone.

pub mod images;
pub mod live;
pub mod missing;
pub mod name;
pub mod parted;
pub mod place;
pub mod reading;
pub mod running;
pub mod sources;
