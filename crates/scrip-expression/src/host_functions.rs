//! Functions that the caller provides: randomness and keyed hashes.

/// The hash algorithm of an `hmac` filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacAlgorithm {
    Sha1,
    Sha256,
    Sha512,
}

impl HmacAlgorithm {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        match () {
            () if is("sha-1") => Some(Self::Sha1),
            () if is("sha-256") => Some(Self::Sha256),
            () if is("sha-512") => Some(Self::Sha512),
            () => None,
        }
    }
}

/// Provided by the caller, so that this crate names no algorithm and tests can repeat results.
pub trait HostFunctions {
    fn hmac(&self, algorithm: HmacAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8>;
    fn fill_random(&self, bytes: &mut [u8]);
}
