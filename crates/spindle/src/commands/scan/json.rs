//! What a scan found, as JSON.

use super::seen::{PoolSeen, Scan, is_rest, serve, unwrap};
use attach::survey::{GroupSeen, Holds, Place, ServedBy, SetSeen};
use serde_json::{Map, Value, json};
use zfs::spa::PoolState;

impl Scan {
    /// All of it.
    pub fn as_json(&self) -> Value {
        let sets: Vec<Value> = self.survey.sets.iter().map(|set| self.set_json(set)).collect();
        let groups: Vec<Value> =
            self.survey.groups.iter().map(|one| self.group_json(one)).collect();
        let pools = self.pools.iter().map(|PoolSeen { found, standing, forced }| {
            let stale = standing.stale.all(&standing.health).into_iter().map(|(leaf, groups)| {
                json!({ "device": standing.name_of(leaf), "lacks_groups": groups })
            });
            let is_next = standing.is_readable && forced.is_empty();
            let short = found.short().into_iter().map(|(guid, short)| {
                json!({
                    "device": standing.devices.get(&guid), "bytes": short.has.bytes(),
                    "needed_bytes": short.needed.bytes(),
                })
            });
            json!({
                "name": found.name, "guid": found.guid.to_string(),
                "state": standing.health.health.name(), "opens": standing.is_open,
                "exported": found.state == PoolState::Exported,
                "destroyed": found.state == PoolState::Destroyed,
                "held_by": standing.holder.as_ref().map(|holder| holder.process),
                "devices": standing.devices.values().collect::<Vec<_>>(),
                "lacking": standing.lacking(found),
                "lost": standing.stale.lost_json(&standing.health, &standing.devices),
                "apart": standing.stale.apart_json(&standing.health, &standing.devices),
                "stale": stale.collect::<Vec<_>>(), "short": short.collect::<Vec<_>>(), "by_force": forced,
                "next": is_next.then(|| format!("{} zfs list -r {}", self.command, self.pool_name(found))),
            })
        });
        let devices: Vec<Value> =
            self.survey.devices.iter().map(|one| self.place_json(one)).collect();
        json!({ "devices": devices, "sets": sets, "groups": groups, "pools": pools.collect::<Vec<_>>() })
    }

    fn set_json(&self, set: &SetSeen) -> Value {
        let slots = set.slots.iter().enumerate().map(|(number, slot)| {
            json!({
                "slot": number, "device": slot.device, "rebuilding": slot.rebuilding,
                "events_behind": slot.behind,
            })
        });
        let beside =
            set.beside.iter().map(|(device, what)| json!({ "device": device, "what": what }));
        let mut value = json!({
            "name": set.name, "uuid": set.uuid, "level": set.level,
            "slots": slots.collect::<Vec<_>>(), "beside": beside.collect::<Vec<_>>(),
            "whole": set.is_whole(), "clean": !set.unclean, "reshaping": set.reshaping,
            "by_force": set.by_force, "force_helps": set.force_helps, "resyncing": set.resyncing,
            "served": set.served.is_some(),
            "histories": set.histories.as_ref().map(|found| json!({
                "odd": found.odd, "most": found.most, "seconds": found.seconds,
            })),
        });
        if let Some(ServedBy::Process(process)) = set.served {
            value["served_by"] = process.into();
        }
        match &set.place {
            Ok(place) => value["volume"] = self.place_json(place),
            Err(why) => {
                let next = match set.force_helps {
                    _ if set.served.is_some() => None,
                    _ if !set.alone.is_empty() => Some(format!("{} scan", super::alone(set))),
                    true => Some(format!("{} scan --force", self.command)),
                    false => None,
                };
                value["refused"] = why.as_str().into();
                value["next"] = json!(next);
            }
        }
        value
    }

    fn group_json(&self, group: &GroupSeen) -> Value {
        let physical =
            group.physical.iter().map(|(device, id)| json!({ "device": device, "uuid": id }));
        let short = group.short.iter().map(|(device, has, needed)| {
            json!({ "device": device, "bytes": has, "needed_bytes": needed })
        });
        let alike =
            group.alike.iter().map(|(id, devices)| json!({ "uuid": id, "devices": devices }));
        let logical = group.logical.iter().map(|one| match one {
            Ok(place) => self.place_json(place),
            Err((name, why)) => json!({ "name": name, "refused": why }),
        });
        let outdated = group
            .outdated
            .iter()
            .map(|(device, seqno)| json!({ "device": device, "seqno": seqno }));
        json!({
            "outdated": outdated.collect::<Vec<_>>(), "contradicting": group.contradicting,
            "name": group.name, "uuid": group.uuid, "bytes": group.size.bytes(), "free_bytes": group.free.bytes(),
            "physical": physical.collect::<Vec<_>>(), "logical": logical.collect::<Vec<_>>(),
            "older_seqno": group.older, "short": short.collect::<Vec<_>>(),
            "alike": alike.collect::<Vec<_>>(), "next": super::one_of_alike(group),
        })
    }

    fn place_json(&self, place: &Place) -> Value {
        let mut holds = Map::new();
        let mut is = |kind: &str, of: Option<(&str, Value)>| {
            holds.insert("kind".to_owned(), kind.into());
            holds.extend(of.map(|(key, value)| (key.to_owned(), value)));
        };
        let mut next = None;
        match &place.holds {
            Holds::Member(set) => is("md", Some(("set", set.as_str().into()))),
            Holds::PoolDevice(pool) => is("zfs", Some(("pool", pool.as_str().into()))),
            Holds::PoolSpare => is("zfs", None),
            Holds::Physical(group) => is("lvm", Some(("group", group.as_str().into()))),
            Holds::OfSet(set) => is("of_set", Some(("set", set.as_str().into()))),
            Holds::Partitions(form) => is("partitions", Some(("table", (*form).into()))),
            Holds::Content(content) => {
                is(content.kind.name(), Some(("label", json!(content.label))));
                holds.insert("id".to_owned(), json!(content.id));
                holds.insert("bytes".to_owned(), json!(content.size.map(|size| size.bytes())));
                holds.insert("clean".to_owned(), json!(!content.unclean));
                let has_more = content.kind.is_file_system() || content.kind.is_encrypted();
                next =
                    has_more.then(|| format!("{} {}", self.command, serve(&self.together(place))));
            }
            Holds::Signature(what, by) => {
                is("other", Some(("what", (*what).into())));
                next = by.map(|by| unwrap(&place.name, by));
            }
            Holds::Unknown => is("unknown", None),
            Holds::Nothing => is("nothing", None),
            Holds::Unreadable(why) => is("unreadable", Some(("why", why.as_str().into()))),
        }
        if is_rest(place) {
            next = Some(format!("{} {}", self.command, serve(&self.together(place))));
        }
        let parts: Vec<Value> = place.parts.iter().map(|part| self.place_json(part)).collect();
        let mut value = json!({ "name": place.name, "bytes": place.size.bytes(), "holds": holds, "lacks": place.lacks, "next": next });
        if !parts.is_empty() {
            value["partitions"] = parts.into();
        }
        value
    }
}
