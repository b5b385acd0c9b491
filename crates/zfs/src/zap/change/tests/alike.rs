//! Tables that normalise names, small and large.
//!
//! What could break: of names that become the same one hides another, or takes its place or its value; one is taken out for another; a
//! name that is there is looked for in another leaf; names of one hash are more than a leaf holds.

use super::super::super::number_value;
use super::*;
use zfs_format::zap::normalization::{NFC, UPPER};

async fn table_of(objset: &Objset, number: u64, normalization: u64) -> Dnode {
    let phys = blank::phys(ObjectType::DIRECTORY_CONTENTS, 1);
    let first = empty(0x1234_5679, normalization, Endian::Little);
    blank::make(objset, number, phys, Some(first)).await
}

/// Sets a name that is meant so, or takes it out.
async fn act(
    objset: &Objset,
    dnode: &Dnode,
    (name, which): (&str, Match),
    value: Option<u64>,
) -> Result<bool, ZfsError> {
    let change = objset.change(|tx| {
        let mut plan = Plan::of(dnode)?;
        let done = match value {
            Some(value) => {
                plan.set_as(name.as_bytes(), number_value(value), which)?;
                true
            }
            None => plan.remove_as(name.as_bytes(), which)?,
        };
        plan.ready()?.carry_out(tx);
        Ok(done)
    });
    change.await
}

async fn get(dnode: &Dnode, name: &str, which: Match) -> Option<u64> {
    let zap = Zap::open(dnode.clone()).await.expect("it is a table");
    let value = zap.get_as(name.as_bytes(), which).await.expect("it is read")?;
    let planned = Plan::of(dnode).and_then(|plan| plan.get_as(name.as_bytes(), which));
    assert_eq!(planned.ok().flatten().as_ref(), Some(&value), "a plan finds the same");
    value.number()
}

/// A name of a few, in one of four spellings.
fn spelled(number: u16, spelling: u8) -> String {
    let accent = if spelling & 1 == 0 { "é" } else { "e\u{301}" };
    let tail = if number.is_multiple_of(7) { "x".repeat(60) } else { String::new() };
    let name = format!("name {number} {accent}{tail}");
    if spelling & 2 == 0 { name } else { name.to_uppercase() }
}

/// What all spellings become that are the same as one.
fn kept(name: &str, which: Match) -> Vec<u8> {
    let how = match which {
        Match::Exact => 0,
        Match::InCase => NFC,
        Match::Alike => NFC | UPPER,
    };
    super::super::super::normalized(name.as_bytes(), how).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn names_that_become_the_same_are_one_or_several_as_is_meant(
        acts in proptest::collection::vec(
            (0u16..120, 0u8..4, proptest::option::weighted(0.7, any::<u64>())),
            1..300,
        ),
        which in prop_oneof![Just(Match::Exact), Just(Match::InCase), Just(Match::Alike)],
    ) {
        blank::with(async move |objset, _| {
            let dnode = table_of(&objset, 5, NFC | UPPER).await;
            // By what they are kept as, the name that was there first and its value.
            let mut model: Map<Vec<u8>, (String, u64)> = Map::new();
            for (number, spelling, value) in acts {
                let name = spelled(number, spelling);
                let key = kept(&name, which);
                let done = act(&objset, &dnode, (&name, which), value).await.expect("it is changed");
                let was = match value {
                    Some(value) => {
                        model.entry(key).or_insert((name, value)).1 = value;
                        true
                    }
                    None => model.remove(&key).is_some(),
                };
                assert_eq!(done, was);
            }
            let model = &model;
            let names = model.values();
            let names = names.map(|(name, value)| (name.clone().into(), number_value(*value)));
            check(&dnode, &names.collect()).await;
            for number in 0..120 {
                for spelling in 0..4 {
                    let name = spelled(number, spelling);
                    let known = model.get(&kept(&name, which)).map(|(_, value)| *value);
                    assert_eq!(get(&dnode, &name, which).await, known, "{name}");
                }
            }
        });
    }
}

#[test]
fn of_several_the_one_with_the_lowest_differentiator_is_meant() {
    blank::with(async |objset, _| {
        for is_fat in [false, true] {
            let dnode = table_of(&objset, 5 + u64::from(is_fat), UPPER).await;
            if is_fat {
                // Longer than a small table takes.
                let long = "y".repeat(60);
                act(&objset, &dnode, (&long, Match::Exact), Some(0)).await.expect("it fits");
            }
            let set = async |name, value| {
                act(&objset, &dnode, (name, Match::InCase), value).await.expect("it is changed")
            };
            for (name, value) in [("name", 1), ("NAME", 2), ("Name", 3)] {
                assert!(set(name, Some(value)).await);
            }
            for (name, value) in [("name", 1), ("NAME", 2), ("Name", 3)] {
                assert_eq!(get(&dnode, name, Match::Alike).await, Some(1));
                assert_eq!(get(&dnode, name, Match::InCase).await, Some(value));
            }
            assert_eq!(get(&dnode, "nAME", Match::InCase).await, None);
            assert!(set("name", None).await && !set("nAME", None).await);
            assert_eq!(get(&dnode, "name", Match::Alike).await, Some(2));
            // The lowest that is free is another's now.
            set("nAme", Some(4)).await;
            assert_eq!(get(&dnode, "name", Match::Alike).await, Some(4));
            // And stays, when a table becomes a large one.
            let long = "z".repeat(60);
            act(&objset, &dnode, (&long, Match::Exact), Some(0)).await.expect("it fits");
            assert_eq!(get(&dnode, "name", Match::Alike).await, Some(4));
            let done = act(&objset, &dnode, ("NAME", Match::Alike), None).await;
            assert_eq!(done, Ok(true));
            assert_eq!(get(&dnode, "nAme", Match::InCase).await, None);
            assert_eq!(get(&dnode, "name", Match::Alike).await, Some(2));
        }
    });
}

/// Names of one hash are in one leaf, and OpenZFS stops the machine where it can't make a large table of a small one.
#[test]
fn as_many_names_of_one_hash_are_taken_as_a_leaf_holds() {
    blank::with(async |objset, _| {
        let dnode = table_of(&objset, 5, UPPER).await;
        let letters = |number: u32| {
            let letter = |bit: u32| if number >> bit & 1 == 0 { 'a' } else { 'A' };
            (0..8).map(letter).collect::<String>() + &"b".repeat(41)
        };
        let mut model = Map::new();
        let mut refused = None;
        for number in 0..256 {
            let name = letters(number);
            let is_small = dnode.phys().block_id_max == 0;
            assert_eq!(is_small, number <= 127, "{number}");
            match act(&objset, &dnode, (&name, Match::InCase), Some(number.into())).await {
                Ok(_) => drop(model.insert(name.into_bytes(), number_value(number.into()))),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let no_room = Problem::NoRoom("a name that collides with too many");
        assert_eq!(refused, Some(dnode.problem(no_room)));
        assert!(model.len() >= 127, "{}", model.len());
        // Others still are.
        act(&objset, &dnode, ("other", Match::InCase), Some(7)).await.expect("it fits");
        model.insert(b"other".to_vec(), number_value(7));
        check(&dnode, &model).await;
    });
}
