//! Shares and polynomials of another implementation over the same field.
//!
//! Recorded from the package `sdk/helper/shamir` of `OpenBao` (revision df6ce2c), with the functions
//! `Split` and `makePolynomial` and random secrets. The last byte of each share is its number.

use super::*;
use crate::shares::field::evaluate;

/// A secret, its threshold and its shares.
struct SplitVector {
    threshold: u8,
    secret: &'static str,
    shares: &'static [&'static str],
}

const SPLITS: [SplitVector; 3] = [
    SplitVector {
        threshold: 2,
        secret: "7eeb3e6485e5f1b04fe9d7e5cff3bac2a32b4181d0b963d37a44a96b709695de",
        shares: &[
            "3df8fe552b942cd23bcf3c001b6d1b300cf9ca34d3fc83e60fe3d1da878eabaf61",
            "c287ec7a8eb5ff8c12319f1d2941a6fc0f3260a922fa966780a711e943479c8ece",
            "16d9e6bb78725215b88d02798c38e7e5b728f847f0919f856459de24378dea4985",
        ],
    },
    SplitVector {
        threshold: 3,
        secret: "147f2404c628376adf0f278c4f7a38be9a390e8a15c8fc944e2322bd0bcb3a17",
        shares: &[
            "d38b632a1da7fdf384813cbd8c91d8bc6317ed96febea3e9585c6d681015039e5e",
            "abced9b43aff7906c7568b664523172d1882dc08613dcae86ddce002f02a7c09a1",
            "65a5677a7185ce5e4f291d4cbf24b2e0513d0cee58cd694d682671e31b1f2fef3d",
            "e92cfdeb1b673d9f31901362970109e7d8e33332902e48b6f5ce68681128733c93",
            "e0ce779bda9b71c31f38f877b391a5f0ae954beaae511c1fc3e584b22238908577",
        ],
    },
    SplitVector {
        threshold: 5,
        secret: "c5c6b6196a5345727af0079fcadd6cc8",
        shares: &[
            "6817c21ddc334a5777ba50392b3dbc3a17",
            "aff089ec1288ea19e603e2da8a7436e2cf",
            "c3b3f90d593e0175dc7124743461d015f8",
            "e1a42abd54c4b071d7eae5eb70fd8d302d",
            "6e082c79325d32994cd8c5424975e3f45a",
            "197d1074b86d39e556f20f4ff3e251d079",
            "9caddc2cb22cc932144f94a1bda3ee8e44",
        ],
    },
];

/// Coefficients, the constant one first, and the values at 1, 2, 3, 128 and 255.
const POLYNOMIALS: [(&[u8], [u8; 5]); 5] = [
    (&[0xc2, 0xa8], [0x6a, 0x89, 0x21, 0x9f, 0xcc]),
    (&[0x7e, 0x80, 0x9f], [0x61, 0x2f, 0x30, 0xe5, 0x92]),
    (&[0x75, 0x62, 0xe7, 0x25], [0xd5, 0x33, 0x4d, 0x1c, 0x7b]),
    (&[0x14, 0x78, 0x2a, 0xc0, 0xd7], [0x51, 0xc9, 0x3a, 0x6c, 0xc2]),
    (&[0xf9, 0x15, 0x38, 0x89, 0xd9, 0x7e], [0xfa, 0x71, 0x34, 0xd7, 0x02]),
];

fn parse_hex(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|it| str::from_utf8(it).unwrap());
    pairs.map(|it| u8::from_str_radix(it, 16).unwrap()).collect()
}

fn recorded_shares(vector: &SplitVector) -> Vec<Share> {
    let parse = |hex: &&str| {
        let mut value = parse_hex(hex);
        let index = value.pop().unwrap();
        Share { label: label(), index, threshold: vector.threshold, value: Secret::new(value) }
    };
    vector.shares.iter().map(parse).collect()
}

#[test]
fn every_subset_of_recorded_shares_combines() {
    for vector in &SPLITS {
        let shares = recorded_shares(vector);
        for mask in 0..1_u32 << shares.len() {
            let result = combine(vector.threshold, subset(&shares, mask));
            let is_enough = mask.count_ones() >= u32::from(vector.threshold);
            assert_eq!(result.ok(), is_enough.then(|| parse_hex(vector.secret)), "{mask:b}");
        }
    }
}

#[test]
fn polynomials_have_the_recorded_values() {
    for (coefficients, values) in POLYNOMIALS {
        let (constant, others) = coefficients.split_first().unwrap();
        let computed = [1, 2, 3, 128, 255].map(|x| evaluate(*constant, others, x));
        assert_eq!(computed, values, "{coefficients:02x?}");
    }
}

/// The polynomials of the vectors as the bytes of one secret.
#[test]
fn split_uses_the_given_coefficients_for_each_byte() {
    let (coefficients, values) = POLYNOMIALS[2];
    let secret = Secret::new(vec![coefficients[0]; 16]);
    let fill = |to: &mut [u8]| to.copy_from_slice(&coefficients[1..]);
    let shares = split_with_coefficients(&secret, label(), 4, 255, fill).unwrap();
    for (index, value) in [1, 2, 3, 128, 255].into_iter().zip(values) {
        let share = &shares[index - 1];
        assert_eq!(usize::from(share.index), index);
        assert_eq!(share.value.expose(), [value; 16]);
    }
}
