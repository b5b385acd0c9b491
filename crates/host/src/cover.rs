//! A cover over all that an executor opens: nothing that it writes reaches a file or block device.
//!
//! For whoever wants to see what a change would do ([`HostRuntime::cover`](crate::HostRuntime::cover)). What would be opened for writing is
//! opened for reading, on conditions as for writing: a block device that is in use is refused, and so is a file that another process
//! writes; and others are kept from writing as long as it is open, since what is kept here would not fit to what they write. An
//! [`Overlay`] keeps what is written. Whoever opens the same file again on this executor finds it, by whatever name.
//!
//! What it does not do: keep anybody from creating, renaming or removing files.

use crate::identity::Identity;
use rt::DeviceRef;
use rt::filter::Overlay;
use rt::filter::overlay::Memory;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::ByteCount;

/// See the [module](self).
pub(crate) struct Cover {
    memory: Rc<Memory>,
    known: RefCell<BTreeMap<Identity, Rc<Overlay>>>,
}

impl Cover {
    /// One that keeps so much at the most.
    pub(crate) fn new(held_max: ByteCount) -> Rc<Cover> {
        Rc::new(Cover { memory: Memory::new(held_max), known: RefCell::default() })
    }

    /// A device, covered.
    pub(crate) fn over(&self, device: DeviceRef) -> Rc<Overlay> {
        Overlay::within(device, &self.memory)
    }

    /// What covers the file or block device of an identity, made over this one where there is none yet.
    pub(crate) fn of(&self, identity: Identity, device: DeviceRef) -> Rc<Overlay> {
        let mut known = self.known.borrow_mut();
        Rc::clone(known.entry(identity).or_insert_with(|| self.over(device)))
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a write that reaches the file, one that whoever opens the file again doesn't find, a file that others write
    //! meanwhile.

    use crate::{FileDevice, FileOptions, HostRuntime, OpenError, ReactorKind};
    use rt::{Buf, Device, IoErrorKind, Request};
    use std::path::Path;
    use stdx::{ByteCount, Offset};

    const SECTOR: usize = 512;

    fn covered(held_max: ByteCount) -> HostRuntime {
        let mut runtime = HostRuntime::new(ReactorKind::Blocking).expect("runtime");
        runtime.cover(held_max);
        runtime
    }

    fn open(runtime: &HostRuntime, path: &Path, read_only: bool) -> Result<FileDevice, OpenError> {
        FileDevice::open(&runtime.host(), path, FileOptions { direct: false, read_only })
    }

    fn write(runtime: &HostRuntime, device: &FileDevice, at: u64, byte: u8) -> rt::IoResult {
        let data = Buf::copy_of(&[byte; SECTOR]);
        runtime.runtime().block_on(device.submit(Request::write(Offset(at), data))).expect("ends")
    }

    fn read(runtime: &HostRuntime, device: &FileDevice, at: u64) -> u8 {
        let asked = device.submit(Request::read(Offset(at), ByteCount(SECTOR as u64)));
        let bytes = runtime.runtime().block_on(asked).expect("ends").expect("read").to_vec();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        bytes[0]
    }

    #[test]
    fn what_is_written_is_found_by_any_name_and_never_in_the_file() {
        let folder = tempfile::tempdir().expect("folder");
        let (path, link) = (folder.path().join("disk"), folder.path().join("link"));
        std::fs::write(&path, vec![1; 16 * SECTOR]).expect("file");
        std::fs::hard_link(&path, &link).expect("link");
        let runtime = covered(ByteCount::mib(1));
        let reader = open(&runtime, &link, true).expect("reader");
        let device = open(&runtime, &path, false).expect("writer");
        write(&runtime, &device, 512, 7).expect("kept");
        for one in [&device, &reader, &open(&runtime, &link, false).expect("again")] {
            assert_eq!([0, 512, 1024].map(|at| read(&runtime, one, at)), [1, 7, 1]);
        }
        let refused = write(&runtime, &reader, 0, 2).expect_err("opened for reading");
        assert_eq!(refused.kind, IoErrorKind::ReadOnly);
        assert_eq!(std::fs::read(&path).expect("file"), vec![1; 16 * SECTOR]);
        drop((device, reader));
        drop(runtime);
        let anew = covered(ByteCount::mib(1));
        assert_eq!(read(&anew, &open(&anew, &path, true).expect("anew"), 512), 1);
    }

    #[test]
    fn others_don_t_write_meanwhile_and_who_writes_is_not_looked_over() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; 16 * SECTOR]).expect("file");
        let plain = HostRuntime::new(ReactorKind::Blocking).expect("runtime");
        {
            let runtime = covered(ByteCount::mib(1));
            let device = open(&runtime, &path, false).expect("covered");
            let refused = open(&plain, &path, false).err();
            assert!(matches!(refused, Some(OpenError::Locked(_))), "{refused:?}");
            drop(device);
        }
        let writer = open(&plain, &path, false).expect("nobody has it any more");
        let refused = open(&covered(ByteCount::mib(1)), &path, false).err();
        assert!(matches!(refused, Some(OpenError::Locked(_))), "{refused:?}");
        drop(writer);
    }

    #[test]
    fn memory_has_a_limit_for_all_files_together() {
        let folder = tempfile::tempdir().expect("folder");
        let runtime = covered(ByteCount::kib(4));
        let [one, other] = ["one", "other"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![1; 16 * SECTOR]).expect("file");
            open(&runtime, &path, false).expect("covered")
        });
        write(&runtime, &one, 0, 2).expect("fits");
        let full = write(&runtime, &other, 0, 2).expect_err("too much");
        assert_eq!(full.kind, IoErrorKind::NoSpace);
        assert!(full.to_string().contains("other (in memory)"), "{full}");
    }
}
