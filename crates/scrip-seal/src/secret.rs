//! A value that must not be printed.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::Zeroizing;

/// Plaintext. There is no `Display`, no `Serialize`, no `Clone` and no `PartialEq`; it is wiped
/// when dropped.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The only access to the plaintext. Search for `expose` to list every place that reads
    /// plaintext.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Compares in constant time; only the lengths may be observable.
    pub fn constant_time_eq(&self, other: &[u8]) -> bool {
        verify_slices_are_equal(&self.0, other).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_equals_only_the_same_bytes() {
        let secret = Secret::new(b"4242".to_vec());
        assert!(secret.constant_time_eq(b"4242"));
        for bytes in [b"".as_slice(), b"4243", b"424", b"42424"] {
            assert!(!secret.constant_time_eq(bytes));
        }
    }

    #[test]
    fn debug_output_of_secret_shows_only_its_length() {
        assert_eq!(format!("{:?}", Secret::new(b"4242".to_vec())), "Secret(4 bytes)");
    }
}
