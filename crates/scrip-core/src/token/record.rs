//! Stored tokens.

use scrip_seal::{ExpressionDigest, Fingerprint, IndexDigest, Sealed};

use crate::{
    Timestamp,
    card::TokenType,
    policy::AccessTarget,
    types::{
        Containers,
        id::{ApplicationId, TokenId},
    },
};

/// The stored row of a token. The clear columns are bound to the sealed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub token_type: TokenType,
    pub fingerprint: Option<Fingerprint>,
    pub expressions: ExpressionProvenance,
    pub containers: Containers,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    pub modified: Option<TokenModification>,
    pub expires_at: Option<Timestamp>,
    /// Incremented by every update.
    pub revision: i64,
    /// The entries for searches: digests of the search indexes and of the metadata.
    pub indexes: Vec<IndexDigest>,
    pub body: Sealed,
}

impl TokenRecord {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|it| now < it)
    }

    /// Removes the index entries over the data, which are the first ones.
    pub(crate) fn drop_data_indexes(&mut self, count: usize) {
        self.indexes.drain(..count.min(self.indexes.len()));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenModification {
    pub by: ApplicationId,
    pub at: Timestamp,
}

impl<'a> From<&'a TokenRecord> for AccessTarget<'a> {
    fn from(token: &'a TokenRecord) -> Self {
        Self { containers: &token.containers, id: Some(&token.id) }
    }
}

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
