//! A value that tells two keys from each other without revealing either.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::{Secret, digest::DigestKey};

/// Stored with a wrapped key. A source that returns another key is detected before the key is used.
///
/// The value has 128 bits of a keyed digest, so it reveals nothing about a random key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyCheck(pub [u8; Self::LENGTH]);

impl KeyCheck {
    pub const LENGTH: usize = 16;

    pub fn compute(key: &Secret) -> Self {
        let digest = DigestKey::new(key, "unlock key check").digest(&[]);
        let mut check = [0; Self::LENGTH];
        for (to, from) in check.iter_mut().zip(digest) {
            *to = from;
        }
        Self(check)
    }

    pub fn matches(&self, key: &Secret) -> bool {
        verify_slices_are_equal(&self.0, &Self::compute(key).0).is_ok()
    }
}

impl fmt::Debug for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCheck")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_check_matches_only_its_key() {
        let check = KeyCheck::compute(&Secret::new(vec![7; 32]));
        assert!(check.matches(&Secret::new(vec![7; 32])));
        for other in [vec![8; 32], vec![7; 31], Vec::new()] {
            assert!(!check.matches(&Secret::new(other)));
        }
    }
}
