//! Extended attributes of a file in a change: the list among its attributes, and the files of its hidden directory.
//!
//! What is set goes into the list, as `xattr=sa` has it, or into the directory, as `xattr=dir` has it; one of the same name in the other goes.

use super::super::attributes::flags;
use super::work::{NewFile, With, Work};
use crate::dmu::Step;
use rt::Buf;
use zfs_format::Endian;
use zfs_format::nvlist::{Encoding, NvList, Text, Value};
use zfs_format::zpl::attributes::names;
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};

/// The namespace that names from other systems are in.
const USERS: &[u8] = b"user.";
/// Bytes of a value that are read.
const VALUE_BYTES_MAX: u64 = 64 << 10;

/// A list as it is stored.
pub(crate) fn encoded<'a>(pairs: impl Iterator<Item = (&'a [u8], Vec<u8>)>) -> Vec<u8> {
    let mut list = NvList::default();
    list.pairs.extend(pairs.map(|(name, value)| (Text::from_bytes(name), Value::ByteArray(value))));
    list.encode(Encoding::Xdr(Endian::Little))
}

impl Work<'_> {
    fn list(&mut self, file: u64) -> Step<&mut NvList> {
        let open = self.file(file)?;
        if open.list.is_none() {
            let bytes = open.stored.get(names::EXTENDED_ATTRIBUTE_LIST);
            open.list = Some(match bytes.filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => NvList::decode(bytes).map_err(|error| open.dnode.wrong(error))?.0,
                None => NvList::default(),
            });
        }
        Ok(open.list.get_or_insert_default())
    }

    /// The names that one may have in the hidden directory.
    fn hidden_names(name: &[u8]) -> Vec<&[u8]> {
        [Some(name), name.strip_prefix(USERS)].into_iter().flatten().collect()
    }

    /// The value of an extended attribute.
    pub(crate) fn extended(&mut self, file: u64, name: &[u8]) -> Step<Option<Vec<u8>>> {
        let found = self.list(file)?.pairs.iter().find(|(known, _)| known.as_bytes() == name);
        if let Some((_, Value::ByteArray(value) | Value::Uint8Array(value))) = found {
            return Ok(Some(value.clone()));
        }
        let hidden = self.file(file)?.attributes.extended_attributes;
        if hidden == 0 {
            return Ok(None);
        }
        for name in Self::hidden_names(name) {
            let Some(entry) = self.entry(hidden, name)? else { continue };
            let open = self.file(entry.object)?;
            let (dnode, size) = (&open.dnode, open.attributes.size.min(VALUE_BYTES_MAX));
            let mut value = Vec::new();
            while (value.len() as u64) < size {
                let block = dnode.resident(value.len() as u64 / dnode.block_bytes())?;
                value.extend_from_slice(block.bytes.bytes());
            }
            value.truncate(size as usize);
            return Ok(Some(value));
        }
        Ok(None)
    }

    /// Sets an extended attribute in the list, or takes it away. Says how long the list is.
    pub(crate) fn set_extended(
        &mut self,
        file: u64,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Step<usize> {
        let list = self.list(file)?;
        let before = list.pairs.len();
        list.pairs.retain(|(known, _)| known.as_bytes() != name);
        let is_other = value.is_some() || list.pairs.len() != before;
        if let Some(value) = value {
            list.pairs.push((Text::from_bytes(name), Value::ByteArray(value.to_vec())));
        }
        let len = match is_other {
            true => self.store_list(file)?,
            false => 0,
        };
        self.drop_hidden(file, name)?;
        Ok(len)
    }

    fn store_list(&mut self, file: u64) -> Step<usize> {
        let bytes = self.list(file)?.encode(Encoding::Xdr(Endian::Little));
        let len = bytes.len();
        let open = self.file(file)?;
        open.is_changed = true;
        let dnode = open.dnode.clone();
        let set = open.edit.set_bytes(names::EXTENDED_ATTRIBUTE_LIST, bytes);
        set.map_err(|problem| dnode.problem(problem))?;
        Ok(len)
    }

    /// Takes an extended attribute out of the hidden directory.
    fn drop_hidden(&mut self, file: u64, name: &[u8]) -> Step<()> {
        let hidden = self.file(file)?.attributes.extended_attributes;
        if hidden != 0 {
            for name in Self::hidden_names(name) {
                if let Some(entry) = self.entry(hidden, name)? {
                    self.unlink(hidden, name, entry, false)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the hidden directory of a file that has none.
    pub(crate) fn make_hidden(&mut self, file: u64, new: &NewFile) -> Step<()> {
        self.make(file, new, flags::ATTRIBUTE)?;
        self.file(file)?.attributes.extended_attributes = new.number;
        self.set(file, &[(names::EXTENDED_ATTRIBUTES, new.number)])
    }

    /// Sets an extended attribute as a file of the hidden directory, which is there.
    pub(crate) fn put_hidden(
        &mut self,
        file: u64,
        (name, value): (&[u8], &[u8]),
        new: &NewFile,
    ) -> Step<()> {
        self.set_extended(file, name, None)?;
        let hidden = self.file(file)?.attributes.extended_attributes;
        let with = With { content: Some(Buf::copy_of(value)), ..With::default() };
        self.make_with(hidden, new, flags::ATTRIBUTE, &with)?;
        let kind = Some(FileKind::File);
        self.put(hidden, name, DirectoryEntry { object: new.number, kind })?;
        self.count(hidden, 1, 0)?;
        self.touch(hidden, new.created, true)
    }
}
