//! Access sessions.

use crate::{
    Timestamp,
    change::{ChangeOutcome, CommitExtras},
    policy::{AccessSessionId, AccessSessionRecord, PolicyPermit, SignedRow},
    types::StoreFuture,
};

/// Access sessions. Each method is one transaction.
pub trait AccessSessionStore: Send + Sync {
    fn insert_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()>;

    /// Finds a session by the digest of its key. The record names the tenant, which is not known
    /// before.
    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<SignedRow<AccessSessionRecord>>>;

    fn find_access_session_by_nonce<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<SignedRow<AccessSessionRecord>>>;

    /// Replaces a session that is not authorized yet.
    fn authorize_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome>;

    /// Deletes some of the sessions that expired before this time; returns how many.
    fn delete_expired_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    /// The live sessions of the tenant, the one that expires last first, at most `sessions_max`.
    fn list_access_sessions<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<SignedRow<AccessSessionRecord>>>;

    /// Deletes a session. [`ChangeOutcome::Stale`] when the tenant has no such session.
    fn revoke_access_session(
        &self,
        permit: PolicyPermit,
        id: AccessSessionId,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome>;
}
