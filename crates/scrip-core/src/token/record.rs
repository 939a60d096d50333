//! Stored tokens.

use scrip_seal::{EpochKeys, Fingerprint, IndexDigest, Sealed};

use crate::{
    Error, Timestamp,
    card::TokenType,
    policy::AccessTarget,
    token::{CvcRecord, ExpressionProvenance},
    types::{
        Containers, Transform,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    pub record: TokenRecord,
    pub cvc: Option<CvcRecord>,
}

impl<'a> From<&'a TokenRecord> for AccessTarget<'a> {
    fn from(token: &'a TokenRecord) -> Self {
        Self { containers: &token.containers, id: Some(&token.id) }
    }
}

impl StoredToken {
    /// Prepares the CVC for a response with this transform: removes a CVC with a destroyed key, and
    /// loads the key of a CVC that will be shown.
    ///
    /// Errors: the key is on other nodes, and they do not respond.
    pub(crate) async fn resolve_cvc(
        &mut self,
        epochs: &EpochKeys,
        transform: Transform,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(cvc) = self.cvc.as_ref().filter(|_| transform == Transform::Reveal) else {
            return Ok(());
        };
        if cvc.is_unrecoverable(epochs, now).await? {
            self.cvc = None;
        }
        Ok(())
    }
}
