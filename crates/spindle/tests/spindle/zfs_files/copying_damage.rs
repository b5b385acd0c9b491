//! cp of what can't be read everywhere: it is told as long as it is so, and copied anew when it is not.

use super::fixture::{Fixture, path_of};
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
