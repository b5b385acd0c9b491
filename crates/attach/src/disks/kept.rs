//! Who is kept off what a volume lies on, and who is told to be left out of it.
//!
//! **Readers' locks.** What is read for long keeps writers off the devices below, by the lock that many readers may
//! have. Devices that are written by this process have the writer's lock, and keep it.

use super::open::Disks;
use super::volumes::{Below, is_same_file};
use crate::error::Error;
use crate::sets::missing;
use crate::sets::place::lies_on;
use ::md::assemble::Choice;
use rt::DeviceRef;
use std::path::Path;

impl Disks {
    /// Whether this process writes to a file or block device, by a volume on it.
    pub fn is_writing(&self, path: &Path) -> bool {
        let live = self.arrays.iter().filter(|array| array.unwritable.is_none());
        let mut members = live.flat_map(|array| &array.members);
        let files = self.files.iter().zip(&self.opened);
        let mut files = files.filter(|(_, (base, written))| *written && !base.is_closed());
        members.any(|device| lies_on(Path::new(&*device.name()), path))
            || files.any(|(device, _)| is_same_file(device, path))
    }

    /// Tells who was left out of the sets that a volume lies on.
    ///
    /// # Errors
    /// Several are called so.
    pub fn tell_left_out(&self, called: &str) -> Result<(), Error> {
        for at in self.below(called)?.arrays {
            let array = &self.arrays[at];
            if let Ok(mut choice) = Choice::of(array.set, array.found().to_vec()) {
                if array.by_force {
                    choice.accept_stale();
                }
                missing::tell_left_out(self.context().events(), &choice);
            }
        }
        Ok(())
    }

    /// Keeps writers off what the volume lies on, for as long as the disks live. Where somebody writes already
    /// nothing is kept off, and it was told when the disks were opened.
    ///
    /// # Errors
    /// Where several are called so.
    pub fn keep_writers_off(&self, called: &str) -> Result<(), Error> {
        let below = self.below(called)?;
        self.lock(&below);
        Ok(())
    }

    /// The same for what these devices lie on: files, sets, partitions, and logical volumes, which are told by their
    /// names.
    pub fn keep_writers_off_devices<'a>(&self, devices: impl Iterator<Item = &'a DeviceRef>) {
        let mut below = Below::default();
        for device in devices {
            let name = device.name();
            if let Some(named) = self.named_device(device, &name) {
                self.add_named(&named, &mut below);
            }
        }
        self.lock(&below);
    }

    fn lock(&self, below: &Below) {
        let members = below.arrays.iter().flat_map(|at| match &self.arrays[*at].unwritable {
            Some(_) => &self.arrays[*at].members[..],
            // Written here.
            None => &[],
        });
        // A member may be a partition of a file.
        let mut own = Below::default();
        members.for_each(|device| {
            self.add_device(device, &mut own);
        });
        for at in below.files.iter().copied().chain(own.files) {
            let (file, is_written) = &self.opened[at];
            if !is_written {
                // Where it can't be had somebody writes, which was told.
                file.keep_writers_off();
            }
        }
    }
}
