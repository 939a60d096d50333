//! The stored provenance of a token's expressions: digests of their texts, and trust flags.

use scrip_seal::ExpressionDigest;

/// Clear columns of a token's row, bound to its sealed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpressionProvenance {
    /// The digest of fingerprint expression, mask and search indexes, including defaults.
    pub all_digest: ExpressionDigest,
    /// The digest of the canonical fingerprint expression.
    pub fingerprint_digest: ExpressionDigest,
    /// A caller with a reveal right wrote the expressions, or they are the defaults of the type.
    pub trusted: bool,
    /// A public application or access session chose the id. Data of other callers must not be
    /// merged into such a token: an access session may have rights on all ids with the same prefix.
    pub browser_chose_id: bool,
}

const PROVENANCE_BYTES: usize = 33;

impl ExpressionProvenance {
    /// The stored form.
    pub fn to_bytes(&self) -> [u8; PROVENANCE_BYTES] {
        let mut bytes = [0; PROVENANCE_BYTES];
        let digests = self.all_digest.0.into_iter().chain(self.fingerprint_digest.0);
        let flags = u8::from(self.trusted) | (u8::from(self.browser_chose_id) << 1);
        let source = digests.chain([flags]);
        bytes.iter_mut().zip(source).for_each(|(target, byte)| *target = byte);
        bytes
    }

    /// `None` when the bytes are not the output of [`ExpressionProvenance::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (all, remaining) = bytes.split_first_chunk()?;
        let (fingerprint, remaining) = remaining.split_first_chunk()?;
        let (trusted, browser_chose_id) = match remaining {
            [0] => (false, false),
            [1] => (true, false),
            [2] => (false, true),
            [3] => (true, true),
            _ => return None,
        };
        let (all_digest, fingerprint_digest) =
            (ExpressionDigest(*all), ExpressionDigest(*fingerprint));
        Some(Self { all_digest, fingerprint_digest, trusted, browser_chose_id })
    }
}
