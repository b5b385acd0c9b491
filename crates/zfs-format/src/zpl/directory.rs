//! Entries of directories: values of the directory's ZAP.
//!
//! The object's number in the low 48 bits, the kind of file in the high 4; those between are zero. The kind is that
//! of a mode's highest bits, and 0 in file systems of versions that did not keep it.
//!
//! Source: OpenZFS, `zfs_znode.h`.

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The object.
    pub object: u64,
    /// What it is; nothing where the directory does not say.
    pub kind: Option<FileKind>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum FileKind {
    Fifo,
    CharacterDevice,
    Directory,
    BlockDevice,
    File,
    SymbolicLink,
    Socket,
    /// A number that is none of these.
    Other(u8),
}

impl FileKind {
    /// The kind of these four bits; 0 is none.
    pub fn from_code(code: u8) -> Option<FileKind> {
        Some(match code {
            0 => return None,
            1 => FileKind::Fifo,
            2 => FileKind::CharacterDevice,
            4 => FileKind::Directory,
            6 => FileKind::BlockDevice,
            8 => FileKind::File,
            10 => FileKind::SymbolicLink,
            12 => FileKind::Socket,
            other => FileKind::Other(other),
        })
    }

    /// The four bits.
    pub fn code(self) -> u8 {
        match self {
            FileKind::Fifo => 1,
            FileKind::CharacterDevice => 2,
            FileKind::Directory => 4,
            FileKind::BlockDevice => 6,
            FileKind::File => 8,
            FileKind::SymbolicLink => 10,
            FileKind::Socket => 12,
            FileKind::Other(code) => code & 0xf,
        }
    }

    /// The kind that a mode states.
    pub fn of_mode(mode: u64) -> Option<FileKind> {
        FileKind::from_code((mode >> 12) as u8 & 0xf)
    }
}

const OBJECT: u64 = (1 << 48) - 1;

impl DirectoryEntry {
    /// The entry of a ZAP's value.
    pub fn from_value(value: u64) -> DirectoryEntry {
        DirectoryEntry { object: value & OBJECT, kind: FileKind::from_code((value >> 60) as u8) }
    }

    /// The ZAP's value.
    pub fn to_value(self) -> u64 {
        self.object & OBJECT | self.kind.map_or(0, |kind| u64::from(kind.code()) << 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_object_share_a_number() {
        for code in 0..16u64 {
            let value = code << 60 | 77;
            let entry = DirectoryEntry::from_value(value);
            assert_eq!((entry.object, entry.to_value()), (77, value));
        }
        assert_eq!(FileKind::of_mode(0o100_644), Some(FileKind::File));
        assert_eq!(FileKind::of_mode(0o040_755), Some(FileKind::Directory));
        assert_eq!(FileKind::of_mode(0o120_777), Some(FileKind::SymbolicLink));
    }
}
