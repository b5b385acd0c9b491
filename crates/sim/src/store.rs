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
//! Rules: never-written bytes read as zeros; word data starts and ends on multiples of 8; nothing here
//! knows of time. A read sees exactly the last write of each byte.
//!
//! It doesn't compress, and doesn't find equal pages that repeat nothing.

use stdx::{ByteCount, GIB, MIB, Offset};

/// The unit in which bytes are kept whole.
pub const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;
const PAGES_PER_GROUP: usize = (MIB / PAGE) as usize;
const GROUPS_PER_REGION: usize = (GIB / MIB) as usize;
/// Pages that differ before a group is kept page by page: till then the list is smaller and quick.
const SPARSE_PAGES_MAX: usize = 32;
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
    Groups(Box<[Group]>),
}

#[derive(Debug)]
enum Group {
    Uniform(u64),
    Sparse(Box<Sparse>),
    Pages(Box<[Page]>),
}

/// One word over and over but for a few pages, in order: what scattered writes leave.
#[derive(Debug)]
struct Sparse {
    word: u64,
    pages: Vec<(u8, Page)>,
}

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
            let (unit, page) = match &self.regions[(at / GIB) as usize] {
                Region::Uniform(word) => (GIB, Err(*word)),
                Region::Groups(groups) => match &groups[(at % GIB / MIB) as usize] {
                    Group::Uniform(word) => (MIB, Err(*word)),
                    Group::Sparse(sparse) => match sparse.page((at % MIB / PAGE) as u8) {
                        None => (PAGE, Err(sparse.word)),
                        Some(Page::Uniform(word)) => (PAGE, Err(*word)),
                        Some(Page::Whole(bytes)) => (PAGE, Ok(bytes)),
                    },
                    Group::Pages(pages) => match &pages[(at % MIB / PAGE) as usize] {
                        Page::Uniform(word) => (PAGE, Err(*word)),
                        Page::Whole(bytes) => (PAGE, Ok(bytes)),
                    },
                },
            };
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
        let mut bytes = self.regions.len() * size_of::<Region>();
        for region in &self.regions {
            let Region::Groups(groups) = region else { continue };
            bytes += groups.len() * size_of::<Group>();
            for group in groups {
                let whole = |p: &&Page| matches!(p, Page::Whole(_));
                match group {
                    Group::Uniform(_) => {}
                    Group::Sparse(sparse) => {
                        bytes += size_of::<Sparse>();
                        bytes += sparse.pages.capacity() * size_of::<(u8, Page)>();
                        let pages = sparse.pages.iter().map(|(_, page)| page);
                        bytes += pages.filter(whole).count() * PAGE_BYTES;
                    }
                    Group::Pages(pages) => {
                        bytes += pages.len() * size_of::<Page>();
                        bytes += pages.iter().filter(whole).count() * PAGE_BYTES;
                    }
                }
            }
        }
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
        let groups = self.regions[(at / GIB) as usize].groups();
        groups[(at % GIB / MIB) as usize].page_mut((at % MIB / PAGE) as usize)
    }
}

impl Region {
    fn groups(&mut self) -> &mut [Group] {
        if let Region::Uniform(word) = *self {
            *self = Region::Groups((0..GROUPS_PER_REGION).map(|_| Group::Uniform(word)).collect());
        }
        let Region::Groups(groups) = self else { unreachable!("it was just split") };
        groups
    }

    fn write_word(&mut self, at: u64, len: u64, word: u64) {
        if matches!(self, Region::Uniform(same) if *same == word) {
            return;
        }
        let groups = self.groups();
        let (mut at, end) = (at, at + len);
        let reaches_the_end = end == GIB;
        while at < end {
            let (index, within) = ((at / MIB) as usize, at % MIB);
            let n = (end - at).min(MIB - within);
            if n == MIB {
                groups[index] = Group::Uniform(word);
            } else {
                groups[index].write_word(within, n, word);
            }
            at += n;
        }
        let uniform = |g: &Group| matches!(g, Group::Uniform(same) if *same == word);
        if reaches_the_end && groups.iter().all(uniform) {
            *self = Region::Uniform(word);
        }
    }
}

impl Sparse {
    fn page(&self, index: u8) -> Option<&Page> {
        let found = self.pages.binary_search_by_key(&index, |(at, _)| *at);
        found.ok().map(|at| &self.pages[at].1)
    }
}

impl Group {
    /// One page, which may be changed: of its own from here on.
    fn page_mut(&mut self, index: usize) -> &mut Page {
        if let Group::Uniform(word) = *self {
            *self = Group::Sparse(Box::new(Sparse { word, pages: Vec::new() }));
        }
        if let Group::Sparse(sparse) = self
            && sparse.pages.len() >= SPARSE_PAGES_MAX
        {
            self.dense();
        }
        match self {
            Group::Sparse(sparse) => {
                let found = sparse.pages.binary_search_by_key(&(index as u8), |(at, _)| *at);
                let at = found.unwrap_or_else(|at| {
                    sparse.pages.insert(at, (index as u8, Page::Uniform(sparse.word)));
                    at
                });
                &mut sparse.pages[at].1
            }
            Group::Pages(pages) => &mut pages[index],
            Group::Uniform(_) => unreachable!("it was just split"),
        }
    }

    /// Keeps it page by page.
    fn dense(&mut self) -> &mut [Page] {
        let (word, few) = match self {
            Group::Uniform(word) => (*word, Vec::new()),
            Group::Sparse(sparse) => (sparse.word, std::mem::take(&mut sparse.pages)),
            Group::Pages(pages) => return pages,
        };
        let mut pages = vec![Page::Uniform(word); PAGES_PER_GROUP];
        for (index, page) in few {
            pages[usize::from(index)] = page;
        }
        *self = Group::Pages(pages.into());
        let Group::Pages(pages) = self else { unreachable!("it was just made dense") };
        pages
    }

    fn write_word(&mut self, at: u64, len: u64, word: u64) {
        match self {
            Group::Uniform(same) if *same == word => return,
            _ if len / PAGE > SPARSE_PAGES_MAX as u64 / 2 => {
                self.dense();
            }
            _ => {}
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
        assert!(each < 500, "{each}");
    }

    #[test]
    #[should_panic(expected = "leave a store")]
    fn a_write_past_the_end_is_our_bug() {
        Store::new(ByteCount(4096)).write_word(Offset(4096), ByteCount(512), 1);
    }
}
