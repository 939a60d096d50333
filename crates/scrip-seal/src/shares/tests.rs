//! Splitting and combining: every subset of small sets, forged shares, and random secrets.

mod text;
mod uniformity;
mod vectors;

use proptest::{collection::vec, prelude::*};

use super::{collection::interpolate, label::ShareLabel, split::split_with_coefficients, *};
use crate::Secret;

fn label() -> ShareLabel {
    ShareLabel::parse("0123-abcd").unwrap()
}

fn secret() -> Secret {
    Secret::new((100..132).collect())
}

fn split(threshold: u8, count: u8) -> Vec<Share> {
    split_secret(&secret(), label(), threshold, count).unwrap()
}

fn copy(share: &Share) -> Share {
    Share { value: Secret::new(share.value.expose().to_vec()), ..*share }
}

/// The shares of which the mask has a bit.
fn subset(shares: &[Share], mask: u32) -> Vec<Share> {
    let chosen = (0..).zip(shares).filter(|(at, _)| mask >> at & 1 == 1);
    chosen.map(|(_, it)| copy(it)).collect()
}

fn collect(threshold: u8, shares: impl IntoIterator<Item = Share>) -> ShareCollection {
    let mut collection = ShareCollection::new(label(), threshold);
    for share in shares {
        collection.add(share).unwrap();
    }
    collection
}

fn combine(threshold: u8, shares: impl IntoIterator<Item = Share>) -> Result<Vec<u8>, ShareError> {
    collect(threshold, shares).combine().map(|it| it.expose().to_vec())
}

/// A share with one changed byte. Its text has a correct checksum.
fn forge(share: &Share) -> Share {
    let mut value = share.value.expose().to_vec();
    value[7] ^= 1;
    Share { value: Secret::new(value), ..*share }
}

#[test]
fn every_subset_combines_exactly_from_the_threshold() {
    for count in 2..=7 {
        for threshold in 2..=count {
            let shares = split(threshold, count);
            for mask in 0..1_u32 << count {
                let subset = subset(&shares, mask);
                let have = u8::try_from(subset.len()).unwrap();
                // Without the check of the number, the result is another secret.
                assert_eq!(
                    interpolate(&subset, 0).constant_time_eq(secret().expose()),
                    have >= threshold,
                    "{threshold} of {count}, {mask:b}"
                );
                let expected = if have >= threshold {
                    Ok(secret().expose().to_vec())
                } else {
                    Err(ShareError::TooFew { have, need: threshold })
                };
                assert_eq!(
                    combine(threshold, subset),
                    expected,
                    "{threshold} of {count}, {mask:b}"
                );
            }
        }
    }
}

#[test]
fn largest_set_combines_in_any_order() {
    for threshold in [2, 3, 254, 255] {
        let shares = split(threshold, 255);
        assert_eq!(
            shares.iter().map(Share::index).collect::<Vec<_>>(),
            (1..=255).collect::<Vec<_>>()
        );
        let reversed = shares.iter().rev().map(copy);
        let expected = Ok(secret().expose().to_vec());
        assert_eq!(combine(threshold, reversed.take(threshold.into())), expected);
        assert_eq!(combine(threshold, shares), expected);
    }
}

#[test]
fn threshold_count_and_secret_length_have_limits() {
    let split = |length: usize, threshold, count| {
        split_secret(&Secret::new(vec![7; length]), label(), threshold, count).map(|it| it.len())
    };
    let cases = [
        ((32, 0, 5), Err(SplitError::Threshold)),
        ((32, 1, 5), Err(SplitError::Threshold)),
        ((32, 1, 1), Err(SplitError::Threshold)),
        ((32, 3, 2), Err(SplitError::Count)),
        ((32, 2, 0), Err(SplitError::Count)),
        ((0, 2, 3), Err(SplitError::SecretLength)),
        ((15, 2, 3), Err(SplitError::SecretLength)),
        ((65, 2, 3), Err(SplitError::SecretLength)),
        ((16, 2, 2), Ok(2)),
        ((64, 3, 5), Ok(5)),
    ];
    for ((length, threshold, count), expected) in cases {
        assert_eq!(split(length, threshold, count), expected, "{length} {threshold} {count}");
    }
}

#[test]
fn progress_counts_accepted_shares() {
    let mut collection = ShareCollection::new(label(), 3);
    assert_eq!(collection.progress(), ShareProgress { have: 0, need: 3 });
    for (have, share) in (1..).zip(split(3, 5)) {
        let progress = ShareProgress { have, need: 3 };
        assert_eq!(collection.add(share), Ok(progress));
        assert_eq!(progress.is_complete(), have >= 3);
        assert_eq!(collection.combine().is_ok(), have >= 3);
    }
}

#[test]
fn share_of_another_vault_set_or_form_is_rejected_and_not_counted() {
    let split_other = |length: usize, label: &str, threshold| {
        let secret = Secret::new(vec![7; length]);
        let label = ShareLabel::parse(label).unwrap();
        split_secret(&secret, label, threshold, 5).unwrap().pop().unwrap()
    };
    let cases = [
        (split_other(32, "0124-abcd", 3), ShareError::OtherVault),
        (split_other(32, "0124-abce", 3), ShareError::OtherVault),
        (split_other(32, "0123-abce", 3), ShareError::OtherSet),
        (split_other(32, "0123-abcd", 2), ShareError::OtherForm),
        (split_other(32, "0123-abcd", 4), ShareError::OtherForm),
        (split_other(16, "0123-abcd", 3), ShareError::OtherForm),
    ];
    let mut collection = collect(3, split(3, 5).into_iter().take(1));
    for (share, expected) in cases {
        assert_eq!(collection.add(share), Err(expected));
        assert_eq!(collection.progress(), ShareProgress { have: 1, need: 3 });
    }
}

#[test]
fn share_that_was_added_before_is_rejected_and_not_counted() {
    let shares = split(3, 5);
    let mut collection = collect(3, shares.iter().take(2).map(copy));
    assert_eq!(collection.add(copy(&shares[1])), Err(ShareError::Repeated { index: 2 }));
    assert_eq!(collection.add(forge(&shares[1])), Err(ShareError::Conflicting { index: 2 }));
    assert_eq!(collection.progress(), ShareProgress { have: 2, need: 3 });
    collection.add(copy(&shares[4])).unwrap();
    assert!(collection.combine().unwrap().constant_time_eq(secret().expose()));
}

/// Only a check of the secret itself detects a forged share among exactly the threshold.
#[test]
fn forged_share_gives_a_wrong_secret_or_contradicts_a_further_share() {
    let shares = split(3, 5);
    for forged_at in 0..4 {
        let forged =
            |it: usize| if it == forged_at { forge(&shares[it]) } else { copy(&shares[it]) };
        assert_eq!(combine(3, (0..4).map(forged)), Err(ShareError::Inconsistent));
        if forged_at < 3 {
            assert_ne!(combine(3, (0..3).map(forged)).unwrap(), secret().expose());
        }
    }
}

#[test]
fn debug_output_shows_no_share() {
    let shares = split(3, 5);
    assert_eq!(format!("{:?}", shares[1]), "Share(0123-abcd-2-3)");
    assert_eq!(format!("{:?}", label()), "ShareLabel(0123-abcd)");
    assert_eq!(format!("{:?}", collect(3, shares)), "ShareCollection(0123-abcd, 5/3)");
}

proptest! {
    #[test]
    fn any_secret_is_reconstructed_from_typed_shares(
        bytes in vec(any::<u8>(), 16..=64),
        (threshold, count) in (2..=12_u8).prop_flat_map(|count| (2..=count, Just(count))),
        first in 0..12_usize,
    ) {
        let label = ShareLabel::create("vault");
        let shares = split_secret(&Secret::new(bytes.clone()), label, threshold, count).unwrap();
        let mut collection = ShareCollection::new(label, threshold);
        for share in shares.iter().cycle().skip(first).take(threshold.into()) {
            let text = share.to_text();
            let text = str::from_utf8(text.expose()).unwrap();
            collection.add(Share::parse(text).unwrap()).unwrap();
        }
        prop_assert!(collection.combine().unwrap().constant_time_eq(&bytes));
    }
}
