//! Polynomials over the field: their values, and their values between known points.

use crate::shares::field::{invert, multiply};

/// The value at `x` of the polynomial with this constant term. `coefficients` has the other
/// terms, the linear one first.
pub(super) fn evaluate(constant: u8, coefficients: &[u8], x: u8) -> u8 {
    coefficients.iter().rev().fold(0, |sum, it| multiply(sum ^ it, x)) ^ constant
}

/// The weights by which the values at `points` add up to the value at `x` (Lagrange), for
/// polynomials with as many terms as there are points. The points must differ.
///
/// Points are the numbers of shares and not secret, so branches may depend on them.
pub(super) fn interpolation_weights(points: &[u8], x: u8) -> Vec<u8> {
    let weight = |point: &u8| {
        let others = points.iter().filter(|it| *it != point);
        others.fold(1, |weight, other| multiply(weight, multiply(x ^ other, invert(point ^ other))))
    };
    points.iter().map(weight).collect()
}
