//! Sets that can only be put together by force, and groups that lack disks: what lies on them, and the way to it.
//!
//! What could break: a refusal that ends the way to files that are there; a command to type next that does not do it, or looks
//! elsewhere; a set that is put together by force where nobody asked for that, or is written.

use super::*;

/// A set that only force puts together, with a volume that holds ext4; and the image of that.
fn in_need_of_force() -> Option<(tempfile::TempDir, PathBuf)> {
    let (dir, ext4) = set_with_volume()?;
    let at = dir.path();
    // The volume's extents are where the metadata of LVM says: the client that writes is ours.
    let address = format!("unix:{}/s", at.display());
    let serve = ["-d", "disks", "serve", "--volume", "vg0/home", "--nbd", &address];
    let serving = Serving::start(&mut program(at, &serve));
    let mut client = serving::connected(&at.join("s"), "vg0/home").expect("it is served");
    serving::write(&mut client, &fs::read(&ext4).expect("it is read"));
    drop(client);
    serving.stop();
    done(at, &["-d", "disks", "md", "fail", "data", "disks/a"]);
    fs::rename(at.join("disks/b"), at.join("b")).expect("away");
    Some((dir, ext4))
}

/// The command that a refusal says to type next.
#[track_caller]
fn next_of(at: &Path, call: &[&str]) -> Vec<String> {
    let output = run(at, call);
    let text = said(&output);
    assert!(!output.status.success(), "{call:?}");
    let line = text.lines().last().and_then(|line| line.split("; next: spindle ").nth(1));
    let line = line.unwrap_or_else(|| panic!("{call:?}: {text}"));
    line.split(' ').map(str::to_owned).collect()
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[test]
fn a_set_that_takes_force_is_looked_into_and_its_volume_is_read() {
    fixtures::takes_long!();
    let Some((dir, ext4)) = in_need_of_force() else { return };
    let at = dir.path();
    let before = images(&at.join("disks"));
    let text = done(at, &["-d", "disks", "scan"]);
    assert!(text.contains("RAID set data: raid5, can't be opened") && !text.contains("vg0"));
    let scan = next(&text, "scan");
    assert_eq!(scan, ["-d", "disks", "scan", "--force"]);
    let text = done(at, &words(&scan));
    for line in [
        ", put together by force: 2 of 3 members",
        "  slot 0  disks/a (taken back, ",
        "  slot 1  missing",
        "    vg0/home  24 MiB  ext4 \"home\"",
        "; nothing was written",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let serve = next(&text, "serve");
    let by_force = ["-d", "disks", "serve", "--volume", "vg0/home", "--readonly", "--force"];
    assert_eq!(serve, by_force);
    let json: Value =
        serde_json::from_str(&done(at, &[&words(&scan)[..], &["-j"]].concat())).expect("JSON");
    let set = &json["sets"][0];
    assert_eq!((&set["by_force"], &set["whole"]), (&true.into(), &false.into()));
    assert!(set["slots"][0]["events_behind"].as_u64().is_some_and(|events| events > 0), "{set}");
    let command = format!("spindle {}", by_force.join(" "));
    assert_eq!(json["groups"][0]["logical"][0]["next"], command.as_str());

    // Each refusal says the whole command, and that does it.
    let on = ["-d", "disks"];
    for (call, wanted) in [
        (&["md", "assemble", "data"][..], &["md", "assemble", "data", "--readonly", "--force"][..]),
        (&["md", "dump", "data", "set"], &["md", "dump", "data", "set", "--force"]),
        (&["md", "serve", "data"], &["md", "serve", "data", "--readonly", "--force"]),
        (&["md", "check", "data"], &["md", "assemble", "data", "--readonly", "--force"]),
        (&["serve", "--volume", "vg0/home"], &by_force[2..]),
        (&["serve", "--volume", "vg0/home", "--readonly"], &by_force[2..]),
        (&["serve", "--volume", "vg0/home", "--force"], &by_force[2..]),
        (&["serve", "--volume", "data"], &["serve", "--volume", "data", "--readonly", "--force"]),
        (&["lvm", "dump", "vg0/home", "out"], &["lvm", "dump", "vg0/home", "out", "--force"]),
    ] {
        let found = next_of(at, &[&on, call].concat());
        assert_eq!(found, [&on, wanted].concat(), "{call:?}");
        if !wanted.contains(&"serve") {
            done(at, &words(&found));
        }
    }
    assert_eq!(hash_of(&at.join("out")), hash_of(&ext4));
    let without = "force puts a RAID set together for reading alone";
    refused(at, &["-d", "disks", "serve", "--volume", "data", "--force"], without);
    fs::create_dir(at.join("m")).expect("made");
    let lends = "next: spindle -d disks serve --volume data --readonly --force lends it to Linux";
    refused(at, &["-d", "disks", "mount", "data", "m"], lends);
    let looks = "; next: spindle -d disks scan --force\n";
    for call in [&["mount", "tank/home", "m"][..], &["zfs", "list", "tank/home"]] {
        let call = [&on, call].concat();
        refused(at, &call, looks);
        refused(at, &call, "; spindle -d disks scan --force looks into it\n");
    }
    assert_eq!(done(at, &["disks", "--force"]), done(at, &["scan", "disks", "--force"]));

    let address = format!("unix:{}/s", at.display());
    let serve = [&by_force[..], &["--nbd", &address]].concat();
    let serving = Serving::start(&mut program(at, &serve));
    let mut client = serving::connected(&at.join("s"), "vg0/home").expect("it is served");
    let read = serving::read(&mut client, 1 << 20);
    assert!(fs::read(&ext4).expect("it is read").starts_with(&read));
    drop(client);
    serving.stop();
    assert!(images(&at.join("disks")) == before, "something was written");
}

/// What could break: a list that says that there is nothing, and that all went well, where a set was not started.
#[test]
fn groups_on_a_set_that_takes_force_are_not_told_to_be_none() {
    let Some((dir, _)) = in_need_of_force() else { return };
    let at = dir.path();
    let before = images(&at.join("disks"));
    for (list, row) in [("lvs", "home "), ("vgs", "vg0 "), ("pvs", " vg0 ")] {
        let call = ["-d", "disks", "lvm", list];
        let output = run(at, &call);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("data") && text.contains("2 of 3 members are missing"), "{text}");
        assert!(text.contains("data was not started; next: "), "{text}");
        let next = next_of(at, &call);
        assert_eq!(next, ["-d", "disks", "lvm", list, "--force"]);
        let listed = done(at, &words(&next));
        assert!(listed.contains(row), "{listed}");
    }
    assert!(images(&at.join("disks")) == before, "something was written");
    // Nothing to force: the way is to look.
    fs::rename(at.join("disks/a"), at.join("a")).expect("away");
    let next = next_of(at, &["-d", "disks", "lvm", "vgs"]);
    assert_eq!(next, ["-d", "disks", "scan"]);
}

/// What could break: force that was meant for one export opens a set for others, or is passed over where it means nothing.
#[test]
fn force_is_of_the_export_that_has_it() {
    let Some((dir, _)) = in_need_of_force() else { return };
    let at = dir.path();
    let configured = |exports: &str| {
        let listen = format!("listen = [\"unix:{}/s\"]\ndevices = [\"disks\"]\n", at.display());
        fs::write(at.join("c.toml"), format!("{listen}{exports}")).expect("written");
    };
    let export = |name: &str, more: &str| {
        format!("[[export]]\nname = \"{name}\"\nvolume = \"vg0/home\"\nreadonly = true\n{more}")
    };
    configured(&(export("one", "force = true\n") + &export("two", "")));
    refused(
        at,
        &["serve", "--config", "c.toml"],
        "vg0/home: it lies on a RAID set that was put together by force",
    );
    configured(&export("one", "force = true\n"));
    Serving::start(&mut program(at, &["serve", "--config", "c.toml"])).stop();
    // Where nothing takes force it does no harm, and is still for reading alone.
    fs::rename(at.join("b"), at.join("disks/b")).expect("back");
    done(at, &["-d", "disks", "lvm", "dump", "vg0/home", "one", "--force"]);
    let text = done(at, &["-d", "disks", "scan", "--force"]);
    assert!(text.contains("degraded: 2 of 3") && !text.contains(" --force"), "{text}");
    let call = ["-d", "disks", "serve", "--volume", "vg0/home", "--force"];
    refused(at, &call, "force puts a RAID set together for reading alone");
    refused(at, &["serve", "disks/c", "--force"], "force is for a volume");
}

/// What could break: a pool on such a set that is shown, and can't be got at.
#[test]
fn a_pool_on_a_set_that_takes_force_is_read_through_its_server() {
    let dir = folder();
    let at = dir.path();
    three_disks(at, 64 * MIB);
    let make =
        ["md", "create", "data", "-l5", "-n3", "--assume-clean", "disks/a", "disks/b", "disks/c"];
    done(at, &make);
    done(at, &["-d", "disks", "zpool", "create", "tank", "data"]);
    done(at, &["-d", "disks", "zfs", "create", "tank/home"]);
    done(at, &["-d", "disks", "md", "fail", "data", "disks/a"]);
    fs::rename(at.join("disks/b"), at.join("b")).expect("away");
    let text = done(at, &["-d", "disks", "scan", "--force"]);
    let serve = next(&text, "serve");
    assert_eq!(serve, ["-d", "disks", "serve", "--volume", "data", "--readonly", "--force"]);
    assert!(text.contains("then: spindle -d nbd://127.0.0.1/data zfs list -r tank"), "{text}");
    let address = format!("unix:{}/s", at.display());
    let mut command = program(at, &words(&serve));
    let serving = Serving::start(command.args(["--nbd", &address]));
    let uri = format!("nbd+unix:///data?socket={}/s", at.display());
    assert!(done(at, &["-d", &uri, "zfs", "list", "-r", "tank"]).contains("tank/home"));
    serving.stop();
}

/// What could break: a volume of which a part is missing is told to be there, or what is said of it helps nobody.
#[test]
fn a_volume_says_which_physical_volumes_it_lacks() {
    let dir = folder();
    let at = dir.path();
    three_disks(at, 32 * MIB);
    let devices = ["disks/a", "disks/b", "disks/c"];
    done(at, &[&["lvm", "vgcreate", "vg0", "-s", "1m"][..], &devices].concat());
    let create = ["-d", "disks", "lvm", "lvcreate", "vg0", "-n"];
    done(at, &[&create[..], &["wide", "-L", "30", "-i", "3"]].concat());
    done(at, &[&create[..], &["one", "-L", "8"]].concat());
    let pvs = done(at, &["-d", "disks", "lvm", "pvs"]);
    let id = |disk: &str| {
        let line = pvs.lines().find(|line| line.contains(disk));
        line.and_then(|line| line.split_whitespace().last()).expect("it is listed").to_owned()
    };
    let (b, c) = (id("disks/b"), id("disks/c"));
    for name in ["b", "c"] {
        fs::rename(at.join("disks").join(name), at.join(name)).expect("away");
    }
    let text = done(at, &["-d", "disks", "scan"]);
    assert!(text.contains("2 of 3 physical volumes missing"), "{text}");
    let lacks = text.lines().find(|line| line.contains("vg0/wide")).expect("it is told");
    let why = "it lacks 20 MiB of data of group vg0: the physical volumes ";
    assert!(lacks.contains(why), "{lacks}");
    assert!(lacks.contains(&b) && lacks.contains(&c) && lacks.contains(" are missing"), "{lacks}");
    assert!(text.contains("vg0/one  8 MiB  nothing\n"), "{text}");
    let serve = next(&text, "serve");
    let rest = ["serve", "--volume", "vg0/wide", "--readonly", "--skip-damaged"];
    assert_eq!((&serve[2..], text.matches("next: ").count()), (&rest.map(str::to_owned)[..], 1));
    fs::rename(at.join("b"), at.join("disks/b")).expect("back");
    let text = done(at, &["-d", "disks", "scan"]);
    let lacks = format!("the physical volume {c} is missing");
    assert!(text.contains(&lacks) && !text.contains(&b), "{text}");
}
