//! Fewer shares than the threshold are independent of the secret.

use super::*;
use crate::shares::field::{evaluate, interpolation_weights, multiply};

const SAMPLES: usize = 4_000;
const BYTES: usize = 64;
const SECRET_BYTE: u8 = 0x5a;
/// The statistic of 256 equally likely values has the mean 255 and the standard deviation 22.6. It
/// is above 450 with a probability below 10⁻¹¹. If one value of 256,000 never occurs, it is above
/// 1,000.
const CHI_SQUARE_MAX: f64 = 450.0;

/// The distance of the counts from those of a uniform distribution.
fn chi_square(counts: &[u32; 256]) -> f64 {
    let expected = f64::from(counts.iter().sum::<u32>()) / 256.0;
    counts.iter().map(|it| (f64::from(*it) - expected).powi(2) / expected).sum()
}

fn count_values(values: impl Iterator<Item = u8>) -> [u32; 256] {
    let mut counts = [0_u32; 256];
    for value in values {
        let count = &mut counts[usize::from(value)];
        *count = count.saturating_add(1);
    }
    counts
}

#[track_caller]
fn assert_uniform(values: impl Iterator<Item = u8>, name: &str) {
    let counts = count_values(values);
    assert_eq!(counts.iter().sum::<u32>(), 256_000);
    assert!(counts[0] > 0, "{name} is never zero");
    let distance = chi_square(&counts);
    assert!(distance < CHI_SQUARE_MAX, "{name} is not uniform: {distance}");
}

fn split_constant_secret(threshold: u8) -> Vec<Vec<Share>> {
    let secret = Secret::new(vec![SECRET_BYTE; BYTES]);
    let split = |_| split_secret(&secret, label(), threshold, threshold).unwrap();
    (0..SAMPLES).map(split).collect()
}

/// The coefficients of the highest power: the sum of the shares, each divided by the product of its
/// distances to the others.
fn leading_coefficients(shares: &[Share]) -> Vec<u8> {
    let mut coefficients = vec![0; BYTES];
    for share in shares {
        let others = shares.iter().filter(|it| it.index != share.index);
        let divisor = others.fold(1, |it, other| multiply(it, share.index ^ other.index));
        let weight = (1..=255).find(|it| multiply(*it, divisor) == 1).unwrap();
        for (to, from) in coefficients.iter_mut().zip(share.value.expose()) {
            *to ^= multiply(weight, *from);
        }
    }
    coefficients
}

/// A leading coefficient that is never zero is a known weakness of other implementations: fewer
/// shares than the threshold then exclude one value of each byte of the secret.
#[test]
fn leading_coefficient_has_all_values_equally_often() {
    for threshold in [2, 3, 5] {
        let sets = split_constant_secret(threshold);
        let values = sets.iter().flat_map(|it| leading_coefficients(it));
        assert_uniform(values, &format!("the leading coefficient for threshold {threshold}"));
    }
}

#[test]
fn each_share_has_all_values_equally_often() {
    for threshold in [2, 3] {
        let sets = split_constant_secret(threshold);
        for at in 0..usize::from(threshold) {
            let values = sets.iter().flat_map(|it| it[at].value.expose().to_vec());
            let difference = values.map(|it| it ^ SECRET_BYTE);
            assert_uniform(difference, &format!("share {at} for threshold {threshold}"));
        }
    }
}

#[test]
fn broken_generators_are_not_uniform() {
    let never_zero = |it: u32| u8::try_from(it % 255 + 1).unwrap();
    assert!(chi_square(&count_values((0..256_000).map(never_zero))) > 1_000.0);
    let mut counts = [1_000; 256];
    counts[0] = 1_600;
    assert!(chi_square(&counts) < CHI_SQUARE_MAX, "an excess of 600 is not certain to be a fault");
    counts[0] = 1_800;
    assert!(chi_square(&counts) > CHI_SQUARE_MAX);
}

/// Each byte of a secret has its own polynomial, and each split has new ones.
#[test]
fn equal_bytes_of_a_secret_have_different_shares() {
    let secret = Secret::new(vec![SECRET_BYTE; BYTES]);
    let split = || split_secret(&secret, label(), 2, 2).unwrap()[0].value.expose().to_vec();
    let value = split();
    assert_ne!(value, split());
    assert!(value.iter().any(|it| *it != value[0]));
}

/// Over all polynomials of a secret, each pair of shares occurs exactly once. So two shares of a
/// threshold of three say nothing about the secret.
#[test]
fn two_shares_of_a_threshold_of_three_are_independent_of_the_secret() {
    for (secret, first, second) in [(0, 1, 2), (0x5a, 1, 2), (0xff, 7, 255)] {
        let mut seen = vec![false; 65_536];
        for linear in 0..=255 {
            for leading in 0..=255 {
                let value = |x| usize::from(evaluate(secret, &[linear, leading], x));
                let pair = &mut seen[value(first) << 8 | value(second)];
                assert!(!std::mem::replace(pair, true), "a pair occurs twice");
            }
        }
    }
}

#[test]
fn interpolation_returns_the_values_at_its_points() {
    for points in [vec![1, 2], vec![3, 1, 200], (236..=255).collect()] {
        for (at, point) in points.iter().enumerate() {
            let weights = interpolation_weights(&points, *point);
            let expected = (0..points.len()).map(|it| u8::from(it == at));
            assert_eq!(weights, expected.collect::<Vec<_>>());
        }
    }
}
