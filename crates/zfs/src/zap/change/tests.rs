//! Tables against a map of names.
//!
//! What could break: a name that is lost when a table becomes fat, a leaf is split, or the table of pointers is doubled; a
//! name that is there twice; a listing that leaves a leaf out.

mod alike;

use super::*;
use crate::dmu::{Objset, blank};
use crate::zap::Zap;
use fixtures::extent::some;
use proptest::prelude::*;
use std::collections::BTreeMap as Map;
use zfs_format::object_type::ObjectType;

/// Of the tables here.
const SALT: u64 = 0x1234_5679;

async fn apply(
    objset: &Objset,
    dnode: &Dnode,
    name: &[u8],
    value: Option<LeafValue>,
) -> Result<bool, ZfsError> {
    let change = objset.change(|tx| {
        let mut plan = Plan::of(dnode)?;
        let there = match &value {
            Some(value) => {
                plan.set(name, value.clone())?;
                true
            }
            None => plan.remove(name)?,
        };
        plan.ready()?.carry_out(tx);
        Ok(there)
    });
    change.await
}

async fn table(objset: &Objset, endian: Endian) -> Dnode {
    let phys = blank::phys(ObjectType::DIRECTORY_CONTENTS, 1);
    blank::make(objset, 5, phys, Some(empty(SALT, 0, endian))).await
}

async fn check(dnode: &Dnode, model: &Map<Vec<u8>, LeafValue>) {
    let zap = Zap::open(dnode.clone()).await.expect("it is a table");
    assert_eq!(zap.len(), model.len() as u64);
    let listed = zap.entries().await.expect("it is listed");
    assert_eq!(listed.len(), model.len());
    for entry in listed {
        assert_eq!(model.get(&entry.name), Some(&entry.value), "{}", entry.text());
    }
    for (name, value) in model {
        assert_eq!(zap.get(name).await.expect("it is read").as_ref(), Some(value));
    }
    // What is kept of a micro table is what its block says.
    let kept = dnode.take_kept::<MicroTable>();
    let block = dnode.block(0).await.expect("it is read");
    if let Form::Micro(table) = Form::of(dnode, &block).expect("it is a table") {
        assert_eq!(kept, Some(table));
    }
}

fn value() -> impl Strategy<Value = LeafValue> {
    prop_oneof![
        8 => any::<u64>().prop_map(super::super::number_value),
        1 => proptest::collection::vec(any::<u8>().prop_map(u64::from), 0..90)
            .prop_map(|numbers| LeafValue { number_bytes: 1, numbers }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_table_has_the_names_that_were_put_in(
        acts in proptest::collection::vec((0u16..400, proptest::option::weighted(0.8, value())), 1..300),
        long in any::<bool>(),
    ) {
        blank::with(async move |objset, _| {
            let dnode = table(&objset, Endian::Little).await;
            let mut model = Map::new();
            for (name, value) in acts {
                let tail = if long && name % 5 == 0 { "x".repeat(60) } else { String::new() };
                let name = format!("name {name}{tail}").into_bytes();
                let there = apply(&objset, &dnode, &name, value.clone()).await.expect("it is changed");
                let was = match value {
                    Some(value) => {
                        model.insert(name, value);
                        true
                    }
                    None => model.remove(&name).is_some(),
                };
                assert_eq!(there, was);
            }
            check(&dnode, &model).await;
        });
    }

    #[test]
    fn one_plan_changes_several_names_of_a_micro_table(
        plans in proptest::collection::vec(
            proptest::collection::vec((0u8..40, proptest::option::weighted(0.5, any::<u64>())), 1..6),
            1..40,
        ),
    ) {
        blank::with(async move |objset, _| {
            let dnode = table(&objset, Endian::Little).await;
            let mut model = Map::new();
            for acts in plans {
                let changed = objset.change(|tx| {
                    let mut plan = Plan::of(&dnode)?;
                    for (name, value) in &acts {
                        match value {
                            Some(value) => plan.set(&[b'a' + name], super::super::number_value(*value))?,
                            None => drop(plan.remove(&[b'a' + name])?),
                        }
                    }
                    plan.ready()?.carry_out(tx);
                    Ok(())
                });
                changed.await.expect("it is changed");
                for (name, value) in acts {
                    let name = vec![b'a' + name];
                    match value {
                        Some(value) => drop(model.insert(name, super::super::number_value(value))),
                        None => drop(model.remove(&name)),
                    }
                }
                check(&dnode, &model).await;
            }
        });
    }
}

#[test]
fn a_micro_table_grows_and_becomes_fat_at_its_bound() {
    blank::with(async |objset, _| {
        let dnode = table(&objset, Endian::Little).await;
        let mut model = Map::new();
        // 128 KiB have place for 2047 names.
        for n in 0..2047u64 {
            let (name, value) = (format!("{n}").into_bytes(), super::super::number_value(n));
            apply(&objset, &dnode, &name, Some(value.clone())).await.expect("it fits");
            model.insert(name, value);
        }
        assert_eq!((dnode.block_bytes(), dnode.phys().block_id_max), (128 << 10, 0));
        let (name, value) = (b"one more".to_vec(), super::super::number_value(7));
        apply(&objset, &dnode, &name, Some(value.clone())).await.expect("it fits");
        model.insert(name, value);
        assert_eq!(dnode.block_bytes(), 1 << FAT_BLOCK_SHIFT);
        assert!(dnode.phys().block_id_max > 8, "leaves were split");
        check(&dnode, &model).await;
    });
}

#[test]
fn names_whose_hashes_begin_alike_double_the_table() {
    blank::with(async |objset, _| {
        let dnode = table(&objset, Endian::Little).await;
        let mut model = Map::new();
        // One name of 4096: leaves are split by bits behind the first 12, and the table gets blocks of its own.
        let begins_alike = |name: &String| hash_name(name.as_bytes(), SALT, 0) >> 52 == 0;
        let alike = (0u64..).map(|n| format!("{n:x}")).filter(begins_alike);
        for name in alike.take(700) {
            let value = super::super::number_value(name.len() as u64);
            let name = [name.as_bytes(), b""].concat();
            apply(&objset, &dnode, &name, Some(value.clone())).await.expect("it fits");
            model.insert(name, value);
            if model.len() == 1 {
                // What a micro table can't hold makes a fat one.
                let long = LeafValue { number_bytes: 1, numbers: vec![1; 9] };
                apply(&objset, &dnode, b"long", Some(long.clone())).await.expect("it fits");
                model.insert(b"long".to_vec(), long);
            }
        }
        let header = dnode.block(0).await.expect("it is read");
        let header = FatHeader::decode(header.bytes.bytes(), header.endian).expect("a header");
        assert!(header.table.blocks >= 2, "the table was doubled twice: {:?}", header.table);
        check(&dnode, &model).await;
        for name in model.keys() {
            assert_eq!(apply(&objset, &dnode, name, None).await, Ok(true));
        }
        check(&dnode, &Map::new()).await;
    });
}

/// From a micro table without names to one of many leaves: what came before in the plan is not in the object yet.
#[test]
fn one_plan_puts_in_so_many_names_that_the_table_grows_several_times() {
    blank::with(async |objset, _| {
        let dnode = table(&objset, Endian::Little).await;
        let name = |number: u64| format!("{:x}", number * 977);
        let entries: Vec<(String, LeafValue)> =
            (0..30_000).map(|number| (name(number), super::super::number_value(number))).collect();
        for some in [&entries[..7], &entries[7..]] {
            super::super::table::set_all(&objset, &dnode, some).await.expect("it takes them");
        }
        let model: Map<Vec<u8>, LeafValue> =
            entries.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
        check(&dnode, &model).await;
    });
}

#[test]
#[should_panic(expected = "as it was when this was planned")]
fn two_plans_for_one_table_are_a_bug() {
    blank::with(async |objset, _| {
        let dnode = table(&objset, Endian::Little).await;
        let _ = objset
            .change(|tx| {
                let (mut one, mut other) = (Plan::of(&dnode)?, Plan::of(&dnode)?);
                one.set(b"a", super::super::number_value(1))?;
                other.set(b"b", super::super::number_value(2))?;
                let (one, other) = (one.ready()?, other.ready()?);
                one.carry_out(tx);
                other.carry_out(tx);
                Ok(())
            })
            .await;
    });
}

/// A listing that is cut after so many entries and goes on when others were put in and taken out.
#[test]
fn a_listing_goes_on_at_its_place_whatever_was_changed_meanwhile() {
    const AT_ONCE: usize = 16;
    blank::with(async |objset, _| {
        for (before, normalization) in some([(40, 0), (2_040, 0), (2_500, 0), (2_040, 0x12)], 2) {
            let first = empty(SALT, normalization, Endian::Little);
            let phys = blank::phys(ObjectType::DIRECTORY_CONTENTS, 1);
            let dnode = blank::make(&objset, 100 + before + normalization, phys, Some(first)).await;
            let name = |what: &str, n: u64| format!("{what}-{n}");
            let names: Vec<(String, LeafValue)> = (0..before)
                .flat_map(|n| [name("stays", n), name("goes", n)])
                .take(before as usize)
                .map(|name| (name, super::super::number_value(1)))
                .collect();
            super::super::table::set_all(&objset, &dnode, &names).await.expect("it takes them");
            let (mut seen, mut cursor, mut round) = (Map::new(), crate::zap::Cursor::default(), 0);
            loop {
                let zap = Zap::open(dnode.clone()).await.expect("it is a table");
                let entries = zap.list(cursor).await.expect("it is listed");
                let Some(last) = entries.iter().take(AT_ONCE).next_back() else { break };
                assert!(last.next > cursor);
                cursor = last.next;
                for entry in entries.iter().take(AT_ONCE) {
                    *seen.entry(entry.text()).or_insert(0) += 1;
                }
                for n in round * 20..round * 20 + 20 {
                    let gone = name("goes", n).into_bytes();
                    apply(&objset, &dnode, &gone, None).await.expect("it is changed");
                    let new = name("new", n).into_bytes();
                    let value = super::super::number_value(2);
                    // For some rounds more come than are listed, and then none.
                    if round < 20 {
                        apply(&objset, &dnode, &new, Some(value)).await.expect("it fits");
                    }
                }
                round += 1;
            }
            for (name, _) in names.iter().filter(|(name, _)| name.starts_with("stays")) {
                assert_eq!(seen.get(name), Some(&1), "{name}");
            }
            assert!(seen.values().all(|times| *times == 1), "{seen:?}");
        }
    });
}
