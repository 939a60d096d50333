//! Splitting a secret into shares.

use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    Secret,
    random::fill_random,
    shares::{
        field::evaluate,
        label::ShareLabel,
        share::{Share, THRESHOLD_MIN, VALUE_BYTES},
    },
};

/// Why a secret cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SplitError {
    /// With a threshold of one, each share would be the secret itself.
    #[error("the threshold must be at least 2: with 1, each holder would have the whole secret")]
    Threshold,
    #[error("there must be at least as many shares as the threshold")]
    Count,
    #[error("the secret must have 16 to 64 bytes")]
    SecretLength,
}

/// Splits a secret into `count` shares with the numbers 1 to `count`. Any `threshold` of them
/// reconstruct the secret; fewer are independent of it.
///
/// Errors: the threshold is below 2 or above `count`, or the secret has fewer than 16 or more than
/// 64 bytes.
pub fn split_secret(
    secret: &Secret,
    label: ShareLabel,
    threshold: u8,
    count: u8,
) -> Result<Vec<Share>, SplitError> {
    split_with_coefficients(secret, label, threshold, count, fill_random)
}

/// `fill_coefficients` is called once for each byte of the secret, and gives the coefficients of its
/// polynomial, the linear one first.
///
/// All values of a coefficient are equally likely, also zero, and also for the leading one. If zero
/// were excluded there, `threshold - 1` shares would exclude one value of each byte of the secret.
pub(super) fn split_with_coefficients(
    secret: &Secret,
    label: ShareLabel,
    threshold: u8,
    count: u8,
    mut fill_coefficients: impl FnMut(&mut [u8]),
) -> Result<Vec<Share>, SplitError> {
    if threshold < THRESHOLD_MIN {
        return Err(SplitError::Threshold);
    }
    if count < threshold {
        return Err(SplitError::Count);
    }
    let secret = secret.expose();
    if !VALUE_BYTES.contains(&secret.len()) {
        return Err(SplitError::SecretLength);
    }
    // With enough space: a list that grows leaves copies of itself in memory.
    let empty_value = || Zeroizing::new(Vec::with_capacity(secret.len()));
    let mut values: Vec<Zeroizing<Vec<u8>>> = (0..count).map(|_| empty_value()).collect();
    let mut coefficients = Zeroizing::new(vec![0; usize::from(threshold.saturating_sub(1))]);
    for byte in secret {
        fill_coefficients(&mut coefficients);
        for (index, value) in (1..=count).zip(&mut values) {
            value.push(evaluate(*byte, &coefficients, index));
        }
    }
    let shares = (1..=count).zip(values).map(|(index, mut value)| Share {
        label,
        index,
        threshold,
        value: Secret::new(std::mem::take(&mut *value)),
    });
    Ok(shares.collect())
}
