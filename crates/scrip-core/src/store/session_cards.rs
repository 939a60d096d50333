//! Which 3-D Secure sessions name a card.

use crate::{caller::Inquiry, id::TokenId, store::StoreFuture, time::Timestamp};

/// Looks up sessions by their card.
pub trait SessionCardStore: Send + Sync {
    /// Whether a session that has not ended names this token, at first or by a conversion.
    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool>;
}
