//! Forms: columns, sorting, depth, kinds, JSON.

use crate::zfs_list::{done, pool_of};
use serde_json::{Value, json};

const POOL: &str = "t_snapshots_clones";

#[test]
fn lists_have_the_columns_order_and_depth_that_are_asked_for() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "snapshots-clones");
    let shown = |arguments: &[&str]| done(disks.path(), &[&["zfs", "list"], arguments].concat());
    let names = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split('\t').next().unwrap_or("").to_owned()).collect()
    };
    let below = ["a", "clone", "limits", "off", "promoted"].map(|name| format!("{POOL}/{name}"));
    assert_eq!(names(&shown(&["-H", "-d", "1"]))[1..], below);
    assert_eq!(names(&shown(&["-H", POOL])), [POOL]);
    assert_eq!(names(&shown(&["-H", "-t", "snap", POOL])), [format!("{POOL}@one")]);
    let bookmarks = shown(&["-H", "-t", "bookmark", "-r", "-o", "name,type,creation", POOL]);
    assert_eq!(bookmarks, format!("{POOL}/a#mark\tbookmark\tSat Nov 21 20:17 2026\n"));
    // The head's words name columns too.
    let text = shown(&["-o", "name,refer,ratio", &format!("{POOL}/a")]);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "REFER", "RATIO"]);
    assert_eq!(lines[1][0], format!("{POOL}/a"));
    let sorted = shown(&["-Hp", "-r", "-S", "used", "-o", "used"]);
    let used: Vec<u64> = sorted.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(used.len() > 5 && used.is_sorted_by(|a, b| a >= b), "{used:?}");
    let space = shown(&["-o", "space", POOL]);
    let heads: Vec<&str> = space.lines().next().unwrap_or("").split_whitespace().collect();
    assert_eq!(
        heads,
        ["NAME", "AVAIL", "USED", "USEDSNAP", "USEDDS", "USEDREFRESERV", "USEDCHILD"]
    );
}

#[test]
fn values_say_where_they_come_from_and_can_be_chosen_by_it() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "snapshots-clones");
    let get = |arguments: &[&str]| done(disks.path(), &[&["zfs", "get"], arguments].concat());
    let below = format!("{POOL}/a/b");
    let text = get(&[
        "-H",
        "-o",
        "property,value,source",
        "compression,com.example:x,written@one",
        &below,
    ]);
    let from = format!(
        "compression\tzstd\tinherited from {POOL}/a\ncom.example:x\t1\tinherited from {POOL}\n"
    );
    assert_eq!(text, format!("{from}written@one\t-\t-\n"));
    let local =
        get(&["-H", "-s", "local", "-o", "name,property", "all", &format!("{POOL}/limits")]);
    let local: Vec<&str> = local.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    assert_eq!(local, ["quota", "reservation", "refquota"]);
    let text = get(&["-Hp", "-o", "value", "written@one", &format!("{POOL}/a")]);
    assert!(text.trim().parse::<u64>().is_ok(), "{text}");
}

#[test]
fn accounts_of_users_are_those_of_the_file_system() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "names-quotas");
    let text = std::fs::read_to_string(folder.join("names-quotas.d/userspace.txt"));
    let text = text.expect("a text");
    let dataset = format!("{}/quota", pool_of("names-quotas"));
    let (mut names, mut expected) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with("TYPE")) {
        let words: Vec<&str> = line.trim_start_matches("POSIX ").split_whitespace().collect();
        let [whose, id, used, quota, objects, object_quota] = words[..] else { continue };
        let whose = whose.to_lowercase();
        for (what, value) in
            [("used", used), ("quota", quota), ("objused", objects), ("objquota", object_quota)]
        {
            names.push(format!("{whose}{what}@{id}"));
            expected.push(value);
        }
    }
    assert!(names.len() > 40, "{text}");
    let names = names.join(",");
    let shown = done(disks.path(), &["zfs", "get", "-Hp", "-o", "value", &names, &dataset]);
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "{names}");
    // Whom no table knows has used nothing, and has no limit.
    let unknown = ["zfs", "get", "-Hp", "-o", "value", "userused@7777,groupquota@7777", &dataset];
    assert_eq!(done(disks.path(), &unknown), "0\n0\n");
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn json_has_the_shape_of_openzfs() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "log-cache-special");
    let pool = pool_of("log-cache-special");
    let run = |arguments: &[&str]| parsed(&done(disks.path(), arguments));
    let list = run(&["zfs", "list", "-j", "-p", &pool]);
    let property =
        |value: &str, kind: &str| json!({"value": value, "source": {"type": kind, "data": "-"}});
    let expected = json!({
        "output_version": {"command": "zfs list", "vers_major": 0, "vers_minor": 1},
        "datasets": {&pool: {
            "name": &pool, "type": "FILESYSTEM", "pool": &pool, "createtxg": "1",
            "properties": {
                "used": property("737792", "NONE"),
                "available": property("41205248", "NONE"),
                "referenced": property("402432", "NONE"),
                "mountpoint": property("/t_log_cache_special", "LOCAL"),
            },
        }},
    });
    assert_eq!(list, expected);
    let get = run(&["zfs", "get", "-j", "--json-int", "createtxg,used", &pool]);
    assert_eq!(get["datasets"][&pool]["createtxg"], 1);
    assert_eq!(get["datasets"][&pool]["properties"]["used"]["value"], 737_792);
    let status = run(&["zpool", "status", "-j"]);
    let one = &status["pools"][&pool];
    assert_eq!(one["pool_guid"], "9614157352010720814");
    assert_eq!(one["error_count"], "0");
    let root = &one["vdevs"][&pool];
    assert_eq!((&root["vdev_type"], &root["total_space"]), (&json!("root"), &json!("144M")));
    let mirror = &root["vdevs"]["mirror-0"];
    assert_eq!((&mirror["state"], &mirror["total_space"]), (&json!("ONLINE"), &json!("80M")));
    assert_eq!(mirror["vdevs"]["disk0.raw"]["phys_space"], "96M");
    assert_eq!(one["special"]["disk4.raw"]["class"], "special");
    assert_eq!(one["logs"]["disk2.raw"]["class"], "log");
    assert_eq!(one["l2cache"]["disk3.raw"]["class"], "l2cache");
    let list = run(&["zpool", "list", "-j", "-v"]);
    let one = &list["pools"][&pool];
    assert_eq!(one["properties"]["size"]["value"], "144M");
    assert_eq!(one["vdevs"]["mirror-0"]["properties"]["size"]["value"], "80M");
    let get = run(&["zpool", "get", "-j", "size,feature@async_destroy", &pool]);
    let feature = &get["pools"][&pool]["properties"]["feature@async_destroy"];
    assert_eq!(*feature, json!({"value": "enabled", "source": {"type": "LOCAL", "data": "-"}}));
}
