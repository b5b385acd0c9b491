//! Objects changed: bytes, sizes, holes, and numbers that are used again.
//!
//! What could break: bytes of a block that was freed come back; a hole is told where there is data; the end of a range takes
//! what lies behind it; a group that closed sees what came after; an object has two handles that differ.

use crate::dmu::blank;
use crate::error::{Problem, ZfsError};
use proptest::prelude::*;
use rt::Buf;
use zfs_format::object_type::ObjectType;

const BLOCK: u64 = 1024;

#[derive(Clone, Debug)]
enum Act {
    Write(u64, usize, u8),
    Zero(u64, u64),
    Rotate,
    Read(u64, usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u64..20_000, 1usize..3000, 1u8..).prop_map(|(at, len, byte)| Act::Write(at, len, byte)),
        3 => (0u64..20_000, 1u64..9000).prop_map(|(at, len)| Act::Zero(at, at + len)),
        1 => Just(Act::Rotate),
        2 => (0u64..25_000, 1usize..5000).prop_map(|(at, len)| Act::Read(at, len)),
    ]
}

proptest! {
    #[test]
    fn an_object_is_what_bytes_would_be(acts in proptest::collection::vec(act(), 1..40)) {
        let ran = blank::with(async move |objset, groups| -> Result<(), TestCaseError> {
            let phys = blank::phys(ObjectType::PLAIN_FILE_CONTENTS, 2);
            let dnode = blank::make(&objset, 40, phys, None).await;
            let mut model = vec![0u8; 40_000];
            let mut rotated = false;
            for act in acts {
                match act {
                    Act::Write(at, len, byte) => {
                        let bytes = Buf::copy_of(&vec![byte; len]);
                        let end = at + len as u64;
                        let change = objset.change(|tx| {
                            dnode.plan_write(at..end)?;
                            dnode.write(tx, at, &bytes);
                            Ok(())
                        });
                        change.await.expect("it is written");
                        model[at as usize..end as usize].fill(byte);
                    }
                    Act::Zero(from, to) => {
                        let change = objset.change(|tx| {
                            dnode.plan_zero(from..to)?;
                            dnode.zero(tx, from..to);
                            Ok(())
                        });
                        change.await.expect("it is zeroed");
                        model[from as usize..to as usize].fill(0);
                    }
                    // One group syncs at a time, and here none ends.
                    Act::Rotate if rotated => {}
                    Act::Rotate => {
                        groups.rotate();
                        rotated = true;
                    }
                    Act::Read(at, len) => {
                        let found = dnode.read(at, len).await.expect("it is read").to_vec();
                        prop_assert_eq!(&found[..], &model[at as usize..at as usize + len]);
                    }
                }
                prop_assert!(objset.dnode(40).await.is_ok_and(|again| again.version() == dnode.version()));
            }
            let found = dnode.read(0, model.len()).await.expect("it is read").to_vec();
            prop_assert_eq!(&found, &model);
            // No data lies in what is told to be a hole.
            let mut at = 0;
            while let Some(data) = dnode.next_data(at).await.expect("it is known") {
                prop_assert!(model[at as usize..data as usize].iter().all(|byte| *byte == 0));
                prop_assert!(data < dnode.capacity() && (data % BLOCK == 0 || data == at));
                at = dnode.next_hole(data).await.expect("it is known");
                prop_assert!(at > data);
            }
            prop_assert!(model[at as usize..].iter().all(|byte| *byte == 0));
            Ok(())
        });
        ran?;
    }
}

#[test]
fn a_number_is_used_again_only_when_it_is_free() {
    blank::with(async |objset, _| {
        let phys = || blank::phys(ObjectType::PLAIN_FILE_CONTENTS, 2);
        let first = blank::make(&objset, 70, phys(), Some(Buf::copy_of(&[7; 1024]))).await;
        let taken = objset.look(|| objset.plan_allocate(70, 1).map(|_| ())).await;
        assert_eq!(taken, Err(objset.wrong(70, Problem::Taken)));
        let across = objset.look(|| objset.plan_allocate(69, 2).map(|_| ())).await;
        assert_eq!(across, Err(objset.wrong(70 - 1, Problem::Taken)), "its second slot is taken");
        let freed = objset.change(|tx| {
            objset.free(tx, &first);
            Ok(())
        });
        let freed = freed.await;
        assert!(freed.is_ok());
        let gone =
            |result: Result<_, ZfsError>| result.err() == Some(objset.wrong(70, Problem::Absent));
        assert!(gone(objset.dnode(70).await.map(|_| ())));
        assert!(gone(first.block(0).await.map(|_| ())), "who still holds it finds nothing");
        let second = blank::make(&objset, 70, phys(), None).await;
        let bytes = second.block(0).await.expect("it is read").bytes;
        assert!(bytes.bytes().iter().all(|byte| *byte == 0), "nothing comes back");
        let (found, _) = objset.dnodes_from(0).await.expect("they are read").expect("there is one");
        assert_eq!(found.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [70]);
    });
}

#[test]
#[should_panic(expected = "has planned all of it before")]
fn a_change_that_needs_a_block_after_it_changed_something_is_a_bug() {
    blank::with(async |objset, _| {
        let phys = blank::phys(ObjectType::PLAIN_FILE_CONTENTS, 2);
        let dnode = blank::make(&objset, 40, phys, None).await;
        let _ = objset
            .change(|tx| {
                dnode.zero(tx, 0..10);
                objset.resident(41).map(|_| ())
            })
            .await;
    });
}
