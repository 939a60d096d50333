//! The field with 256 elements of AES (FIPS 197): polynomials over bits, modulo
//! x⁸ + x⁴ + x³ + x + 1 (0x11B). Addition is exclusive or.
//!
//! The time of a product depends on no operand: there is no table and no branch.

use std::hint::black_box;

/// The modulus without its highest bit.
const REDUCTION: u8 = 0x1B;

/// The product of two elements.
pub(super) fn multiply(left: u8, right: u8) -> u8 {
    let mut product = 0;
    let (mut multiple, mut remaining_bits) = (left, right);
    for _ in 0..u8::BITS {
        product ^= multiple & mask(remaining_bits & 1);
        multiple = (multiple << 1) ^ (REDUCTION & mask(multiple >> 7));
        remaining_bits >>= 1;
    }
    product
}

/// The inverse of an element, which is its 254th power. The inverse of zero is zero.
pub(super) fn invert(element: u8) -> u8 {
    // 254 is 2 + 4 + 8 + … + 128.
    let mut power = multiply(element, element);
    let mut inverse = power;
    for _ in 0..6 {
        power = multiply(power, power);
        inverse = multiply(inverse, power);
    }
    inverse
}

/// All ones for the bit 1, zero for the bit 0. `black_box` hides from the compiler that only two
/// values are possible, so that it does not replace the mask by a branch.
fn mask(bit: u8) -> u8 {
    black_box(0_u8.wrapping_sub(bit))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The remainder of the product of two polynomials, by long division over integers.
    fn slow_product(left: u8, right: u8) -> u8 {
        let mut product = 0_u32;
        for bit in 0..8 {
            if right >> bit & 1 == 1 {
                product ^= u32::from(left) << bit;
            }
        }
        while let Some(shift) = product.checked_ilog2().and_then(|it| it.checked_sub(8)) {
            product ^= 0x11B << shift;
        }
        product.try_into().unwrap()
    }

    #[test]
    fn all_products_equal_those_of_long_division() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(multiply(left, right), slow_product(left, right), "{left} × {right}");
            }
        }
    }

    #[test]
    fn every_element_except_zero_has_an_inverse() {
        for element in 1..=255 {
            assert_eq!(slow_product(element, invert(element)), 1, "{element}");
        }
        assert_eq!(invert(0), 0);
    }

    /// The examples of FIPS 197, 4.2 and 4.2.1.
    #[test]
    fn products_match_fips_197_examples() {
        assert_eq!(multiply(0x57, 0x83), 0xc1);
        assert_eq!(multiply(0x57, 0x13), 0xfe);
    }
}
