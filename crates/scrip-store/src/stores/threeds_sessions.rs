//! 3DS sessions.

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    policy::LookupPermit,
    store::ThreeDsSessionStore,
    threeds::{ThreeDsSessionRecord, ThreeDsSessionWrite},
    types::{
        StoreFuture,
        id::{ThreeDsSessionId, TokenId},
    },
};

use crate::{
    shared::{
        session_cards::is_used_by_threeds_session,
        threeds_sessions::{
            FIND_NOTIFIED_THREEDS_SESSION, FIND_THREEDS_SESSION, decode_threeds_session,
            insert_threeds_session, update_threeds_session,
        },
    },
    sql::{Statements, parameters},
    stores::both_engines::for_both_engines,
};

for_both_engines! {
impl ThreeDsSessionStore {
    fn insert_threeds_session(&self, lookup: LookupPermit, write: ThreeDsSessionWrite) -> StoreFuture<'_, ()> {
        let tenant = lookup.tenant().id;
        Box::pin(self.write(tenant, async move |it| insert_threeds_session(it, tenant, &write).await))
    }

    fn find_threeds_session(
        &self,
        lookup: LookupPermit,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        let tenant = lookup.tenant().id;
        Box::pin(async move {
            self.for_tenant(tenant).find(FIND_THREEDS_SESSION, &parameters![id, now, tenant], decode_threeds_session).await
        })
    }

    fn find_notified_threeds_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        Box::pin(async move {
            let key = parameters![id, now];
            self.for_all_tenants().find(FIND_NOTIFIED_THREEDS_SESSION, &key, decode_threeds_session).await
        })
    }

    /// The write may store the response to a message that cannot be sent again. So it waits while
    /// the write queue is full instead of failing.
    fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> StoreFuture<'_, ChangeOutcome> {
        let (tenant, write) = (write.session.tenant, Arc::new(write));
        Box::pin(self.write_waiting(tenant, async move |it| update_threeds_session(it, &write).await))
    }

    fn is_used_by_threeds_session<'a>(
        &'a self,
        lookup: LookupPermit,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = lookup.tenant().id;
        Box::pin(async move { is_used_by_threeds_session(&self.for_tenant(tenant), tenant, token, now).await })
    }
}
}
