//! What a simulated device holds: real bytes, sparsely.
//!
//! Theory. A simulated array of terabytes must fit in the memory of one machine, and yet the parity,
//! checksum and recovery code above it must work on real bytes. Test data is generated, so most pages
//! repeat one 8-byte word; such a page is stored as that word. Parity of such pages is again such a
//! page, because XOR and multiplication in GF(256) work on each byte by itself. Metadata repeats
//! nothing and is kept whole.
//!
//! The layout is a radix tree of three levels: GiB → MiB → page of 4 KiB. At each level a subtree that
//! repeats one word is that word, so a uniform write of 1 MiB touches one slot, and a device that was
//! never written is 16 bytes a GiB. Subtrees are merged again when their last child is written, which
//! is when a sequential fill is done with them; a random fill may leave a uniform subtree unmerged,
//! which costs memory and no more.
//!
//! A subtree that differs in few places is a list of those, and a single page of one word in a MiB of zeros stands in the slot
//! of the MiB: scattered reads and writes wait for memory more than for anything else, so there should be little of it.
//!
//! Rules: never-written bytes read as zeros; word data starts and ends on multiples of 8; nothing here
//! knows of time. A read sees exactly the last write of each byte.
//!
//! It doesn't compress, and doesn't find equal pages that repeat nothing.

use few::Few;
use stdx::{ByteCount, GIB, MIB, Offset};

mod few;

/// The unit in which bytes are kept whole.
pub const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;
const PAGES_PER_GROUP: usize = (MIB / PAGE) as usize;
const GROUPS_PER_REGION: usize = (GIB / MIB) as usize;
/// Groups that differ before a region is kept group by group: till then the list is smaller and quick.
const SPARSE_GROUPS_MAX: usize = 64;
/// Pages that differ before a group is kept page by page, likewise.
const SPARSE_PAGES_MAX: usize = 32;
type FewGroups = Few<u16, Group, SPARSE_GROUPS_MAX>;
type FewPages = Few<u8, Page, SPARSE_PAGES_MAX>;
/// The size of the word whose repetition is stored once.
const WORD: u64 = 8;

/// A stretch of what was stored: one word over and over, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// These 8 bytes (in memory order, little-endian in the number), repeated.
    Word(u64),
    /// These bytes.
    Bytes(&'a [u8]),
}

/// Sparse bytes of a device.
#[derive(Debug)]
pub struct Store {
    capacity: ByteCount,
    regions: Vec<Region>,
}

#[derive(Debug)]
enum Region {
    Uniform(u64),
    Sparse(Box<FewGroups>),
    Groups(Box<[Group; GROUPS_PER_REGION]>),
}

#[derive(Debug)]
enum Group {
    Uniform(u64),
    /// Zeros but for one page, which repeats a word: what one scattered write leaves.
    Page(u8, u64),
    Sparse(Box<FewPages>),
    Pages(Box<[Page; PAGES_PER_GROUP]>),
}

const _: () = assert!(size_of::<Region>() == 16 && size_of::<Group>() == 16, "slots are small");

#[derive(Clone, Debug)]
enum Page {
    Uniform(u64),
    Whole(Box<[u8; PAGE_BYTES]>),
}

impl Store {
    /// A store of this size, all zeros.
    pub fn new(capacity: ByteCount) -> Store {
        let regions = capacity.bytes().div_ceil(GIB);
        Store { capacity, regions: (0..regions).map(|_| Region::Uniform(0)).collect() }
    }

    /// How many bytes it holds.
    pub fn capacity(&self) -> ByteCount {
        self.capacity
    }

    /// Writes `word` over and over from `at` for `len` bytes.
    ///
    /// # Panics
    /// Where the range leaves the store, or is not on multiples of 8.
    pub fn write_word(&mut self, at: Offset, len: ByteCount, word: u64) {
        self.check(at, len);
        assert_words(at, len);
        let (mut at, end) = (at.bytes(), (at + len).bytes());
        while at < end {
            let (index, within) = ((at / GIB) as usize, at % GIB);
            let n = (end - at).min(GIB - within);
            if n == GIB {
                self.regions[index] = Region::Uniform(word);
            } else {
                self.regions[index].write_word(within, n, word);
            }
            at += n;
        }
    }

    /// Writes bytes. A whole page that turns out to repeat a word is stored as that word.
    ///
    /// # Panics
    /// Where the range leaves the store.
    pub fn write_bytes(&mut self, at: Offset, bytes: &[u8]) {
        self.check(at, ByteCount(bytes.len() as u64));
        let (mut at, mut rest) = (at.bytes(), bytes);
        while !rest.is_empty() {
            let within = (at % PAGE) as usize;
            let n = rest.len().min(PAGE_BYTES - within);
            let (now, later) = rest.split_at(n);
            match (n == PAGE_BYTES).then(|| repeated_word(now)).flatten() {
                Some(word) => self.regions[(at / GIB) as usize].write_word(at % GIB, PAGE, word),
                None => self.page_mut(at).write(within, now),
            }
            at += n as u64;
            rest = later;
        }
    }

    /// Calls `each` with what lies from `at`, piece by piece in order, `len` bytes in all.
    ///
    /// # Panics
    /// Where the range leaves the store, or is not on multiples of 8.
    pub fn read<'a>(&'a self, at: Offset, len: ByteCount, mut each: impl FnMut(u64, Piece<'a>)) {
        self.check(at, len);
        assert_words(at, len);
        let (mut at, end) = (at.bytes(), (at + len).bytes());
        while at < end {
            let (unit, page) = self.regions[(at / GIB) as usize].look(at % GIB);
            let n = (end - at).min(unit - at % unit);
            let from = (at % PAGE) as usize;
            each(n, page.map_or_else(Piece::Word, |b| Piece::Bytes(&b[from..from + n as usize])));
            at += n;
        }
    }

    /// Copies what lies from `at` into `out`.
    ///
    /// # Panics
    /// As [`Store::read`].
    pub fn read_into(&self, at: Offset, out: &mut [u8]) {
        let mut done = 0;
        self.read(at, ByteCount(out.len() as u64), |n, piece| {
            let part = &mut out[done..done + n as usize];
            match piece {
                Piece::Bytes(bytes) => part.copy_from_slice(bytes),
                Piece::Word(word) => fill(part, word),
            }
            done += n as usize;
        });
    }

    /// Copies a range from another store to the same place in this one.
    ///
    /// # Panics
    /// As [`Store::read`].
    pub fn copy_from(&mut self, from: &Store, at: Offset, len: ByteCount) {
        let mut place = at;
        from.read(at, len, |n, piece| {
            match piece {
                Piece::Word(word) => self.write_word(place, ByteCount(n), word),
                Piece::Bytes(bytes) => self.write_bytes(place, bytes),
            }
            place += ByteCount(n);
        });
    }

    /// Memory that the content occupies, about.
    pub fn memory(&self) -> ByteCount {
        let regions = self.regions.iter().map(Region::memory).sum::<usize>();
        let bytes = self.regions.len() * size_of::<Region>() + regions;
        ByteCount(bytes as u64)
    }

    fn check(&self, at: Offset, len: ByteCount) {
        let end = at.checked_add(len).expect("the end of a range fits 64 bits");
        assert!(
            end.from_start() <= self.capacity,
            "{len} at {at} leave a store of {}",
            self.capacity
        );
    }

    fn page_mut(&mut self, at: u64) -> &mut Page {
        let group = self.regions[(at / GIB) as usize].group_mut((at % GIB / MIB) as usize);
        group.page_mut((at % MIB / PAGE) as usize)
    }
}

impl Region {
    /// What holds the byte at `at`, and how long what is like it is: its bytes, or the word that they repeat.
    fn look(&self, at: u64) -> (u64, Result<&[u8; PAGE_BYTES], u64>) {
        let index = (at / MIB) as usize;
        match self {
            Region::Uniform(word) => (GIB, Err(*word)),
            Region::Sparse(few) => match few.get(index as u16) {
                Some(group) => group.look(at % MIB),
                None => (MIB, Err(few.word)),
            },
            Region::Groups(groups) => groups[index].look(at % MIB),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Region::Uniform(_) => 0,
            Region::Sparse(few) => few.memory(Group::memory),
            Region::Groups(groups) => {
                size_of_val(&**groups) + groups.iter().map(Group::memory).sum::<usize>()
            }
        }
    }

    /// One group, which may be changed: of its own from here on.
    fn group_mut(&mut self, index: usize) -> &mut Group {
        if let Region::Uniform(word) = *self {
            *self = Region::Sparse(Box::new(Few::new(word)));
        }
        if let Region::Sparse(few) = self
            && few.children.len() >= SPARSE_GROUPS_MAX
        {
            self.dense();
        }
        match self {
            Region::Sparse(few) => few.get_mut(index as u16, Group::Uniform),
            Region::Groups(groups) => &mut groups[index],
            Region::Uniform(_) => unreachable!("it was just split"),
        }
    }

    /// Keeps it group by group.
    fn dense(&mut self) {
        let (word, few) = match self {
            Region::Uniform(word) => (*word, Vec::new()),
            Region::Sparse(few) => (few.word, few.take_all()),
            Region::Groups(_) => return,
        };
        let mut groups = Box::new([const { Group::Uniform(0) }; GROUPS_PER_REGION]);
        if word != 0 {
            groups.fill_with(|| Group::Uniform(word));
        }
        for (index, group) in few {
            groups[usize::from(index)] = group;
        }
        *self = Region::Groups(groups);
    }

    fn write_word(&mut self, at: u64, len: u64, word: u64) {
        if matches!(self, Region::Uniform(same) if *same == word) {
            return;
        }
        if len / MIB > SPARSE_GROUPS_MAX as u64 / 2 {
            self.dense();
        }
        let (mut at, end) = (at, at + len);
        let reaches_the_end = end == GIB;
        while at < end {
            let (index, within) = ((at / MIB) as usize, at % MIB);
            let n = (end - at).min(MIB - within);
            let group = self.group_mut(index);
            if n == MIB {
                *group = Group::Uniform(word);
            } else {
                group.write_word(within, n, word);
            }
            at += n;
        }
        let uniform = |g: &Group| matches!(g, Group::Uniform(same) if *same == word);
        if let Region::Groups(groups) = self
            && reaches_the_end
            && groups.iter().all(uniform)
        {
            *self = Region::Uniform(word);
        }
    }
}

impl Group {
    /// As [`Region::look`].
    fn look(&self, at: u64) -> (u64, Result<&[u8; PAGE_BYTES], u64>) {
        let index = (at / PAGE) as usize;
        let page = match self {
            Group::Uniform(word) => return (MIB, Err(*word)),
            Group::Page(page, word) => {
                return (PAGE, Err(if usize::from(*page) == index { *word } else { 0 }));
            }
            Group::Sparse(few) => match few.get(index as u8) {
                Some(page) => page,
                None => return (PAGE, Err(few.word)),
            },
            Group::Pages(pages) => &pages[index],
        };
        match page {
            Page::Uniform(word) => (PAGE, Err(*word)),
            Page::Whole(bytes) => (PAGE, Ok(bytes)),
        }
    }

    fn memory(&self) -> usize {
        let whole = |page: &Page| if let Page::Whole(_) = page { PAGE_BYTES } else { 0 };
        match self {
            Group::Uniform(_) | Group::Page(..) => 0,
            Group::Sparse(few) => few.memory(whole),
            Group::Pages(pages) => size_of_val(&**pages) + pages.iter().map(whole).sum::<usize>(),
        }
    }

    /// One page, which may be changed: of its own from here on.
    fn page_mut(&mut self, index: usize) -> &mut Page {
        let few = match *self {
            Group::Uniform(word) => Some(FewPages::new(word)),
            Group::Page(page, word) => {
                let mut few = FewPages::new(0);
                *few.get_mut(page, Page::Uniform) = Page::Uniform(word);
                Some(few)
            }
            _ => None,
        };
        if let Some(few) = few {
            *self = Group::Sparse(Box::new(few));
        }
        if let Group::Sparse(few) = self
            && few.children.len() >= SPARSE_PAGES_MAX
        {
            self.dense();
        }
        match self {
            Group::Sparse(few) => few.get_mut(index as u8, Page::Uniform),
            Group::Pages(pages) => &mut pages[index],
            Group::Uniform(_) | Group::Page(..) => unreachable!("it was just split"),
        }
    }

    /// Keeps it page by page.
    fn dense(&mut self) {
        let (word, few) = match self {
            Group::Uniform(word) => (*word, Vec::new()),
            Group::Page(page, word) => (0, vec![(*page, Page::Uniform(*word))]),
            Group::Sparse(few) => (few.word, few.take_all()),
            Group::Pages(_) => return,
        };
        let mut pages = Box::new([const { Page::Uniform(0) }; PAGES_PER_GROUP]);
        if word != 0 {
            pages.fill_with(|| Page::Uniform(word));
        }
        for (index, page) in few {
            pages[usize::from(index)] = page;
        }
        *self = Group::Pages(pages);
    }

    /// Writes one whole page, if that leaves it the only one of a MiB of zeros.
    fn write_lone_page(&mut self, at: u64, len: u64, word: u64) -> bool {
        let index = (at / PAGE) as u8;
        let lone = match self {
            Group::Uniform(0) => true,
            Group::Page(page, _) => *page == index,
            _ => false,
        };
        let lone = lone && len == PAGE && at.is_multiple_of(PAGE);
        if lone {
            *self = Group::Page(index, word);
        }
        lone
    }

    fn write_word(&mut self, at: u64, len: u64, word: u64) {
        if matches!(self, Group::Uniform(same) if *same == word)
            || self.write_lone_page(at, len, word)
        {
            return;
        }
        if len / PAGE > SPARSE_PAGES_MAX as u64 / 2 {
            self.dense();
        }
        let (mut at, end) = (at, at + len);
        let reaches_the_end = end == MIB;
        while at < end {
            let (index, within) = ((at / PAGE) as usize, (at % PAGE) as usize);
            let n = (end - at).min(PAGE - within as u64);
            let page = self.page_mut(index);
            if n == PAGE {
                *page = Page::Uniform(word);
            } else if !matches!(page, Page::Uniform(same) if *same == word) {
                fill(&mut page.bytes()[within..within + n as usize], word);
            }
            at += n;
        }
        let uniform = |p: &Page| matches!(p, Page::Uniform(same) if *same == word);
        if let Group::Pages(pages) = self
            && reaches_the_end
            && pages.iter().all(uniform)
        {
            *self = Group::Uniform(word);
        }
    }
}

impl Page {
    fn bytes(&mut self) -> &mut [u8; PAGE_BYTES] {
        if let Page::Uniform(word) = *self {
            let mut bytes = Box::new([0; PAGE_BYTES]);
            fill(&mut bytes[..], word);
            *self = Page::Whole(bytes);
        }
        let Page::Whole(bytes) = self else { unreachable!("it was just made whole") };
        bytes
    }

    fn write(&mut self, within: usize, bytes: &[u8]) {
        self.bytes()[within..within + bytes.len()].copy_from_slice(bytes);
    }
}

fn assert_words(at: Offset, len: ByteCount) {
    let whole = at.bytes().is_multiple_of(WORD) && len.bytes().is_multiple_of(WORD);
    assert!(whole, "{len} at {at} are not on multiples of {WORD} bytes");
}

/// Fills `part` with the word over and over; a whole number of words.
fn fill(part: &mut [u8], word: u64) {
    let word = word.to_le_bytes();
    for eight in part.as_chunks_mut::<8>().0 {
        *eight = word;
    }
}

/// The word that `bytes` repeats, if they do.
fn repeated_word(bytes: &[u8]) -> Option<u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    let first = words.first()?;
    (rest.is_empty() && words.iter().all(|word| word == first)).then(|| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Write {
        Word { at: u64, len: u64, word: u64 },
        Bytes { at: u64, bytes: Vec<u8> },
    }

    const SPAN: u64 = 3 * MIB;

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        let word = (0..SPAN / 512, 1..SPAN / 512, 0..3_u64)
            .prop_map(|(at, len, word)| Write::Word { at: at * 512, len: len * 512, word });
        let bytes = (0..SPAN, prop::collection::vec(any::<u8>(), 1..20_000))
            .prop_map(|(at, bytes)| Write::Bytes { at, bytes });
        let same = (0..SPAN / PAGE, 0..2_u8, 1..3_usize).prop_map(|(at, byte, pages)| {
            Write::Bytes { at: at * PAGE, bytes: vec![byte; pages * PAGE_BYTES] }
        });
        prop::collection::vec(prop_oneof![word, bytes, same], 1..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The tree splits and merges; if it did so wrongly, bytes would come back from elsewhere.
        #[test]
        fn a_store_reads_like_a_plain_array(writes in writes()) {
            // The range straddles a GiB, so that all three levels split.
            let base = GIB - MIB;
            let mut store = Store::new(ByteCount(base + SPAN + GIB));
            let mut plain = vec![0_u8; SPAN as usize];
            for write in writes {
                match write {
                    Write::Word { at, len, word } => {
                        let len = len.min(SPAN - at);
                        store.write_word(Offset(base + at), ByteCount(len), word);
                        fill(&mut plain[at as usize..(at + len) as usize], word);
                    }
                    Write::Bytes { at, mut bytes } => {
                        bytes.truncate((SPAN - at) as usize);
                        store.write_bytes(Offset(base + at), &bytes);
                        plain[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                    }
                }
            }
            let mut read = vec![1; SPAN as usize];
            store.read_into(Offset(base), &mut read);
            prop_assert!(read == plain);
            let mut copy = Store::new(store.capacity());
            copy.copy_from(&store, Offset(base), ByteCount(SPAN));
            copy.read_into(Offset(base), &mut read);
            prop_assert!(read == plain);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Lists of groups and of pages grow until they are tables, and single pages until they are lists: what was written
        /// on the way there must be found after it.
        #[test]
        fn scattered_words_come_back_however_many_there_are(
            writes in prop::collection::vec((0..200_u64, 0..256_u64, 1..4_u64, any::<bool>(), 1..4_u64), 1..400)
        ) {
            let mut store = Store::new(ByteCount(2 * GIB));
            let mut plain = std::collections::BTreeMap::new();
            for (group, page, halves, from_half, word) in writes {
                let at = group * MIB + page * PAGE + if from_half { PAGE / 2 } else { 0 };
                let len = halves * PAGE / 2;
                store.write_word(Offset(at), ByteCount(len), word);
                (at..at + len).step_by(PAGE_BYTES / 2).for_each(|half| { plain.insert(half, word); });
            }
            let mut copy = Store::new(store.capacity());
            copy.copy_from(&store, Offset::ZERO, store.capacity());
            for at in (0..201 * MIB).step_by(PAGE_BYTES / 2) {
                let word = plain.get(&at).copied().unwrap_or(0).to_le_bytes();
                for store in [&store, &copy] {
                    let mut read = [1; 16];
                    store.read_into(Offset(at), &mut read);
                    prop_assert!(read[..8] == word && read[8..] == word, "{at}");
                }
            }
        }
    }

    /// A lab run fills terabytes; if a uniform fill were kept page by page it would not fit.
    #[test]
    fn a_terabyte_of_one_word_fits_in_a_few_kilobytes() {
        let mut store = Store::new(ByteCount(1 << 40));
        for mib in 0..4096 {
            store.write_word(Offset(mib * MIB), ByteCount::mib(1), 7);
        }
        store.write_word(Offset(1 << 33), ByteCount((1 << 40) - (1 << 33)), 7);
        assert!(store.memory() < ByteCount::kib(64), "{}", store.memory());
        let mut out = [0; 16];
        store.read_into(Offset(GIB - 8), &mut out);
        assert_eq!(out, [7, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// Random writes over terabytes touch a MiB each; with a table of pages for each they would not fit.
    #[test]
    fn scattered_writes_cost_little_more_than_what_they_write() {
        let mut store = Store::new(ByteCount(1 << 40));
        for i in 0..100_000_u64 {
            store.write_word(Offset(i * 7919 % 262_144 * 4 * MIB + 4096), ByteCount(4096), i);
        }
        let each = store.memory().bytes() / 100_000;
        println!("{each} bytes for a scattered page");
        assert!(each < 200, "{each}");
    }

    #[test]
    #[should_panic(expected = "leave a store")]
    fn a_write_past_the_end_is_our_bug() {
        Store::new(ByteCount(4096)).write_word(Offset(4096), ByteCount(512), 1);
    }
}
