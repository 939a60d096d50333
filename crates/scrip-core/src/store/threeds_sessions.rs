//! 3-D Secure sessions.

use crate::{
    id::{ThreeDsSessionId, TokenId},
    policy::LookupPermit,
    store::{ChangeOutcome, StoreFuture},
    threeds::{ThreeDsSessionRecord, ThreeDsSessionWrite},
    time::Timestamp,
};

/// 3-D Secure sessions.
/// Each method is one transaction.
pub trait ThreeDsSessionStore: Send + Sync {
    /// A new 3-D Secure session, with what is to be told of it.
    fn insert_threeds_session(
        &self,
        lookup: LookupPermit,
        write: ThreeDsSessionWrite,
    ) -> StoreFuture<'_, ()>;

    /// A session that has not ended. Never waits for a writer.
    fn find_threeds_session(
        &self,
        lookup: LookupPermit,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>>;

    /// The same for somebody without a key: the record says whose it is.
    fn find_notified_threeds_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>>;

    /// Replaces a session that still has the revision before this one's.
    fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> StoreFuture<'_, ChangeOutcome>;

    /// Whether a session that has not ended names this token, at first or by a conversion.
    fn is_used_by_threeds_session<'a>(
        &'a self,
        lookup: LookupPermit,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool>;
}
