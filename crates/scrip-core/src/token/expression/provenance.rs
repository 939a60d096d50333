//! What is stored of the expressions of a token, besides their texts: who wrote them, and digests of them.

use scrip_seal::ExpressionDigest;

/// Clear columns of a token's row, bound to its sealed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpressionProvenance {
    /// Of fingerprint expression, mask and search indexes, with the type's own filled in.
    pub all_digest: ExpressionDigest,
    /// Of the fingerprint expression as it is parsed.
    pub fingerprint_digest: ExpressionDigest,
    /// A caller with a reveal right wrote them, or they are the type's own.
    pub trusted: bool,
    /// A public application or access session chose the id. Other people's data must not be merged
    /// into such a token: an access session may have a right to all ids that begin like this one.
    pub browser_chose_id: bool,
}

const PROVENANCE_BYTES: usize = 33;

impl ExpressionProvenance {
    /// As a column keeps them.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; PROVENANCE_BYTES] {
        let mut bytes = [0; PROVENANCE_BYTES];
        let parts = self.all_digest.0.into_iter().chain(self.fingerprint_digest.0);
        let flags = u8::from(self.trusted) | (u8::from(self.browser_chose_id) << 1);
        let parts = parts.chain([flags]);
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Nothing when [`ExpressionMarks::to_bytes`] did not write these.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (all, rest) = bytes.split_first_chunk()?;
        let (fingerprint, rest) = rest.split_first_chunk()?;
        let (trusted, browser_chose_id) = match rest {
            [0] => (false, false),
            [1] => (true, false),
            [2] => (false, true),
            [3] => (true, true),
            _ => return None,
        };
        let (all, fingerprint) = (ExpressionDigest(*all), ExpressionDigest(*fingerprint));
        Some(Self { all_digest: all, fingerprint_digest: fingerprint, trusted, browser_chose_id })
    }
}
