//! P, P+Q and P+Q+R parity: make it, rebuild lost members from it, and keep it up to date.
//!
//! # What is computed
//!
//! A **stripe** is a list of data members d₀ … dₙ₋₁ (equally long pieces, one a disk) and up to three
//! parity members. At each byte position, over the field GF(2⁸) of `gf256`:
//!
//! ```text
//! P = Σ dᵢ          Q = Σ 2ⁱ·dᵢ          R = Σ 4ⁱ·dᵢ
//! ```
//!
//! With m parity members any m of the n + m members may be lost and rebuilt: each parity is a linear
//! equation, and any k of the three equations are independent in any k unknowns dᵢ, as long as the
//! coefficients 2ⁱ differ, which they do for n ≤ 255.
//!
//! The **order** of the data members is the caller's, and is part of the on-disk format:
//!
//! * md (RAID 6): d₀ is the first in md's *syndrome order*, which goes from the disk after Q, around the
//!   end, leaving out P and Q (in the DDF layouts, from disk 0). That isn't the order of the addresses in
//!   every layout.
//! * raidz: OpenZFS goes over the columns in order with q ← 2q + d, so that the *last* column has the
//!   coefficient 1. Hand the data columns over **in reverse**.
//!
//! A data member **shorter** than the parity counts as zeros beyond its end. (The last columns of a
//! raidz row may be a sector shorter than the first.) The stripe is then worked off in pieces between
//! the ends, each with the members that reach into it.
//!
//! # How
//!
//! Each of the functions states its result as one `Pass`: a table of coefficients that lead from the
//! inputs to the outputs. `pass` has the loops; a [`Kernel`] is those loops in an instruction set.
//! `solve` finds the coefficients that rebuild what is lost. Kernels differ in speed only.
//!
//! | file | holds |
//! |---|---|
//! | `pass` | the loops, over any vector type |
//! | `scalar`, `x86`, `neon` | the vector types of each instruction set, and its kernels |
//! | `list` | a short list without allocation |
//! | `solve` | which members are unknown, from which parities they follow, with what coefficients |
//! | `words` | the same sums over single 64-bit words |
//!
//! # Rules
//!
//! 1. What breaks the contract of a function (members of unequal length, more lost than the parity can
//!    give back) is an error in the caller, and panics. Whether a stripe *can* be rebuilt is for the
//!    caller to count before it calls.
//! 2. Lengths and addresses are arbitrary; multiples of 64 bytes are the fastest.
//! 3. Each input byte is read once, each output byte written once.
//!
//! Sources: H. Peter Anvin, "The mathematics of RAID-6"; the theory at the head of OpenZFS's
//! `vdev_raidz.c`.

mod kernel;
mod list;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pass;
mod scalar;
mod solve;
#[cfg(test)]
mod tests;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use kernel::Kernel;
pub use words::{generate_words, reconstruct_words, update_words};

use kernel::Pass;
use list::List;
use pass::ROWS_MAX;
pub use solve::PARITY_MEMBERS_MAX;

use solve::Equations;

use crate::gf256;

/// The most data members in a stripe: the coefficients 2ⁱ repeat after so many.
pub const DATA_MEMBERS_MAX: usize = gf256::ORDER;

/// So many inputs of a pass are listed without an allocation: more than most stripes are wide.
const STACK_INPUTS_MAX: usize = 16;

/// A member of a stripe that is to be rebuilt.
#[derive(Debug)]
pub enum Member<'a> {
    /// Its content is here.
    Present(&'a [u8]),
    /// Its content is lost, and is to be put here.
    Lost(&'a mut [u8]),
    /// Its content is lost, or was not read, and isn't wanted. Of a data member this counts as one
    /// more unknown, as long as the parity.
    Absent,
}

impl Member<'_> {
    /// The same member, borrowed for a shorter time.
    fn reborrow(&mut self) -> Member<'_> {
        match self {
            Member::Present(bytes) => Member::Present(bytes),
            Member::Lost(bytes) => Member::Lost(bytes),
            Member::Absent => Member::Absent,
        }
    }

    /// The length of the member, if it is known.
    fn length(&self) -> Option<usize> {
        match self {
            Member::Present(bytes) => Some(bytes.len()),
            Member::Lost(bytes) => Some(bytes.len()),
            Member::Absent => None,
        }
    }
}

/// The coefficients of data member `i` in Q and in R; P's is always 1.
static COEFFICIENTS: [[u8; ROWS_MAX]; DATA_MEMBERS_MAX] = {
    let mut coefficients = [[0; ROWS_MAX]; DATA_MEMBERS_MAX];
    let mut i = 0;
    while i < DATA_MEMBERS_MAX {
        coefficients[i] = [gf256::power_of_two(i), gf256::power_of_two(2 * i), 0];
        i += 1;
    }
    coefficients
};

/// Makes the parity of `data`: P, or P and Q, or P, Q and R, as many as `parity` has.
///
/// The parity members are equally long, and no data member is longer than they; see the module for
/// the order of the data members and for shorter ones.
///
/// # Panics
/// If there are no parity members or more than three, more than 255 data members, or the lengths are
/// not as said.
pub fn generate(data: &[&[u8]], parity: &mut [&mut [u8]]) {
    generate_with(Kernel::best(), data, parity);
}

/// As [`generate`], with this kernel.
///
/// # Panics
/// As [`generate`] does.
pub fn generate_with(kernel: Kernel, data: &[&[u8]], parity: &mut [&mut [u8]]) {
    assert_members(data.len(), parity.len());
    let (p, rows) = parity.split_first_mut().expect("there is a parity member");
    let length = p.len();
    if data.iter().all(|member| member.len() == length) {
        let mut coded = [const { None }; ROWS_MAX];
        for (slot, row) in coded.iter_mut().zip(rows) {
            *slot = Some(&mut **row);
        }
        kernel.run(Pass {
            inputs: data,
            coefficients: &COEFFICIENTS[..data.len()],
            inputs_in_sum: data.len(),
            sum: Some(p),
            rows: coded,
            folded: 0,
            accumulate: false,
            powers: true,
        });
    } else {
        let mut data: Vec<Member> = data.iter().map(|member| Member::Present(member)).collect();
        let mut parity: Vec<Member> =
            parity.iter_mut().map(|member| Member::Lost(member)).collect();
        reconstruct_with(kernel, &mut data, &mut parity);
    }
}

/// Rebuilds every [`Member::Lost`], data and parity alike, from those that are present.
///
/// `parity` is P, or P and Q, or P, Q and R. All of it is equally long, and no data member is longer.
/// As many parity members must be present as data members are not.
///
/// # Panics
/// If too few parity members are present, or the numbers and lengths are not as said.
pub fn reconstruct(data: &mut [Member], parity: &mut [Member]) {
    reconstruct_with(Kernel::best(), data, parity);
}

/// As [`reconstruct`], with this kernel.
///
/// # Panics
/// As [`reconstruct`] does.
pub fn reconstruct_with(kernel: Kernel, data: &mut [Member], parity: &mut [Member]) {
    assert_members(data.len(), parity.len());
    let Some(length) = parity.iter().find_map(Member::length) else {
        assert!(
            !data.iter().any(|member| matches!(member, Member::Lost(_))),
            "data members are to be rebuilt, and no parity member is present"
        );
        return;
    };
    assert!(
        parity.iter().all(|member| member.length().is_none_or(|other| other == length)),
        "parity members differ in length"
    );
    if rebuild_one_by_sum(kernel, data, parity, length) {
        return;
    }
    assert!(
        data.iter().all(|member| member.length().is_none_or(|other| other <= length)),
        "a data member is longer than the parity, which has {length} bytes"
    );
    let mut at = 0;
    while at < length {
        let ends = data.iter().filter_map(Member::length).filter(|end| *end > at);
        let end = ends.min().unwrap_or(length);
        reconstruct_between(kernel, data, parity, at, end);
        at = end;
    }
}

/// Does the commonest loss, if it is that: one member among P and the data, all of which are equally
/// long, and nothing else is wanted. The member is the sum of the others, and there is nothing to solve;
/// a stripe of 128 KiB takes about a microsecond, in which solving would show.
fn rebuild_one_by_sum(
    kernel: Kernel,
    data: &mut [Member],
    parity: &mut [Member],
    length: usize,
) -> bool {
    let (p, q_and_r) = parity.split_first_mut().expect("there is a parity member");
    if q_and_r.iter().any(|member| matches!(member, Member::Lost(_))) {
        return false;
    }
    let mut inputs = List::<&[u8], STACK_INPUTS_MAX>::new();
    let mut lost = None;
    for member in data.iter_mut().map(Member::reborrow).chain([p.reborrow()]) {
        match member {
            Member::Present(bytes) if bytes.len() == length => inputs.push(bytes),
            Member::Lost(bytes) if bytes.len() == length && lost.is_none() => lost = Some(bytes),
            _ => return false,
        }
    }
    let Some(lost) = lost else { return true };
    xor(kernel, lost, inputs.as_slice(), false);
    true
}

/// Rebuilds the bytes `at..end`, in which no member ends.
fn reconstruct_between(
    kernel: Kernel,
    data: &mut [Member],
    parity: &mut [Member],
    at: usize,
    end: usize,
) {
    let reaches = |member: &Member| member.length().is_none_or(|length| length > at);
    let mut equations = Equations::new();
    for (index, member) in data.iter().enumerate() {
        if !matches!(member, Member::Present(_)) && reaches(member) {
            equations.add_unknown(index, matches!(member, Member::Lost(_)));
        }
    }
    for (exponent, member) in parity.iter().enumerate() {
        match member {
            Member::Present(_) => equations.add_parity(exponent),
            Member::Lost(_) => equations.add_wanted_parity(exponent),
            Member::Absent => {}
        }
    }
    let solution = equations.solve();

    // The inputs are the data that is present, then the parities that are used, P first. The outputs
    // are in the order that the solution counts them in.
    let mut inputs = List::<&[u8], STACK_INPUTS_MAX>::new();
    let mut coefficients = List::<[u8; ROWS_MAX], STACK_INPUTS_MAX>::new();
    let mut inputs_in_sum = 0;
    let (mut sum, mut rows) = (None, [const { None }; ROWS_MAX]);
    let (mut outputs, mut row_slots) = (0.., rows.iter_mut());
    let mut add_output = |bytes| {
        if outputs.next() == solution.sum {
            sum = Some(bytes);
        } else {
            *row_slots.next().expect("no more outputs than parities") = Some(bytes);
        }
    };
    for (index, member) in data.iter_mut().enumerate().filter(|(_, member)| reaches(member)) {
        match member {
            Member::Present(bytes) => {
                inputs.push(&bytes[at..end]);
                coefficients.push(solution.data_coefficients(index));
                inputs_in_sum += 1;
            }
            Member::Lost(bytes) => add_output(&mut bytes[at..end]),
            Member::Absent => {}
        }
    }
    for (exponent, member) in parity.iter_mut().enumerate() {
        match member {
            Member::Present(bytes) => {
                if let Some(row) = solution.parity_coefficients(exponent) {
                    inputs.push(&bytes[at..end]);
                    coefficients.push(row);
                    inputs_in_sum += usize::from(exponent == 0);
                }
            }
            Member::Lost(bytes) => add_output(&mut bytes[at..end]),
            Member::Absent => {}
        }
    }
    let (inputs, coefficients) = (inputs.as_slice(), coefficients.as_slice());
    kernel.run(Pass {
        inputs,
        coefficients,
        inputs_in_sum,
        sum,
        rows,
        folded: solution.folded,
        accumulate: false,
        powers: false,
    });
}

/// Brings parity up to date with changed data: for each `(i, delta)`, where `delta` is the old content
/// of data member `i` plus (exclusive or) the new, adds 1, 2ⁱ and 4ⁱ times `delta` to P, Q and R.
///
/// A member may occur more than once: `(i, old)` and `(i, new)` do the same as their delta, in the same
/// pass. A parity member that is `None` is left out. A delta that is shorter than the parity counts as
/// zeros beyond its end; to change the middle of a member, hand over that part of the parity.
///
/// # Panics
/// If the number of parity members isn't 1 to 3, a member's number isn't below 255, a delta is longer
/// than the parity, or the parity members differ in length.
pub fn update(changes: &[(usize, &[u8])], parity: &mut [Option<&mut [u8]>]) {
    update_with(Kernel::best(), changes, parity);
}

/// As [`update`], with this kernel.
///
/// # Panics
/// As [`update`] does.
pub fn update_with(kernel: Kernel, changes: &[(usize, &[u8])], parity: &mut [Option<&mut [u8]>]) {
    assert_members(0, parity.len());
    let lengths = parity.iter().flatten().map(|member| member.len());
    let Some(length) = lengths.max() else { return };
    assert!(
        parity.iter().flatten().all(|member| member.len() == length),
        "parity members differ in length"
    );
    assert!(
        changes.iter().all(|(member, _)| *member < DATA_MEMBERS_MAX),
        "a data member's number is not below {DATA_MEMBERS_MAX}"
    );
    assert!(
        changes.iter().all(|(_, delta)| delta.len() <= length),
        "a delta is longer than the parity, which has {length} bytes"
    );
    let mut at = 0;
    while at < length {
        let reaching = || changes.iter().filter(|(_, delta)| delta.len() > at);
        let Some(end) = reaching().map(|(_, delta)| delta.len()).min() else { return };
        let has_q = parity.get(1).is_some_and(Option::is_some);
        let mut inputs = List::<&[u8], STACK_INPUTS_MAX>::new();
        let mut coefficients = List::<[u8; ROWS_MAX], STACK_INPUTS_MAX>::new();
        for (member, delta) in reaching() {
            let [q, r, _] = COEFFICIENTS[*member];
            inputs.push(&delta[at..end]);
            // The rows are those of Q and R that are there, in this order.
            coefficients.push(if has_q { [q, r, 0] } else { [r, 0, 0] });
        }
        let (inputs, coefficients) = (inputs.as_slice(), coefficients.as_slice());
        let mut parts = parity.iter_mut();
        let mut next = || parts.next().and_then(|part| part.as_mut().map(|p| &mut p[at..end]));
        let sum = next();
        let (q, r) = (next(), next());
        let rows = if has_q { [q, r, None] } else { [r, None, None] };
        kernel.run(Pass {
            inputs,
            coefficients,
            inputs_in_sum: inputs.len(),
            sum,
            rows,
            folded: 0,
            accumulate: true,
            powers: false,
        });
        at = end;
    }
}

/// Adds (exclusive or) `source` to `target`.
///
/// # Panics
/// If they differ in length.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "exclusive or of slices that differ in length");
    xor(Kernel::best(), target, &[source], true);
}

/// Makes `target` the sum (exclusive or) of all `sources`; zeros if there are none.
///
/// # Panics
/// If they differ in length.
pub fn xor_many(target: &mut [u8], sources: &[&[u8]]) {
    assert!(
        sources.iter().all(|source| source.len() == target.len()),
        "exclusive or of slices that differ in length"
    );
    xor(Kernel::best(), target, sources, false);
}

/// Adds all `sources` to `target`, or to zeros.
fn xor(kernel: Kernel, target: &mut [u8], mut sources: &[&[u8]], mut accumulate: bool) {
    loop {
        let (now, later) = sources.split_at(sources.len().min(DATA_MEMBERS_MAX));
        kernel.run(Pass {
            inputs: now,
            coefficients: &COEFFICIENTS[..now.len()],
            inputs_in_sum: now.len(),
            sum: Some(&mut *target),
            rows: [const { None }; ROWS_MAX],
            folded: 0,
            accumulate,
            powers: false,
        });
        if later.is_empty() {
            return;
        }
        sources = later;
        accumulate = true;
    }
}

/// Panics unless a stripe may have so many members.
fn assert_members(data: usize, parity: usize) {
    assert!(
        (1..=PARITY_MEMBERS_MAX).contains(&parity),
        "a stripe has 1 to {PARITY_MEMBERS_MAX} parity members, not {parity}"
    );
    assert!(
        data <= DATA_MEMBERS_MAX,
        "a stripe has at most {DATA_MEMBERS_MAX} data members, not {data}"
    );
}
