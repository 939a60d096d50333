//! What the vault needs kept. Engines implement this; they are not trusted with plaintext.

use std::{any::Any, fmt, future::Future, pin::Pin};

use scrip_seal::{Fingerprint, IndexDigest, Sealed};

use crate::{
    answer::AnswerRecord,
    application::{ApiKeyRecord, ApplicationRecord},
    audit::AuditRecord,
    caller::{Inquiry, Permit},
    container::Containers,
    cvc::CvcRecord,
    directory::DirectoryRecords,
    error::{Cause, Error},
    id::{ApplicationId, TenantId, TokenId},
    tenant::TenantRecord,
    time::Timestamp,
    token_type::TokenType,
};

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Runs inside the transaction that it belongs to, once the outcome is known. What it gives is
/// committed with the effect; nothing, when this outcome is not one to remember.
pub type Render<T> = Box<dyn FnOnce(&T) -> Option<AnswerRecord> + Send>;

/// Each method is one transaction. A method that needs two is two rules in one name.
pub trait Store: Send + Sync {
    /// Inserts a token; or finds the oldest live one with the same type, fingerprint and
    /// containers, when asked to.
    fn insert_token(&self, permit: Permit, insert: InsertToken) -> StoreFuture<'_, Inserted>;

    /// A live token. Never waits for a writer.
    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>>;

    /// Replaces a live token if it still has the revision it was read with.
    fn update_token(&self, permit: Permit, update: UpdateToken) -> StoreFuture<'_, Updated>;

    /// Deletes a live token if it still has the revision it was read with, and with it its cvc,
    /// its indexes and its data in remembered answers.
    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Deleted>;

    /// Claims the right to answer a request with this idempotency key, or finds its answer.
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed>;

    /// Forgets some of the answers older than `before`; how many.
    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords>;

    /// Keeps the pepper of a new vault; refused when there is one.
    fn insert_pepper(&self, pepper: Sealed) -> StoreFuture<'_, ()>;

    fn insert_tenant(&self, tenant: TenantRecord) -> StoreFuture<'_, ()>;

    fn insert_application(
        &self,
        application: ApplicationRecord,
        api_key: ApiKeyRecord,
    ) -> StoreFuture<'_, ()>;

    /// Whether a read and a write would be served now.
    fn check_ready(&self) -> StoreFuture<'_, ()>;
}

/// A token's row. What is not sealed is bound to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub token_type: TokenType,
    pub fingerprint: Option<Fingerprint>,
    pub containers: Containers,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    pub modified: Option<Modified>,
    pub expires_at: Option<Timestamp>,
    /// Counts the updates.
    pub revision: i64,
    pub body: Sealed,
}

impl TokenRecord {
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|it| now < it)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modified {
    pub by: ApplicationId,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    pub record: TokenRecord,
    pub cvc: Option<CvcRecord>,
}

pub struct InsertToken {
    pub token: StoredToken,
    pub indexes: Vec<IndexDigest>,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub render: Option<Render<Inserted>>,
}

pub struct UpdateToken {
    pub token: TokenRecord,
    pub cvc: CvcChange,
    pub indexes: Vec<IndexDigest>,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub render: Option<Render<Updated>>,
}

#[derive(Debug)]
pub struct DeleteToken {
    pub id: TokenId,
    pub revision: i64,
    pub audit: AuditRecord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduplicate {
    Yes,
    No,
}

#[derive(Debug)]
pub enum CvcChange {
    Keep,
    Remove,
    Replace(CvcRecord),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Inserted {
    New,
    Existing(Box<StoredToken>),
    IdTaken,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Updated {
    Done,
    /// Another live token is what this one would have become; nothing was changed.
    Duplicate(Box<StoredToken>),
    /// Somebody else changed or removed it; look again.
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Done,
    Stale,
}

/// Which answer is asked for.
#[derive(Debug, Clone, Copy)]
pub struct AskedAnswer {
    pub tenant: TenantId,
    pub digest: [u8; 32],
    pub now: Timestamp,
    /// Answers from before this are forgotten.
    pub since: Timestamp,
}

#[derive(Debug)]
pub enum Claimed {
    /// Nobody has answered; the claim keeps others from it until it is dropped.
    Claim(Claim),
    Answered(StoredAnswer),
    InFlight,
}

/// An answer that was found. Its data is gone when its token is.
#[derive(Debug)]
pub struct StoredAnswer {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    /// Where its token is now.
    pub containers: Option<Containers>,
    pub head: Sealed,
    pub data: Option<Sealed>,
}

/// Held while a request with an idempotency key is in flight.
pub struct Claim {
    pub digest: [u8; 32],
    _held: Box<dyn Any + Send + Sync>,
}

impl Claim {
    /// `held` is whatever ends the engine's claim when it is dropped.
    #[must_use]
    pub fn new(digest: [u8; 32], held: Box<dyn Any + Send + Sync>) -> Self {
        Self { digest, _held: held }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim")
    }
}

#[derive(Debug)]
pub enum StoreError {
    /// Too many writes are waiting; nothing was done.
    Busy,
    /// The engine did not answer. For a write nobody knows what became of it: ask again with the
    /// same idempotency key.
    Unavailable(Cause),
    /// The engine answered with something we could not have written.
    Corrupt(&'static str),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable("the write queue is full".into()),
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Corrupt(what) => Self::Internal(what.into()),
        }
    }
}

impl fmt::Debug for InsertToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InsertToken")
    }
}

impl fmt::Debug for UpdateToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpdateToken")
    }
}
