//! The arithmetic of parity over scatter-gather lists.
//!
//! `codec` computes over slices of bytes; here the members of a stripe are lists of pieces, some of
//! which are *fills* (one word repeated). A stripe is cut wherever a piece of any input ends. In a part
//! where all inputs are fills the parity is computed on the words, and is a fill again: a terabyte of
//! generated data has its parity in no time and no memory. Elsewhere it is computed on the bytes.
//!
//! [`Sums`] collects what several stripes need, so that one `compute` does it all: outputs are
//! allocated when a sum is added (on the engine's thread, whose pool gets the memory back), the
//! arithmetic runs wherever `compute` puts it. Three kinds:
//!
//! * **generate**: P, or P and Q, of all data;
//! * **update**: the same of the old parity, the old and the new data of some members;
//! * **reconstruct**: lost members from what there is.
//!
//! What is charged for a sum is what its bytes cost, whether they are written out or fills.

use codec::parity::{self, Member};
use rt::{Buf, BufMut, Rt, SgList, Work, WorkKind};
use smallvec::SmallVec;
use stdx::ByteCount;

/// P, or P and Q.
pub(crate) type Parities = SmallVec<[SgList; 2]>;

/// A member in a reconstruction.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Its bytes.
    Here(SgList),
    /// Is wanted.
    Wanted,
    /// Is lost too, and not wanted.
    Lost,
    /// There is no such member: its coefficient is left out.
    Hole,
}

/// What one sum is.
enum Kind {
    /// Inputs: the data members by coefficient.
    Generate { parities: usize },
    /// Inputs: the old parities (as `parities` says), then pairs of old and new data.
    Update { parities: [bool; 2], coefficients: SmallVec<[usize; 4]> },
    /// Inputs: those that are here. `roles` has all data members, then the parities.
    Reconstruct { roles: Vec<Role>, parities: usize },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Output,
    Lost,
    Hole,
}

/// A part of a sum in which no piece of an input ends.
struct Segment {
    len: usize,
    inputs: SmallVec<[Buf; 6]>,
    /// Where bytes go; none where all inputs are fills.
    outputs: SmallVec<[BufMut; 2]>,
}

enum Sum {
    /// Of fills alone: it was computed when it was added, on eight bytes.
    Made(Parities),
    /// Apart, so that sums can be moved cheaply.
    ToDo(Box<ToDo>),
}

struct ToDo {
    kind: Kind,
    outputs: usize,
    segments: SmallVec<[Segment; 1]>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Sums {
    sums: SmallVec<[Sum; 1]>,
    bytes: u64,
    kind: Option<WorkKind>,
}

impl Sums {
    /// Whether there is nothing to compute.
    pub(crate) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Adds: P, or P and Q, of `data`, which stands in the order of its coefficients; `None` counts as
    /// zeros.
    pub(crate) fn generate(&mut self, data: Vec<Option<SgList>>, parities: usize) {
        let kind = if parities == 1 { WorkKind::ParityP } else { WorkKind::ParityPq };
        let holes = data.iter().any(Option::is_none);
        if holes {
            let roles =
                data.iter().map(|member| if member.is_some() { Role::Input } else { Role::Hole });
            let roles = roles.chain(std::iter::repeat_n(Role::Output, parities)).collect();
            let inputs = data.into_iter().flatten().collect();
            self.add(Kind::Reconstruct { roles, parities }, parities, inputs, kind);
        } else {
            let inputs = data.into_iter().flatten().collect();
            self.add(Kind::Generate { parities }, parities, inputs, kind);
        }
    }

    /// Adds: the parities (those that are given) after changes of some members, each the coefficient,
    /// the old bytes and the new.
    pub(crate) fn update(
        &mut self,
        old: [Option<SgList>; 2],
        changes: impl IntoIterator<Item = (usize, SgList, SgList)>,
    ) {
        let parities = [old[0].is_some(), old[1].is_some()];
        let kind = if parities[1] { WorkKind::ParityPq } else { WorkKind::ParityP };
        let outputs = parities.iter().filter(|there| **there).count();
        let mut coefficients = SmallVec::new();
        let mut inputs: Vec<SgList> = Vec::with_capacity(6);
        inputs.extend(old.into_iter().flatten());
        for (coefficient, old, new) in changes {
            coefficients.push(coefficient);
            inputs.push(old);
            inputs.push(new);
        }
        self.add(Kind::Update { parities, coefficients }, outputs, inputs, kind);
    }

    /// Adds: every wanted member, data by coefficient first, then parities.
    pub(crate) fn reconstruct(&mut self, data: Vec<Part>, parity: Vec<Part>) {
        let (members, parities) = (data.len(), parity.len());
        let (mut roles, mut inputs, mut outputs) = (Vec::new(), Vec::new(), 0);
        for part in data.into_iter().chain(parity) {
            roles.push(match part {
                Part::Here(bytes) => {
                    inputs.push(bytes);
                    Role::Input
                }
                Part::Wanted => {
                    outputs += 1;
                    Role::Output
                }
                Part::Lost => Role::Lost,
                Part::Hole => Role::Hole,
            });
        }
        // One loss that P covers is an exclusive or, as P is.
        let unknown = |role: &Role| matches!(role, Role::Output | Role::Lost);
        let is_sum =
            roles[..=members].iter().filter(|role| unknown(role)).count() == 1 && outputs == 1;
        let work = if is_sum { WorkKind::ParityP } else { WorkKind::Reconstruct };
        self.add(Kind::Reconstruct { roles, parities }, outputs, inputs, work);
    }

    fn add(&mut self, kind: Kind, outputs: usize, inputs: Vec<SgList>, work: WorkKind) {
        self.bytes += inputs.iter().map(|input| input.len() as u64).sum::<u64>();
        self.kind = self.kind.or(Some(work));
        let words: Option<SmallVec<[u64; 16]>> = inputs.iter().map(word_of).collect();
        self.sums.push(match words {
            Some(words) => {
                let len = len_of(&inputs);
                let made = run_words(&kind, &words).into_iter();
                Sum::Made(made.map(|word| Buf::fill(word, len).into()).collect())
            }
            None => {
                let segments = segments(inputs, outputs);
                Sum::ToDo(Box::new(ToDo { kind, outputs, segments }))
            }
        });
    }

    /// Computes all sums here and now: for a few sectors.
    pub(crate) fn compute_now(self) -> SmallVec<[Parities; 1]> {
        self.sums.into_iter().map(Sum::run).collect()
    }

    /// Computes all sums, in the order of adding.
    pub(crate) async fn compute(self, rt: &Rt) -> SmallVec<[Parities; 1]> {
        let Some(kind) = self.kind else { return SmallVec::new() };
        let sums = self.sums;
        rt.compute(Work::new(kind, ByteCount(self.bytes)), move || {
            sums.into_iter().map(Sum::run).collect()
        })
        .await
    }
}

/// The word that all of a list repeats, where it is held as one fill of whole words.
fn word_of(list: &SgList) -> Option<u64> {
    match list.pieces() {
        [only] if only.len().is_multiple_of(8) => only.fill_word(),
        _ => None,
    }
}

/// How long the inputs of a sum are.
fn len_of(inputs: &[SgList]) -> usize {
    let total = inputs.first().map_or(0, SgList::len);
    assert!(total > 0, "a sum has inputs");
    assert!(
        inputs.iter().all(|input| input.len() == total),
        "the inputs of a sum are equally long"
    );
    total
}

/// Cuts equally long lists wherever a piece of one ends.
fn segments(inputs: Vec<SgList>, outputs: usize) -> SmallVec<[Segment; 1]> {
    let total = len_of(&inputs);
    let outputs_for = |inputs: &[Buf], len: usize| -> SmallVec<[BufMut; 2]> {
        let fills = inputs.iter().all(|input| input.fill_word().is_some()) && len.is_multiple_of(8);
        let count = if fills { 0 } else { outputs };
        (0..count).map(|_| BufMut::for_overwrite(len)).collect()
    };
    if inputs.iter().all(|input| input.pieces().len() == 1) {
        let inputs: SmallVec<[Buf; 6]> =
            inputs.iter().map(|input| input.pieces()[0].clone()).collect();
        let outputs = outputs_for(&inputs, total);
        return SmallVec::from_iter([Segment { len: total, inputs, outputs }]);
    }
    let mut segments = SmallVec::new();
    // For each input the piece that is next, and how far it is used up.
    let mut cursors: Vec<(usize, usize)> = vec![(0, 0); inputs.len()];
    let mut done = 0;
    while done < total {
        let left = |(input, (piece, from)): (&SgList, &(usize, usize))| {
            input.pieces()[*piece].len() - from
        };
        let len = inputs.iter().zip(&cursors).map(left).min().unwrap_or(total);
        let mut parts: SmallVec<[Buf; 6]> = SmallVec::with_capacity(inputs.len());
        for (input, (piece, from)) in inputs.iter().zip(&mut cursors) {
            let whole = &input.pieces()[*piece];
            parts.push(if whole.len() == len {
                whole.clone()
            } else {
                whole.slice(*from..*from + len)
            });
            *from += len;
            if *from == whole.len() {
                (*piece, *from) = (*piece + 1, 0);
            }
        }
        let outputs = outputs_for(&parts, len);
        segments.push(Segment { len, inputs: parts, outputs });
        done += len;
    }
    segments
}

impl Sum {
    fn run(self) -> Parities {
        let ToDo { kind, outputs, segments } = match self {
            Sum::Made(made) => return made,
            Sum::ToDo(to_do) => *to_do,
        };
        let mut results: Parities = (0..outputs).map(|_| SgList::new()).collect();
        for mut segment in segments {
            if segment.outputs.is_empty() {
                let words = segment.inputs.iter().map(|input| input.fill_word().unwrap_or(0));
                let words: SmallVec<[u64; 16]> = words.collect();
                for (result, word) in results.iter_mut().zip(run_words(&kind, &words)) {
                    result.push(Buf::fill(word, segment.len));
                }
                continue;
            }
            {
                let outputs = segment.outputs.iter_mut();
                let mut outputs: SmallVec<[&mut [u8]; 2]> =
                    outputs.map(|output| &mut **output).collect();
                run_bytes(&kind, &segment.inputs, &mut outputs);
            }
            for (result, output) in results.iter_mut().zip(segment.outputs) {
                result.push(output.freeze());
            }
        }
        results
    }
}

fn run_words(kind: &Kind, words: &[u64]) -> SmallVec<[u64; 2]> {
    match kind {
        Kind::Generate { parities } => {
            parity::generate_words(words)[..*parities].iter().copied().collect()
        }
        Kind::Update { parities, coefficients } => {
            let count = usize::from(parities[0]) + usize::from(parities[1]);
            let pairs = words[count..].chunks_exact(2);
            let changes: SmallVec<[(usize, u64); 4]> = coefficients
                .iter()
                .zip(pairs)
                .map(|(coefficient, pair)| (*coefficient, pair[0] ^ pair[1]))
                .collect();
            let mut both = [0; 2];
            let mut old = words.iter();
            for (word, there) in both.iter_mut().zip(parities) {
                if *there {
                    *word = *old.next().expect("an old parity is an input");
                }
            }
            parity::update_words(&changes, &mut both);
            both.into_iter()
                .zip(parities)
                .filter_map(|(word, there)| there.then_some(word))
                .collect()
        }
        Kind::Reconstruct { roles, parities } => {
            let mut inputs = words.iter();
            let word = |role: &Role| match role {
                Role::Input => Some(*inputs.next().expect("an input for each that is here")),
                Role::Output | Role::Lost => None,
                Role::Hole => Some(0),
            };
            let mut all: SmallVec<[Option<u64>; 16]> = roles.iter().map(word).collect();
            let (data, parity) = all.split_at_mut(roles.len() - parities);
            parity::reconstruct_words(data, parity);
            let outputs = roles.iter().zip(all).filter(|(role, _)| **role == Role::Output);
            outputs.filter_map(|(_, word)| word).collect()
        }
    }
}

fn run_bytes(kind: &Kind, inputs: &[Buf], outputs: &mut [&mut [u8]]) {
    let bytes: SmallVec<[&[u8]; 16]> = inputs.iter().map(Buf::bytes).collect();
    match kind {
        Kind::Generate { .. } => parity::generate(&bytes, outputs),
        Kind::Update { parities: [true, false], .. } => parity::xor_many(outputs[0], &bytes),
        Kind::Update { parities, coefficients } => {
            let (old, data) = bytes.split_at(outputs.len());
            for (output, old) in outputs.iter_mut().zip(old) {
                output.copy_from_slice(old);
            }
            let changes: SmallVec<[(usize, &[u8]); 8]> = coefficients
                .iter()
                .zip(data.chunks_exact(2))
                .flat_map(|(coefficient, pair)| [(*coefficient, pair[0]), (*coefficient, pair[1])])
                .collect();
            let mut outputs = outputs.iter_mut();
            let mut next = |there: bool| {
                there.then(|| &mut **outputs.next().expect("an output for each parity"))
            };
            let mut both = [next(parities[0]), next(parities[1])];
            parity::update(&changes, &mut both);
        }
        Kind::Reconstruct { roles, parities } => {
            let (mut inputs, mut outputs) = (bytes.iter(), outputs.iter_mut());
            let member = |role: &Role| match role {
                Role::Input => {
                    Member::Present(inputs.next().expect("an input for each that is here"))
                }
                Role::Output => {
                    Member::Lost(outputs.next().expect("an output for each that is wanted"))
                }
                Role::Lost => Member::Absent,
                Role::Hole => Member::Present(&[]),
            };
            let mut all: Vec<Member> = roles.iter().map(member).collect();
            let (data, parity) = all.split_at_mut(roles.len() - parities);
            parity::reconstruct(data, parity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A list of pieces, fills and memory, and its bytes.
    fn list(pieces: &[(bool, u8)], salt: usize) -> (SgList, Vec<u8>) {
        let mut list = SgList::new();
        for (n, (fill, len)) in pieces.iter().enumerate() {
            let len = usize::from(*len) * 8;
            let byte = |i: usize| (i * 37 + n * 11 + salt * 101) as u8;
            list.push(if *fill {
                Buf::fill(0x0123_4567_89ab_cdef * (salt + n + 1) as u64, len)
            } else {
                Buf::copy_of(&(0..len).map(byte).collect::<Vec<_>>())
            });
        }
        let bytes = list.to_vec();
        (list, bytes)
    }

    fn cut(pieces: &[(bool, u8)], salt: usize, len: usize) -> (SgList, Vec<u8>) {
        let (mut list, _) = list(pieces, salt);
        if list.len() < len {
            list.push(Buf::fill(salt as u64, len - list.len()));
        }
        let list = list.slice(0..len);
        let bytes = list.to_vec();
        (list, bytes)
    }

    proptest! {
        /// Pieces cut at different places, or a fill taken for bytes: the sums of lists are the sums of
        /// their bytes.
        #[test]
        fn sums_of_lists_are_sums_of_their_bytes(
            shapes in proptest::collection::vec(proptest::collection::vec((any::<bool>(), 1_u8..12), 1..4), 3..7),
            parities in 1_usize..3,
            len in 1_usize..20,
        ) {
            let len = len * 8;
            let members: Vec<_> = shapes.iter().enumerate().map(|(salt, pieces)| cut(pieces, salt, len)).collect();
            let slices: Vec<&[u8]> = members.iter().map(|(_, bytes)| &bytes[..]).collect();
            let mut expected = vec![vec![0; len]; parities];
            {
                let mut rows: Vec<&mut [u8]> = expected.iter_mut().map(|row| &mut row[..]).collect();
                parity::generate(&slices, &mut rows);
            }
            let run = |sums: Sums| sums.sums.into_iter().map(Sum::run).next().expect("one sum");
            let mut sums = Sums::default();
            sums.generate(members.iter().map(|(list, _)| Some(list.clone())).collect(), parities);
            let made = run(sums);
            for (made, expected) in made.iter().zip(&expected) {
                prop_assert_eq!(&made.to_vec(), expected);
            }
            // Change member 1, update, and compare with generating anew.
            let (new, new_bytes) = cut(&shapes[0], 77, len);
            let mut changed = slices.clone();
            changed[1] = &new_bytes;
            let mut after = vec![vec![0; len]; parities];
            {
                let mut rows: Vec<&mut [u8]> = after.iter_mut().map(|row| &mut row[..]).collect();
                parity::generate(&changed, &mut rows);
            }
            let mut sums = Sums::default();
            let old = [Some(made[0].clone()), made.get(1).cloned()];
            sums.update(old, vec![(1, members[1].0.clone(), new.clone())]);
            for (made, expected) in run(sums).iter().zip(&after) {
                prop_assert_eq!(&made.to_vec(), expected);
            }
            // Lose member 0 (and P, where there is Q), and want it back.
            let here = |(index, (list, _)): (usize, &(SgList, Vec<u8>))| if index == 0 { Part::Wanted } else { Part::Here(list.clone()) };
            let data = members.iter().enumerate().map(here).collect();
            let parity = if parities == 1 { vec![Part::Here(made[0].clone())] } else { vec![Part::Lost, Part::Here(made[1].clone())] };
            let mut sums = Sums::default();
            sums.reconstruct(data, parity);
            prop_assert_eq!(run(sums)[0].to_vec(), members[0].1.clone());
        }
    }

    #[test]
    fn parity_of_a_terabyte_of_fills_is_a_fill() {
        let member = |word: u64| Some(SgList::from(Buf::fill(word, 1 << 40)));
        let mut sums = Sums::default();
        sums.generate(vec![member(1), member(2), member(4)], 1);
        let sum = sums.sums.pop().expect("one").run();
        assert_eq!(sum[0].pieces()[0].fill_word(), Some(7));
    }
}
