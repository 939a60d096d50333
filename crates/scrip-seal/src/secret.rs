//! A value that must not be printed.

use std::fmt;

use zeroize::Zeroizing;

/// Plaintext. There is no `Display`, no `Serialize`, no `Clone` and no `PartialEq`; it is wiped
/// when dropped.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The only way in. Searching for `expose` lists every place that sees plaintext.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
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
    fn debug_shows_the_length_only() {
        assert_eq!(format!("{:?}", Secret::new(b"4242".to_vec())), "Secret(4 bytes)");
    }
}
