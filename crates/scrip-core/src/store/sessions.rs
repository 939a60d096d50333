//! 3-D Secure sessions.

use crate::{
    id::{SessionId, TokenId},
    policy::Inquiry,
    store::{Changed, StoreFuture},
    threeds::{SessionRecord, SessionWrite},
    time::Timestamp,
};

/// 3-D Secure sessions.
/// Each method is one transaction.
pub trait SessionStore: Send + Sync {
    /// A new 3-D Secure session, with what is to be told of it.
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()>;

    /// A session that has not ended. Never waits for a writer.
    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>>;

    /// The same for somebody without a key: the record says whose it is.
    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>>;

    /// Replaces a session that still has the revision before this one's.
    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed>;

    /// Whether a session that has not ended names this token, at first or by a conversion.
    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool>;
}
