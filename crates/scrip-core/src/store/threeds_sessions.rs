//! 3-D Secure sessions.

use crate::{
    Timestamp,
    change::ChangeOutcome,
    policy::LookupPermit,
    threeds::{ThreeDsSessionRecord, ThreeDsSessionWrite},
    types::{
        StoreFuture,
        id::{ThreeDsSessionId, TokenId},
    },
};

/// 3-D Secure sessions. Each method is one transaction.
pub trait ThreeDsSessionStore: Send + Sync {
    /// Inserts a 3-D Secure session with its events.
    fn insert_threeds_session(
        &self,
        lookup: LookupPermit,
        write: ThreeDsSessionWrite,
    ) -> StoreFuture<'_, ()>;

    /// A live session. Never waits for a writer.
    fn find_threeds_session(
        &self,
        lookup: LookupPermit,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>>;

    /// A live session for an unauthenticated caller. The record names the tenant.
    fn find_notified_threeds_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>>;

    /// Replaces a session if the stored revision is the one before the new revision.
    fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> StoreFuture<'_, ChangeOutcome>;

    /// Whether a live session uses this token, from its creation or by a conversion.
    fn is_used_by_threeds_session<'a>(
        &'a self,
        lookup: LookupPermit,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool>;
}
