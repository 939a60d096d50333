//! What an operator needs of access sessions.

use crate::{
    access_session::{AccessSessionId, AccessSessionRecord},
    caller::Mandate,
    policy::Signed,
    store::{Beside, Changed, StoreFuture},
    time::Timestamp,
};

/// Access sessions of one tenant, for the operator.
pub trait AccessSessionStore: Send + Sync {
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
