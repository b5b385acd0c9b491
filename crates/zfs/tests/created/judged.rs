//! That the judge is heard: what `zdb` finds wrong fails a test, in the quick form of the tests, too, which doesn't wait for its end.

use super::{Rig, files_of, new_file, top};
use fixtures::noise;
use fixtures::zdb::{Said, zdb};
use rt::{Buf, Device, Request};
use std::rc::Rc;
use stdx::Offset;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs_format::label::DATA_START;
use zfs_format::vdev::VdevKind;

fn said(rig: &Rig) -> Option<Said> {
    let folder = rig.dumped();
    zdb(["-e", "-p", folder.path().to_str().expect("a path"), "-bccdddd", "tank"])
}

#[test]
fn a_block_that_zdb_finds_wrong_is_told() {
    const BYTES: usize = 100_000;
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let files = super::datasets::files(&live, "tank").await;
        files.create(files.root_number(), b"one", &new_file(100)).await.expect("it is made");
        let bytes = Buf::copy_of(&noise(1, BYTES));
        files.write(100, 0, &bytes, BYTES as u64).await.expect("it is written");
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    let Some(whole) = said(&rig) else { return };
    assert!(whole.is_well && whole.text.contains("No leaks"), "{whole:?}");
    let device = Rc::clone(&rig.disks[0].1);
    rig.with(async move |spa: Rc<Spa>, _| {
        let node = files_of(&spa, "tank").await.node(100).await.expect("it is there");
        let place = node.dnode().phys().pointers[0].dvas().next().expect("it has a place");
        let junk = Request::write(Offset(place.offset() + DATA_START), Buf::copy_of(&[0xa5; 4096]));
        device.submit(junk).await.expect("it is written");
    });
    let spoilt = said(&rig).expect("it was there before");
    assert!(!spoilt.is_well && spoilt.text.contains("Error counts:"), "{spoilt:?}");
}
