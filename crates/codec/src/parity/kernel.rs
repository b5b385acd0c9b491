//! The kernels: the forms of the parity loops that this machine can run, and the door into them.
//!
//! A [`Kernel`] can't be made, only had from [`Kernel::available`], which asks the processor. So to
//! hold one is to know that its instructions are there, and nothing needs to be asked again when it
//! runs. [`Kernel::run`] is the one door to the unsafe loops: it takes a [`Pass`], made of slices,
//! checks that the slices agree, and only then hands raw pointers on.

use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::pass::{ROWS_MAX, RawPass};
use super::scalar;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// A form of the parity loops, for one instruction set, that this machine can run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(InstructionSet);

#[derive(Clone, Copy, PartialEq, Eq)]
enum InstructionSet {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx2Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// What one pass reads and writes, and the coefficients between. See `pass` for the meaning.
pub(super) struct Pass<'a> {
    /// What to read.
    pub(super) inputs: &'a [&'a [u8]],
    /// Of each input, its coefficient in each row.
    pub(super) coefficients: &'a [[u8; ROWS_MAX]],
    /// So many inputs, from the first, are in the plain sum.
    pub(super) inputs_in_sum: usize,
    /// Where the plain sum goes.
    pub(super) sum: Option<&'a mut [u8]>,
    /// Where the sums with coefficients go; those that are there come first.
    pub(super) rows: [Option<&'a mut [u8]>; ROWS_MAX],
    /// So many rows, from the first, are added to the plain sum.
    pub(super) folded: usize,
    /// Whether the outputs' old content is added to the new.
    pub(super) accumulate: bool,
    /// Whether input `i` has the coefficients 2ⁱ and 4ⁱ, and is in the sum.
    pub(super) powers: bool,
}

impl Kernel {
    /// The kernels that this machine can run, the slowest first.
    pub fn available() -> &'static [Kernel] {
        static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The fastest kernel that this machine can run.
    pub fn best() -> Kernel {
        *Kernel::available().last().expect("the scalar kernel runs everywhere")
    }

    /// Its name, for people: `scalar`, `ssse3`, `avx2`, `avx2-gfni`, `avx512`, `avx512-gfni`,
    /// `neon`.
    pub fn name(self) -> &'static str {
        match self.0 {
            InstructionSet::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Ssse3 => "ssse3",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2Gfni => "avx2-gfni",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Gfni => "avx512-gfni",
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => "neon",
        }
    }

    /// Does what `pass` says.
    pub(super) fn run(self, pass: Pass<'_>) {
        let Pass { inputs, coefficients, inputs_in_sum, sum, rows, folded, accumulate, powers } =
            pass;
        let row_count = rows.iter().take_while(|row| row.is_some()).count();
        let outputs = || sum.iter().chain(rows.iter().flatten());
        assert_eq!(outputs().count() - usize::from(sum.is_some()), row_count, "a gap in the rows");
        let Some(length) = outputs().next().map(|output| output.len()) else { return };
        assert!(outputs().all(|output| output.len() == length), "outputs differ in length");
        assert!(inputs.iter().all(|input| input.len() == length), "an input differs in length");
        assert_eq!(inputs.len(), coefficients.len(), "each input has its coefficients");
        assert!(inputs_in_sum <= inputs.len() && folded <= row_count);
        assert!(
            !powers || (sum.is_some() && inputs_in_sum == inputs.len() && !accumulate),
            "the making of parity sums up all of its inputs, and nothing else"
        );
        assert!(row_count + usize::from(sum.is_some()) <= ROWS_MAX, "more outputs than parities");

        let address =
            |output: Option<&mut [u8]>| output.map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
        let raw = RawPass {
            inputs,
            coefficients,
            inputs_in_sum,
            sum: address(sum),
            rows: rows.map(address),
            row_count,
            folded,
            accumulate,
            powers,
            length,
        };
        // SAFETY: the inputs and outputs were checked above to be `length` long; being slices, they are
        // valid, and the outputs are exclusively ours. A `Kernel` exists only if `detect` found its
        // instructions.
        unsafe {
            match self.0 {
                InstructionSet::Scalar => scalar::run(&raw, 0),
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Ssse3 => x86::ssse3(&raw),
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 => x86::avx2(&raw),
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2Gfni => x86::avx2_gfni(&raw),
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx512 => x86::avx512(&raw),
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx512Gfni => x86::avx512_gfni(&raw),
                #[cfg(target_arch = "aarch64")]
                InstructionSet::Neon => neon::neon(&raw),
            }
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Asks the processor.
fn detect() -> Vec<Kernel> {
    let always = true;
    #[cfg(target_arch = "x86_64")]
    let gfni = is_x86_feature_detected!("gfni");
    #[cfg(target_arch = "x86_64")]
    let avx2 = is_x86_feature_detected!("avx2");
    #[cfg(target_arch = "x86_64")]
    let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let sets = [
        (always, InstructionSet::Scalar),
        #[cfg(target_arch = "x86_64")]
        (is_x86_feature_detected!("ssse3"), InstructionSet::Ssse3),
        #[cfg(target_arch = "x86_64")]
        (avx2, InstructionSet::Avx2),
        #[cfg(target_arch = "x86_64")]
        (avx2 && gfni, InstructionSet::Avx2Gfni),
        #[cfg(target_arch = "x86_64")]
        (avx512, InstructionSet::Avx512),
        #[cfg(target_arch = "x86_64")]
        (avx512 && gfni, InstructionSet::Avx512Gfni),
        #[cfg(target_arch = "aarch64")]
        (std::arch::is_aarch64_feature_detected!("neon"), InstructionSet::Neon),
    ];
    let present = sets.into_iter().filter(|(is_present, _)| *is_present);
    present.map(|(_, set)| Kernel(set)).collect()
}
