//! Access sessions.

use crate::{
    policy::{AccessSessionId, AccessSessionRecord, Mandate, Signed},
    store::{Beside, Changed, StoreFuture},
    time::Timestamp,
};

/// Access sessions.
/// Each method is one transaction.
pub trait AccessSessionStore: Send + Sync {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()>;

    /// By its key's digest. The tenant is not known yet: the record says it.
    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>>;

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>>;

    /// Replaces a session that nobody has authorized yet.
    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed>;

    /// Forgets some of the sessions that ended before this; how many.
    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    /// The sessions of the tenant that end after `now`, the longest-lived first, at most
    /// `sessions_max`.
    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>>;

    /// Deletes a session. [`Changed::Stale`] when the tenant has no such session.
    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed>;
}
