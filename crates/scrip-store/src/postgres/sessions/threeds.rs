//! 3-D Secure sessions, and the events that tell of them.

use scrip_core::{
    id::{SessionId, TokenId},
    policy::Inquiry,
    store::{Changed, EventStore, SessionStore, StoreFuture},
    threeds::{EventRecord, SessionRecord, SessionWrite},
    time::Timestamp,
};

use crate::{
    postgres::{PostgresStore, changed},
    rules::sessions::{
        find_notified_session, find_session, insert_session, is_named_by_session, list_events,
        update_session,
    },
    sql::{Execute, parameters},
};

impl SessionStore for PostgresStore {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let mut it = self.begin(tenant).await?;
            insert_session(&mut it, tenant, &write).await?;
            it.commit().await
        })
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { find_session(&self.of(tenant), tenant, id, now).await })
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        Box::pin(async move { find_notified_session(&self.of_every_tenant(), id, now).await })
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(write.session.tenant).await?;
            let updated = update_session(&mut it, &write).await?;
            changed(it, updated).await
        })
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { is_named_by_session(&self.of(tenant), tenant, token, now).await })
    }
}

const FORGOTTEN_AT_ONCE: i64 = 256;

const FORGET_EVENTS: &str = "
-- forget_events
DELETE FROM session_events WHERE (tenant, seq) IN (
    SELECT tenant, seq FROM session_events WHERE at <= $1 ORDER BY at LIMIT $2
    FOR UPDATE SKIP LOCKED
)";

impl EventStore for PostgresStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        Box::pin(async move { list_events(&self.of_every_tenant(), after, events_max).await })
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let some = parameters![before, FORGOTTEN_AT_ONCE];
            self.of_every_tenant().execute(FORGET_EVENTS, &some).await
        })
    }
}
