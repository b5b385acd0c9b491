//! Attributes of a file changed.
//!
//! An [`Edit`] takes a file's attributes apart, gets new values, and is laid out anew. A znode keeps its shape. System
//! attributes that no longer fit the bonus go on in a spill block:
//!
//! ```text
//!   all fit        bonus: layout, all attributes
//!   else           bonus: as many from the front on as leave room for the pointer; spill block: the rest
//! ```
//!
//! Each of both has a layout, which is one of those that the file system knows or becomes one of them: a step that changes
//! files has one [`NewLayouts`] for all of them.
//!
//! What is written is in the byte order of the dnode; values from a spill block of the other order are turned.
//!
//! Source: OpenZFS, `sa.c`.

use crate::dmu::{Block, Dnode, Objset, Step, Tx};
use crate::error::Problem;
use crate::zap::change::{Plan, Ready as TableReady};
use rt::Buf;
use smallvec::SmallVec;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::object_type::ObjectType;
use zfs_format::wire::{Record, Wire};
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zpl::acl;
use zfs_format::zpl::attributes::{self as system, Layouts, Name, Places, names};
use zfs_format::zpl::znode::Znode;
use zfs_format::{Endian, FormatError};

/// Bytes of a block pointer, which a spill block takes from the bonus.
const POINTER_BYTES: usize = 128;
/// Bytes of the longest spill block.
const SPILL_BYTES_MAX: usize = 128 << 10;
/// Bytes by which spill blocks are long.
const SECTOR: usize = 512;
/// The highest number of a layout: it has 10 bits.
const LAYOUT_MAX: u16 = 0x3ff;
/// What stands before the project: 128 bytes.
const BEFORE_PROJECT: [Name; 12] = [
    names::MODE,
    names::SIZE,
    names::GENERATION,
    names::USER,
    names::GROUP,
    names::PARENT,
    names::FLAGS,
    names::ACCESSED,
    names::MODIFIED,
    names::CHANGED,
    names::CREATED,
    names::LINKS,
];
/// Attributes that a new file has, and a few more.
const ATTRIBUTES_OF_NEW: usize = 20;
/// How an attribute that is a list of access is turned.
const SWAP_ACL: u8 = 4;

/// The layouts that a step needs, and may have to add.
pub(in crate::zpl) struct NewLayouts {
    known: Rc<Layouts>,
    new: Vec<u16>,
}

impl NewLayouts {
    pub(in crate::zpl) fn of(known: Rc<Layouts>) -> NewLayouts {
        NewLayouts { known, new: Vec::new() }
    }

    /// The number of the layout of these attributes.
    fn number(&mut self, list: &[u16]) -> Result<u16, Problem> {
        let found = self.known.layouts.iter().find(|(_, known)| known.as_slice() == list);
        if let Some((number, _)) = found {
            return Ok(*number);
        }
        // OpenZFS keeps 0 and 1 for what has no attributes.
        let next = self
            .known
            .layouts
            .last_key_value()
            .map_or(2, |(last, _)| last.saturating_add(1).max(2));
        if next > LAYOUT_MAX {
            return Err(Problem::NoRoom("another layout of attributes"));
        }
        Rc::make_mut(&mut self.known).layouts.insert(next, list.to_vec());
        self.new.push(next);
        Ok(next)
    }

    /// Plans to add what is new to the table of layouts; nothing where nothing is.
    ///
    /// # Errors
    /// The table is not there, or not in memory.
    pub(in crate::zpl) fn ready(
        self,
        objset: &Objset,
        table: Option<u64>,
    ) -> Step<Option<(Rc<Layouts>, TableReady)>> {
        if self.new.is_empty() {
            return Ok(None);
        }
        let missing = || objset.wrong(0, Problem::NoEntry("of layouts of attributes"));
        let mut plan = Plan::of(&objset.resident(table.ok_or_else(missing)?)?)?;
        for number in &self.new {
            let list = self.known.layouts.get(number).into_iter().flatten();
            let numbers = list.map(|attribute| u64::from(*attribute)).collect();
            plan.set(number.to_string().as_bytes(), LeafValue { number_bytes: 2, numbers })?;
        }
        Ok(Some((self.known, plan.ready()?)))
    }
}

enum Form {
    /// Before version 5; what follows it is a link's text.
    Znode(Box<Znode>, Vec<u8>),
    /// The bonus as it stands, in which each attribute was given values of its own length.
    InPlace(Vec<u8>),
    /// Number and bytes, in order.
    System(Vec<(u16, Value)>),
}

/// The bytes of an attribute: most have one number or two.
type Value = SmallVec<[u8; 16]>;

/// Numbers of an attribute.
pub(in crate::zpl) trait Numbers {
    /// Their bytes.
    fn bytes(self, endian: Endian) -> Value;
}

impl Numbers for u64 {
    fn bytes(self, endian: Endian) -> Value {
        Value::from_slice(&endian.bytes(self))
    }
}

impl Numbers for [u64; 2] {
    fn bytes(self, endian: Endian) -> Value {
        self.iter().flat_map(|number| endian.bytes(*number)).collect()
    }
}

/// The attributes of a bonus or spill block, taken apart.
fn apart(
    bytes: &[u8],
    endian: Endian,
    layouts: &Layouts,
) -> Result<Vec<(u16, Value)>, FormatError> {
    let places = Places::of(bytes, endian, layouts)?;
    places.map(|place| place.map(|(number, at)| (number, Value::from_slice(&bytes[at])))).collect()
}

/// A file's attributes, being changed.
pub(in crate::zpl) struct Edit {
    form: Form,
    endian: Endian,
    layouts: Rc<Layouts>,
    /// Bytes that the bonus may have if there is no spill block.
    room: usize,
    /// Whether there is a spill block, or was one in this group.
    has_spill: bool,
}

/// Attributes laid out.
pub(in crate::zpl) struct Laid {
    pub(in crate::zpl) bonus: Vec<u8>,
    pub(in crate::zpl) spill: Option<Block>,
}

impl Edit {
    /// The attributes of a file that is there.
    ///
    /// # Errors
    /// They are not in memory, or are none.
    pub(in crate::zpl) fn of(dnode: &Dnode, layouts: &Rc<Layouts>) -> Step<Edit> {
        let (phys, endian) = (dnode.phys(), dnode.endian());
        let wrong = |error: FormatError| dnode.wrong(error);
        let has_spill = phys.spill.is_some();
        let room = dnode.bonus_bytes_max() + if has_spill { POINTER_BYTES } else { 0 };
        let form = match phys.bonus_type {
            ObjectType::ZNODE => {
                let znode = Znode::decode(&phys.bonus, endian).map_err(wrong)?;
                let text = phys.bonus.get(Znode::BYTES..).unwrap_or_default().to_vec();
                Form::Znode(Box::new(znode), text)
            }
            _ => match dnode.resident_spill()? {
                None => {
                    let mut places = Places::of(&phys.bonus, endian, layouts).map_err(wrong)?;
                    places.try_for_each(|place| place.map(drop)).map_err(wrong)?;
                    Form::InPlace(phys.bonus.clone())
                }
                Some(spill) => {
                    let mut values = apart(&phys.bonus, endian, layouts).map_err(wrong)?;
                    let more = apart(spill.bytes.bytes(), spill.endian, layouts);
                    for (number, value) in more.map_err(wrong)? {
                        let value = turned(layouts, number, value, spill.endian, endian);
                        values.push((number, value.map_err(wrong)?));
                    }
                    Form::System(values)
                }
            },
        };
        Ok(Edit { form, endian, layouts: Rc::clone(layouts), room, has_spill })
    }

    /// The attributes of a file that is to be.
    pub(in crate::zpl) fn new(
        kind: ObjectType,
        layouts: &Rc<Layouts>,
        endian: Endian,
        room: usize,
    ) -> Edit {
        let form = match kind {
            ObjectType::ZNODE => {
                let zeros = Znode::decode(&[0; Znode::BYTES], endian);
                Form::Znode(Box::new(zeros.expect("any bytes are a znode")), Vec::new())
            }
            _ => Form::System(Vec::with_capacity(ATTRIBUTES_OF_NEW)),
        };
        Edit { form, endian, layouts: Rc::clone(layouts), room, has_spill: false }
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// The file system doesn't know it.
    pub(in crate::zpl) fn set(&mut self, name: Name, value: impl Numbers) -> Result<(), Problem> {
        self.put(name, value.bytes(self.endian))
    }

    /// Sets an attribute to these bytes.
    ///
    /// # Errors
    /// The file system doesn't know it.
    pub(in crate::zpl) fn set_bytes(&mut self, name: Name, value: Vec<u8>) -> Result<(), Problem> {
        self.put(name, value.into())
    }

    fn put(&mut self, name: Name, value: Value) -> Result<(), Problem> {
        let endian = self.endian;
        if let Form::Znode(znode, text) = &mut self.form {
            return set_in_znode(znode, text, name, &value, endian);
        }
        let number = self.layouts.number(name).ok_or(Problem::NoEntry(name.text()))?;
        if let Form::InPlace(bonus) = &mut self.form {
            let places = Places::of(bonus, endian, &self.layouts);
            let place = places.ok().and_then(|all| all.flatten().find(|(of, _)| *of == number));
            if let Some((_, place)) = place.filter(|(_, place)| place.len() == value.len()) {
                bonus[place].copy_from_slice(&value);
                return Ok(());
            }
        }
        let values = self.values()?;
        match values.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => *known = value,
            None => values.push((number, value)),
        }
        Ok(())
    }

    /// The attributes taken apart: from here on they may have other lengths, and others may be added.
    fn values(&mut self) -> Result<&mut Vec<(u16, Value)>, Problem> {
        if let Form::InPlace(bonus) = &self.form {
            let values = apart(bonus, self.endian, &self.layouts);
            // It was gone over when the edit began.
            self.form = Form::System(values.map_err(|_| Problem::NoEntry("of attributes"))?);
        }
        match &mut self.form {
            Form::System(values) => Ok(values),
            Form::Znode(..) | Form::InPlace(_) => unreachable!("they were taken apart"),
        }
    }

    /// Sets the project. Who counts finds it at one place, behind what every file has in one order.
    ///
    /// # Errors
    /// The file system doesn't know projects.
    pub(in crate::zpl) fn set_project(&mut self, project: u64) -> Result<(), Problem> {
        self.set(names::PROJECT, project)?;
        if !matches!(self.form, Form::Znode(..)) {
            let layouts = Rc::clone(&self.layouts);
            let values = self.values()?;
            let place = |number: u16| {
                let place =
                    BEFORE_PROJECT.iter().position(|name| layouts.number(*name) == Some(number));
                match layouts.number(names::PROJECT) == Some(number) {
                    true => BEFORE_PROJECT.len(),
                    false => place.unwrap_or(usize::MAX),
                }
            };
            values.sort_by_key(|(number, _)| place(*number));
        }
        Ok(())
    }

    /// Lays them out.
    ///
    /// # Errors
    /// They don't fit.
    pub(in crate::zpl) fn lay_out(self, layouts: &mut NewLayouts) -> Result<Laid, Problem> {
        let values = match self.form {
            Form::Znode(znode, text) => {
                let bonus = [znode.encode(self.endian), text].concat();
                let fits = bonus.len() <= self.room;
                let laid = Laid { bonus, spill: None };
                return if fits { Ok(laid) } else { Err(Problem::NoRoom("a link's text")) };
            }
            Form::InPlace(bonus) => {
                assert!(bonus.len() <= self.room, "a bonus that keeps its length fits");
                return Ok(Laid { bonus, spill: None });
            }
            Form::System(values) => values,
        };
        let room = self.room - if self.has_spill { POINTER_BYTES } else { 0 };
        if encoded_len(&values, &self.layouts) <= room {
            let bonus = encoded(&values, self.endian, layouts)?;
            assert!(bonus.len() <= room, "attributes are as long as was counted");
            return Ok(Laid { bonus, spill: None });
        }
        let mut front = values;
        let mut back = Vec::new();
        loop {
            let Some(last) = front.pop() else { return Err(Problem::NoRoom("attributes")) };
            back.insert(0, last);
            let size = encoded_len(&front, &self.layouts);
            if size + POINTER_BYTES <= self.room {
                break;
            }
        }
        let bonus = encoded(&front, self.endian, layouts)?;
        let mut spill = encoded(&back, self.endian, layouts)?;
        if spill.len() > SPILL_BYTES_MAX {
            return Err(Problem::NoRoom("attributes"));
        }
        spill.resize(spill.len().next_multiple_of(SECTOR), 0);
        let spill = Block { bytes: Buf::copy_of(&spill), endian: self.endian };
        Ok(Laid { bonus, spill: Some(spill) })
    }
}

impl Laid {
    /// Gives them to a file that is there.
    pub(in crate::zpl) fn carry_out(self, dnode: &Dnode, tx: &Tx) {
        // What is there as it is to be is not written again: each change of a file's times would.
        let is_there = |spill: &Block| {
            let known = dnode.resident_spill().ok().flatten();
            known.is_some_and(|known| {
                known.endian == spill.endian && known.bytes.bytes() == spill.bytes.bytes()
            })
        };
        match self.spill {
            Some(spill) if is_there(&spill) => {}
            Some(spill) => dnode.add_spill(tx, spill),
            None if planted::is(Bug::SpillKept) => {}
            None if dnode.phys().spill.is_some() => dnode.remove_spill(tx),
            None => {}
        }
        dnode.set_bonus(tx, self.bonus);
    }
}

/// Bytes that attributes take: a header with the lengths of those that vary, then each from a multiple of 8 on.
fn encoded_len(values: &[(u16, Value)], layouts: &Layouts) -> usize {
    let varies =
        |number: u16| layouts.registered(number).is_some_and(|attribute| attribute.bytes == 0);
    let lengths = values.iter().filter(|(number, _)| varies(*number)).count();
    let bytes: usize = values.iter().map(|(_, value)| value.len().next_multiple_of(8)).sum();
    (6 + 2 * lengths).next_multiple_of(8) + bytes
}

fn encoded(
    values: &[(u16, Value)],
    endian: Endian,
    layouts: &mut NewLayouts,
) -> Result<Vec<u8>, Problem> {
    let list: SmallVec<[u16; 24]> = values.iter().map(|(number, _)| *number).collect();
    let layout = layouts.number(&list)?;
    let bytes = system::encode(layout, values, endian, &layouts.known);
    bytes.map_err(|_| Problem::NoRoom("an attribute"))
}

/// An attribute's bytes in another order.
fn turned(
    layouts: &Layouts,
    number: u16,
    mut value: Value,
    from: Endian,
    to: Endian,
) -> Result<Value, FormatError> {
    if from == to {
        return Ok(value);
    }
    let swap = layouts.registered(number).map_or(3, |known| known.swap);
    if swap == SWAP_ACL {
        return acl::encode(&acl::decode(&value, 1, from)?, to).map(Value::from);
    }
    let unit = 8usize >> swap.min(3);
    value.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    Ok(value)
}

fn set_in_znode(
    znode: &mut Znode,
    text: &mut Vec<u8>,
    name: Name,
    value: &[u8],
    endian: Endian,
) -> Result<(), Problem> {
    let word = |at: usize| {
        let bytes = value.get(8 * at..).and_then(|rest| rest.first_chunk::<8>());
        bytes.map_or(0, |bytes| endian.u64(*bytes))
    };
    let (one, two) = (word(0), [word(0), word(1)]);
    match name {
        names::ACCESSED => znode.accessed = two,
        names::MODIFIED => znode.modified = two,
        names::CHANGED => znode.changed = two,
        names::CREATED => znode.created = two,
        names::GENERATION => znode.generation = one,
        names::MODE => znode.mode = one,
        names::SIZE => znode.size = one,
        names::PARENT => znode.parent = one,
        names::LINKS => znode.links = one,
        names::EXTENDED_ATTRIBUTES => znode.extended_attributes = one,
        names::DEVICE => znode.device = one,
        names::FLAGS => znode.flags = one,
        names::USER => znode.uid = one,
        names::GROUP => znode.gid = one,
        names::SYMBOLIC_LINK => *text = value.to_vec(),
        other => return Err(Problem::NoEntry(other.text())),
    }
    Ok(())
}
