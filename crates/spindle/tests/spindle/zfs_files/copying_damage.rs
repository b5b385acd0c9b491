//! cp of what can't be read everywhere: it is told as long as it is so, and copied anew when it is not.

use super::fixture::{Fixture, path_of};
use crate::pools::{add_disks, done, run};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// A pool of which only three disks of five are there, one of them with wrong bytes; and the disks that are away.
fn damaged() -> Option<(Fixture, tempfile::TempDir)> {
    let fixture = Fixture::unpack("z2-5")?;
    let away = tempfile::tempdir_in(fixture.path().parent().expect("a folder")).expect("a folder");
    for disk in ["disk0.raw", "disk1.raw"] {
        let (from, to) = (fixture.path().join(disk), away.path().join(disk));
        std::fs::rename(from, to).expect("moved");
    }
    let disk = fixture.path().join("disk3.raw");
    fixtures::copy(&disk, &away.path().join("disk3.raw"));
    let file = std::fs::File::options().write(true).open(&disk).expect("it opens");
    for at in (0x44_0000..0x4d_0000).step_by(64 << 10) {
        file.write_all_at(&[0xde, 0xad].repeat(2048), at).expect("overwritten");
    }
    Some((fixture, away))
}

/// What could break: zeros under the name of a file of which nothing could be read, which are taken for the file; a file that isn't there and
/// isn't told of; a copy from before that gives way to nothing.
#[test]
fn a_file_of_which_nothing_can_be_read_is_not_made_and_is_told_in_the_end() {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    std::fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a", "b"], 80 << 20);
    // Whole blocks, so that none of them is compressed.
    for (seed, (name, len)) in (1..).zip([("large", 3 << 17), ("small", 9000), ("part", 3 << 17)]) {
        std::fs::write(at.join(name), fixtures::noise(seed, len)).expect("written");
    }
    done(at, &["zpool", "create", "w", "disks/a"]);
    done(at, &["zfs", "cp", "large", "small", "part", "w:"]);
    let disk = at.join("disks/a");
    let image = std::fs::read(&disk).expect("read");
    let file = std::fs::File::options().write(true).open(&disk).expect("it opens");
    let spoil = |name: &str, blocks: std::ops::Range<usize>| {
        let content = std::fs::read(at.join(name)).expect("read");
        let starts = content.chunks(128 << 10).skip(blocks.start).take(blocks.len());
        for start in starts {
            let found = image.chunks(512).position(|sector| sector == &start[..512]);
            let place = found.expect("it is stored as it is") * 512;
            file.write_all_at(&[0x5a; 512], place as u64).expect("overwritten");
        }
    };
    spoil("large", 0..9);
    spoil("part", 0..1);
    let cp = ["zfs", "cp", "-r", "--skip-damaged", "w:", "out"];
    let output = run(at, &cp);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(at.join("out")).expect("a folder");
        let names = entries.map(|entry| entry.expect("one").file_name().into_string());
        let mut names: Vec<String> = names.map(|name| name.expect("text")).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    };
    assert_eq!(names(), ["part", "small"]);
    assert_eq!(marks(&at.join("out")), 1, "of the part");
    let told = "1 file was not made, since nothing of it can be read:\n  w:/large: 384 KiB\n";
    assert!(said.contains(told), "{said}");
    assert!(said.contains("1 file copied, 1 in part, 1 not made"), "{said}");
    assert!(!said.contains("w:/large: bytes"), "told once: {said}");
    // A copy from before stays.
    spoil("part", 1..9);
    let kept = std::fs::read(at.join("out/part")).expect("read");
    assert_eq!(kept[131_072..], std::fs::read(at.join("part")).expect("read")[131_072..]);
    let output = run(at, &cp);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("2 files were not made") && said.contains("\n  w:/part: "), "{said}");
    assert!(std::fs::read(at.join("out/part")).expect("read") == kept);
    assert_eq!(marks(&at.join("out")), 1);
    std::fs::write(&disk, &image).expect("it is whole again");
    done(at, &cp);
    assert_eq!((names().len(), marks(&at.join("out"))), (3, 0));
    for name in names() {
        let [copy, own] = [at.join("out").join(&name), at.join(&name)]
            .map(|path| std::fs::read(path).expect("read"));
        assert!(copy == own, "{name}");
    }
}

fn marks(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let names = names.filter(|entry| entry.file_type().expect("a type").is_file());
    names.filter(|entry| entry.file_name().to_string_lossy().contains(".damaged")).count()
}

/// What could break: a copy with zeros in it has the size and time of its file, so the same command takes it for
/// whole, also when all disks are there again.
#[test]
fn a_copy_with_zeros_in_it_is_never_taken_for_whole() {
    let Some((fixture, away)) = damaged() else { return };
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let arguments = ["zfs", "cp", "-r", "--skip-damaged", "t_z2_5/plain:", text(&out)];
    let said = fixture.refusal(&arguments);
    let told = said.matches("are zeros in the copy").count();
    assert!(told > 0, "{said}");
    let damaged = marks(&out);
    assert!(damaged > 0, "there are marks");
    assert!(said.contains(&format!("copied, {damaged} in part")), "{said}");
    // It is told again, by the same words.
    let again = fixture.refusal(&arguments);
    assert_eq!(again.matches("are zeros in the copy").count(), told, "{again}");
    assert_eq!(marks(&out), damaged);
    // Without the option too.
    let bare = fixture.refusal(&["zfs", "cp", "-r", "t_z2_5/plain:", text(&out)]);
    assert!(bare.contains("--skip-damaged copies the rest"), "{bare}");
    assert_eq!(marks(&out), damaged);
    // All disks are there again.
    for disk in std::fs::read_dir(away.path()).expect("a folder") {
        let disk = disk.expect("a disk");
        fixtures::copy(&disk.path(), &fixture.path().join(disk.file_name()));
    }
    fixture.prints(&arguments);
    assert_eq!(marks(&out), 0);
    let entries = fixture.entries("t_z2_5/plain");
    let files = entries.iter().filter(|entry| entry["type"] == "file");
    for entry in files.filter(|entry| !path_of(entry).contains('\u{fffd}')) {
        let path = out.join(path_of(entry));
        let name = path_of(entry);
        let digest = super::fixture::digest_of(&path);
        assert_eq!(Some(&*digest), entry["sha256"].as_str(), "{name}");
        let links = path.metadata().expect("it is there").nlink();
        assert_eq!(Some(links), entry["nlink"].as_u64(), "{name}");
    }
    let said = fixture.output(&arguments);
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("0 files copied"), "{said}");
}
