//! The stored form of a wrapped key: a version, the check value of the key, and the bytes of the
//! source.

use scrip_seal::{KeyCheck, Secret};

use crate::source::UnlockError;

const FORMAT: u8 = 1;

/// A wrapped key, divided into its parts.
#[derive(Debug)]
pub(crate) struct WrappedKey<'a> {
    check: KeyCheck,
    /// What the source returned when it wrapped the key.
    pub(crate) source_bytes: &'a [u8],
}

impl<'a> WrappedKey<'a> {
    pub(crate) fn encode(key: &Secret, source_bytes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&KeyCheck::compute(key).0);
        bytes.extend_from_slice(source_bytes);
        bytes
    }

    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, UnlockError> {
        let unknown = || UnlockError::Rejected("the wrapped key has an unknown format".to_owned());
        let (_, rest) = bytes.split_first().filter(|it| *it.0 == FORMAT).ok_or_else(unknown)?;
        let (check, source_bytes) = rest.split_first_chunk().ok_or_else(unknown)?;
        Ok(Self { check: KeyCheck(*check), source_bytes })
    }

    /// Returns the key that the source returned, if it is the wrapped key.
    pub(crate) fn verify(&self, key: Secret) -> Result<Secret, UnlockError> {
        if self.check.matches(&key) {
            return Ok(key);
        }
        Err(UnlockError::Rejected(
            "the source returned another key than the one that was wrapped: check that the address \
             is that of the source, and which key it uses"
                .to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_key_is_parsed_into_the_bytes_of_the_source() {
        let key = Secret::new(vec![7; 32]);
        let bytes = WrappedKey::encode(&key, b"ciphertext");
        let wrapped = WrappedKey::parse(&bytes).unwrap();
        assert_eq!(wrapped.source_bytes, b"ciphertext");
        assert!(wrapped.verify(key).is_ok());
    }

    #[test]
    fn another_key_of_the_source_is_rejected() {
        let bytes = WrappedKey::encode(&Secret::new(vec![7; 32]), b"ciphertext");
        let other = WrappedKey::parse(&bytes).unwrap().verify(Secret::new(vec![8; 32]));
        assert!(matches!(other, Err(UnlockError::Rejected(_))));
    }

    #[test]
    fn short_bytes_and_unknown_formats_are_rejected() {
        for bytes in [&[][..], &[1], &[1; 16], &[2; 40], &[0; 40]] {
            assert!(matches!(WrappedKey::parse(bytes), Err(UnlockError::Rejected(_))));
        }
    }
}
