//! Examples at the end of each command's help, which also show where the devices are named: before the command.
//!
//! They stand here in one table, and not beside the arguments, so that a test can hold each against the command line as it is.

use clap::Command;

/// Where the disks lie, in all examples.
const HEAD: &str = "Devices are named before the command (-d, or SPINDLE_DEVICES)";

/// The words of a command, and calls of it.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("md", &["spindle -d disks md examine --scan", "spindle -d disks md serve data"]),
    ("md examine", &["spindle md examine disks/sda", "spindle -d disks md examine --scan"]),
    ("md detail", &["spindle -d disks md detail data"]),
    ("md dump", &["spindle -d disks md dump data data.img"]),
    (
        "md grow",
        &[
            "spindle -d disks md grow data --size max",
            "spindle -d disks md grow data -n 5 --add disks/sde",
        ],
    ),
    ("md create", &["spindle md create data -l 6 -n 4 disks/sda disks/sdb disks/sdc disks/sdd"]),
    (
        "md assemble",
        &["spindle -d disks md assemble data", "spindle -d disks md assemble --scan --readonly"],
    ),
    ("md check", &["spindle -d disks md check data"]),
    ("md repair", &["spindle -d disks md repair data"]),
    ("md fail", &["spindle -d disks md fail data disks/sdc"]),
    ("md add", &["spindle -d disks md add data disks/sde"]),
    ("md remove", &["spindle -d disks md remove data disks/sdc"]),
    ("md replace", &["spindle -d disks md replace data disks/sdc"]),
    ("md stop", &["spindle -d disks md stop data"]),
    (
        "md serve",
        &[
            "spindle -d disks md serve data --nbd unix:/tmp/data",
            "spindle -d disks md serve data --readonly",
        ],
    ),
    ("lvm", &["spindle -d disks lvm vgs", "spindle -d disks serve --volume vg0/home"]),
    ("lvm pvs", &["spindle -d disks lvm pvs"]),
    ("lvm vgs", &["spindle -d disks lvm vgs", "spindle -d disks lvm vgs --json"]),
    ("lvm lvs", &["spindle -d disks lvm lvs"]),
    ("lvm dump", &["spindle -d disks lvm dump vg0/home home.img"]),
    (
        "lvm vgcreate",
        &[
            "spindle lvm vgcreate vg0 disks/sda disks/sdb",
            "spindle -d disks lvm vgcreate vg0 data     # on the RAID set data",
        ],
    ),
    (
        "lvm pvcreate",
        &[
            "spindle -d copies lvm pvcreate --uuid Ybx2fK-Rk1v-9Zsd-gUuW-2mVq-bT0x-pLc7aE copies/sdb     # on a copy",
        ],
    ),
    ("lvm lvcreate", &["spindle -d disks lvm lvcreate vg0 -n home -L 10GiB"]),
    ("lvm lvremove", &["spindle -d disks lvm lvremove vg0/home -y"]),
    ("zpool", &["spindle -d disks zpool import", "spindle -d disks zpool status tank"]),
    ("zpool create", &["spindle zpool create tank raidz2 disks/sda disks/sdb disks/sdc disks/sdd"]),
    (
        "zpool add",
        &[
            "spindle -d disks zpool add tank mirror disks/sde disks/sdf",
            "spindle -d disks zpool add tank mirror disks/sde disks/sdf --dry-run",
        ],
    ),
    ("zpool checkpoint", &["spindle -d disks zpool checkpoint tank"]),
    ("zpool export", &["spindle -d disks zpool export tank"]),
    ("zpool destroy", &["spindle -d disks zpool destroy tank"]),
    ("zpool clear", &["spindle -d disks zpool clear tank"]),
    ("zpool online", &["spindle -d disks zpool online -e tank disks/sda"]),
    ("zpool set", &["spindle -d disks zpool set comment=archive tank"]),
    ("zpool upgrade", &["spindle -d disks zpool upgrade"]),
    ("zpool labelclear", &["spindle zpool labelclear disks/sde"]),
    ("zpool sync", &["spindle -d disks zpool sync tank"]),
    ("zpool reguid", &["spindle -d disks zpool reguid tank"]),
    (
        "zpool import",
        &["spindle -d disks zpool import", "spindle -d disks zpool import -o readonly=on tank"],
    ),
    ("zpool list", &["spindle -d disks zpool list -v"]),
    ("zpool status", &["spindle -d disks zpool status -v tank"]),
    ("zpool iostat", &["spindle -d disks zpool iostat tank 5"]),
    ("zpool get", &["spindle -d disks zpool get all tank"]),
    ("zpool history", &["spindle -d disks zpool history -il tank"]),
    ("zpool scrub", &["spindle -d disks zpool scrub --read-only tank"]),
    ("zpool debug", &["spindle -d disks zpool debug blocks tank"]),
    (
        "zfs",
        &["spindle -d disks zfs list -r tank", "spindle -d disks zfs cp -r tank/home: rescued"],
    ),
    (
        "zfs create",
        &["spindle -d disks zfs create tank/home", "spindle -d disks zfs create -V 10G tank/vm1"],
    ),
    ("zfs snapshot", &["spindle -d disks zfs snapshot -r tank@monday"]),
    ("zfs set", &["spindle -d disks zfs set compression=zstd tank/home"]),
    ("zfs inherit", &["spindle -d disks zfs inherit compression tank/home"]),
    ("zfs destroy", &["spindle -d disks zfs destroy tank/home@monday"]),
    ("zfs rollback", &["spindle -d disks zfs rollback tank/home@monday"]),
    ("zfs rename", &["spindle -d disks zfs rename tank/home tank/users"]),
    ("zfs clone", &["spindle -d disks zfs clone tank/home@monday tank/again"]),
    ("zfs promote", &["spindle -d disks zfs promote tank/again"]),
    ("zfs hold", &["spindle -d disks zfs hold keep tank/home@monday"]),
    ("zfs holds", &["spindle -d disks zfs holds tank/home@monday"]),
    ("zfs release", &["spindle -d disks zfs release keep tank/home@monday"]),
    ("zfs bookmark", &["spindle -d disks zfs bookmark tank/home@monday tank/home#monday"]),
    ("zfs list", &["spindle -d disks zfs list -r -t all tank"]),
    ("zfs get", &["spindle -d disks zfs get -r all tank"]),
    ("zfs userspace", &["spindle -d disks zfs userspace tank/home"]),
    ("zfs groupspace", &["spindle -d disks zfs groupspace tank/home"]),
    ("zfs projectspace", &["spindle -d disks zfs projectspace tank/home"]),
    ("zfs project", &["spindle -d disks zfs project tank/home:work"]),
    (
        "zfs ls",
        &["spindle -d disks zfs ls -l tank/home:", "spindle -d disks zfs ls tank/home@monday:work"],
    ),
    ("zfs cat", &["spindle -d disks zfs cat tank/home:work/letter"]),
    ("zfs stat", &["spindle -d disks zfs stat tank/home:work/letter"]),
    (
        "zfs cp",
        &[
            "spindle -d disks zfs cp -r tank/home: rescued",
            "spindle -d disks zfs cp -r rescued/. tank/home:",
        ],
    ),
    ("zfs diff", &["spindle -d disks zfs diff tank/home@monday tank/home"]),
    ("zfs dump", &["spindle -d disks zfs dump tank/vm1 vm1.img"]),
    ("zfs load", &["spindle -d disks zfs load tank/vm1 vm1.img"]),
    (
        "mount",
        &[
            "spindle -d disks mount tank/home /mnt/home",
            "spindle -d disks mount -o rw tank/home /mnt/home",
        ],
    ),
    (
        "serve",
        &[
            "spindle serve disk0.img",
            "spindle -d disks serve --volume vg0/home --nbd unix:/tmp/home",
            "spindle serve --config spindle.toml",
        ],
    ),
    (
        "scan",
        &[
            "spindle scan images               # a folder of copies of disks",
            "spindle scan /dev                 # the disks of this machine",
            "spindle images                    # the same as scan images",
        ],
    ),
];

/// The command line, with examples in its help.
pub fn shown(mut command: Command) -> Command {
    for (words, calls) in EXAMPLES {
        let words: Vec<&str> = words.split(' ').collect();
        command = with(command, &words, calls);
    }
    command
}

fn with(command: Command, words: &[&str], calls: &[&str]) -> Command {
    let Some((first, rest)) = words.split_first() else {
        return command.after_help(text(calls));
    };
    match command.find_subcommand(first) {
        Some(_) => command.mut_subcommand(first, |below| with(below, rest, calls)),
        None => command,
    }
}

fn text(calls: &[&str]) -> String {
    let names = calls.iter().any(|call| call.starts_with("spindle -d "));
    let head = if names { format!("{HEAD}:") } else { "Examples:".to_owned() };
    calls.iter().fold(head, |text, call| format!("{text}\n  {call}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whole;

    /// What could break: an example that is no call of the command that it stands below.
    #[test]
    fn each_example_is_a_call_of_its_command() {
        for (words, calls) in EXAMPLES {
            assert!(!calls.is_empty(), "{words}");
            for call in *calls {
                let plain = call.split(" #").next().unwrap_or(call);
                let call = plain.split_whitespace();
                let mut parsed = whole().try_get_matches_from(call.clone());
                if *words == "scan" && parsed.is_err() {
                    // Devices alone.
                    parsed = whole().try_get_matches_from(["spindle", "scan", "images"]);
                }
                assert!(parsed.is_ok(), "{plain}: {parsed:?}");
                assert!(
                    *words == "scan"
                        || *words == "lvm"
                        || format!(" {plain} ").contains(&format!(" {words} ")),
                    "{words}: {plain}"
                );
            }
        }
    }

    #[test]
    fn help_of_groups_and_commands_says_where_devices_are_named() {
        for words in ["zpool", "zfs", "lvm", "serve", "zfs cp", "md assemble"] {
            let mut command = whole();
            for word in words.split(' ') {
                command = command.find_subcommand(word).expect("a command").clone();
            }
            let help = command.render_help().to_string();
            assert!(help.contains("spindle -d disks "), "{words}: {help}");
        }
    }
}
