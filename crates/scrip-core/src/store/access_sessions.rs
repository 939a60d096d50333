//! Access sessions.

use crate::{
    policy::{AccessSessionId, AccessSessionRecord, PolicyPermit, SignedRow},
    store::{ChangeOutcome, CommitExtras, StoreFuture},
    time::Timestamp,
};

/// Access sessions.
/// Each method is one transaction.
pub trait AccessSessionStore: Send + Sync {
    fn insert_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()>;

    /// By its key's digest. The tenant is not known yet: the record says it.
    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<SignedRow<AccessSessionRecord>>>;

    fn find_access_session_by_nonce<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<SignedRow<AccessSessionRecord>>>;

    /// Replaces a session that nobody has authorized yet.
    fn authorize_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome>;

    /// Forgets some of the sessions that ended before this; how many.
    fn delete_expired_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    /// The sessions of the tenant that end after `now`, the longest-lived first, at most
    /// `sessions_max`.
    fn list_access_sessions<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<SignedRow<AccessSessionRecord>>>;

    /// Deletes a session. [`Changed::Stale`] when the tenant has no such session.
    fn revoke_access_session(
        &self,
        permit: PolicyPermit,
        id: AccessSessionId,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome>;
}
