//! Which coefficients rebuild what is lost.
//!
//! # Theory
//!
//! Let U be the unknown data members and A as many parities that are present, each with its exponent
//! e (0 for P, 1 for Q, 2 for R). Parity a says
//!
//! ```text
//! Σ_{u ∈ U} 2^(a·u)·d_u  =  a's content + Σ_{i ∉ U} 2^(a·i)·d_i
//! ```
//!
//! The matrix on the left, with one row a parity and one column an unknown, is inverted (it is at most
//! 3 × 3, and always regular; see `parity`). The inverse gives each unknown as a sum over the present
//! data and the parities of A, with coefficients that depend on the members' numbers only. A parity
//! that is itself to be rebuilt is the sum of all data, into which the unknowns' sums are substituted:
//! again a sum over the same inputs. So every output is one row of coefficients over the same inputs.
//!
//! One output gets off without multiplying. P and all the data add up to 0, so if everything unknown
//! in that sum is an output of this pass, the last such output is the plain sum of all the rest.

use crate::gf256::{NIBBLES, inverse, power_of_two};

use super::pass::ROWS_MAX;

/// The most parity members in a stripe: P, Q and R.
pub const PARITY_MEMBERS_MAX: usize = 3;

/// A square matrix of as many rows as there are unknowns.
type Matrix = [[u8; PARITY_MEMBERS_MAX]; PARITY_MEMBERS_MAX];

/// What is unknown in a stripe, and what there is to find it by.
pub(super) struct Equations {
    /// The unknown data members, and whether each is wanted.
    unknowns: Few<(usize, bool)>,
    /// The exponents of the parities that are present.
    parities: Few<usize>,
    /// The exponents of the parities that are wanted.
    wanted_parities: Few<usize>,
}

/// How to compute what is wanted.
pub(super) struct Solution {
    /// The place, among the wanted members (data in order, then parity in order), of the one that is
    /// the plain sum of the present data, of P if it is used, and of the first `folded` others.
    pub(super) sum: Option<usize>,
    /// See `sum`.
    pub(super) folded: usize,
    /// The exponents of the parities that are used, as many as unknowns.
    parities: Few<usize>,
    /// The wanted members that aren't the plain sum, in order.
    rows: Few<Row>,
}

/// A wanted member as a sum: of the used parities' equations, each with a factor; and, if it is a
/// parity, of the present data as its definition has them.
#[derive(Clone, Copy, Default)]
struct Row {
    factors: [u8; PARITY_MEMBERS_MAX],
    exponent: Option<usize>,
}

/// At most one thing for each parity.
#[derive(Clone, Copy)]
struct Few<T> {
    items: [T; PARITY_MEMBERS_MAX],
    count: usize,
}

impl<T: Copy + Default> Few<T> {
    fn new() -> Few<T> {
        Few { items: [T::default(); PARITY_MEMBERS_MAX], count: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.count] = item;
        self.count += 1;
    }

    fn as_slice(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl Equations {
    pub(super) fn new() -> Equations {
        Equations { unknowns: Few::new(), parities: Few::new(), wanted_parities: Few::new() }
    }

    /// Says that data member `index` is unknown. In ascending order.
    ///
    /// # Panics
    /// If there are more unknowns than there can be parities.
    pub(super) fn add_unknown(&mut self, index: usize, is_wanted: bool) {
        assert!(
            self.unknowns.count < PARITY_MEMBERS_MAX,
            "more than {PARITY_MEMBERS_MAX} data members are lost"
        );
        self.unknowns.push((index, is_wanted));
    }

    /// Says that the parity of this exponent is present. In ascending order.
    pub(super) fn add_parity(&mut self, exponent: usize) {
        self.parities.push(exponent);
    }

    /// Says that the parity of this exponent is to be rebuilt. In ascending order.
    pub(super) fn add_wanted_parity(&mut self, exponent: usize) {
        self.wanted_parities.push(exponent);
    }

    /// # Panics
    /// If fewer parities are present than data members are unknown.
    pub(super) fn solve(&self) -> Solution {
        let mut parities = self.parities;
        let unknowns = self.unknowns.as_slice();
        assert!(
            unknowns.len() <= parities.count,
            "{} data members are lost and {} parity members are present",
            unknowns.len(),
            parities.count
        );
        // The lower exponents are the cheaper, and P first of all.
        parities.count = unknowns.len();

        let p_is_wanted = self.wanted_parities.as_slice().first() == Some(&0);
        let p_is_used = parities.as_slice().first() == Some(&0);
        let wanted_unknowns = unknowns.iter().filter(|(_, wanted)| *wanted).count();
        let sum = if wanted_unknowns < unknowns.len() {
            None
        } else if p_is_wanted {
            Some(wanted_unknowns)
        } else if p_is_used {
            Some(wanted_unknowns - 1)
        } else {
            None
        };

        let wanted = wanted_unknowns + self.wanted_parities.count;
        let mut rows = Few::new();
        if wanted > usize::from(sum.is_some()) {
            let inverse = self.inverse(parities.as_slice());
            let of_unknowns = unknowns.iter().zip(inverse);
            let of_unknowns = of_unknowns
                .filter(|((_, wanted), _)| *wanted)
                .map(|(_, factors)| Row { factors, exponent: None });
            let of_parities = self.wanted_parities.as_slice().iter().map(|exponent| {
                // The unknowns, each with its coefficient in this parity, replaced by their rows.
                let mut factors = [0; PARITY_MEMBERS_MAX];
                for ((index, _), row) in unknowns.iter().zip(inverse) {
                    for (sum, factor) in factors.iter_mut().zip(row) {
                        *sum ^= multiply(power_of_two(exponent * index), factor);
                    }
                }
                Row { factors, exponent: Some(*exponent) }
            });
            for (place, row) in of_unknowns.chain(of_parities).enumerate() {
                if Some(place) != sum {
                    rows.push(row);
                }
            }
        }
        // All wanted data but the sum itself come first among the rows, and they are in P's sum.
        Solution { sum, folded: sum.unwrap_or(0), parities, rows }
    }

    /// The inverse of the matrix that has the unknowns' coefficients in these parities: a row for each
    /// unknown, with a factor for each parity.
    fn inverse(&self, parities: &[usize]) -> Matrix {
        let mut matrix = Matrix::default();
        for (row, exponent) in matrix.iter_mut().zip(parities) {
            for (coefficient, (index, _)) in row.iter_mut().zip(self.unknowns.as_slice()) {
                *coefficient = power_of_two(exponent * index);
            }
        }
        invert(matrix, parities.len())
    }
}

impl Solution {
    /// The coefficients of present data member `index`.
    pub(super) fn data_coefficients(&self, index: usize) -> [u8; ROWS_MAX] {
        let mut coefficients = [0; ROWS_MAX];
        for (coefficient, row) in coefficients.iter_mut().zip(self.rows.as_slice()) {
            let own = row.exponent.map_or(0, |exponent| power_of_two(exponent * index));
            let parities = self.parities.as_slice().iter().zip(row.factors);
            *coefficient = parities.fold(own, |sum, (exponent, factor)| {
                sum ^ multiply(power_of_two(exponent * index), factor)
            });
        }
        coefficients
    }

    /// The coefficients of the present parity of this exponent, or `None` if it isn't used.
    pub(super) fn parity_coefficients(&self, exponent: usize) -> Option<[u8; ROWS_MAX]> {
        let place = self.parities.as_slice().iter().position(|used| *used == exponent)?;
        let mut coefficients = [0; ROWS_MAX];
        for (coefficient, row) in coefficients.iter_mut().zip(self.rows.as_slice()) {
            *coefficient = row.factors[place];
        }
        Some(coefficients)
    }
}

/// The product, by look-up: this runs once for each member of each stripe.
fn multiply(a: u8, b: u8) -> u8 {
    let products = &NIBBLES[usize::from(a)];
    products.low[usize::from(b & 15)] ^ products.high[usize::from(b >> 4)]
}

/// The inverse of the first `size` rows and columns of `matrix`, by Gauss and Jordan.
///
/// # Panics
/// If it has none.
fn invert(mut matrix: Matrix, size: usize) -> Matrix {
    let mut result = Matrix::default();
    for (i, row) in result.iter_mut().enumerate() {
        row[i] = 1;
    }
    for pivot in 0..size {
        let row = (pivot..size).find(|row| matrix[*row][pivot] != 0);
        let row = row.expect("any parities determine as many data members");
        matrix.swap(pivot, row);
        result.swap(pivot, row);
        let scale = inverse(matrix[pivot][pivot]);
        for column in 0..size {
            matrix[pivot][column] = multiply(matrix[pivot][column], scale);
            result[pivot][column] = multiply(result[pivot][column], scale);
        }
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            for column in 0..size {
                matrix[row][column] ^= multiply(factor, matrix[pivot][column]);
                result[row][column] ^= multiply(factor, result[pivot][column]);
            }
        }
    }
    result
}
