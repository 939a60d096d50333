//! 3-D Secure sessions, and the events that tell of them.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    id::{SessionId, TokenId},
    policy::Inquiry,
    store::{Changed, EventStore, SessionStore, StoreError, StoreFuture},
    threeds::{EventRecord, SessionRecord, SessionWrite},
    time::Timestamp,
};

use crate::{
    rules::sessions::{
        find_notified_session, find_session, insert_session, is_named_by_session, list_events,
        update_session,
    },
    sql::{parameters, run_ready},
    sqlite::{SqliteStore, engine::statement::execute},
};

/// What a crowd of other writes may keep an update waiting.
const TURNS_MAX: u32 = 200;
const TURN: Duration = Duration::from_millis(50);

impl SessionStore for SqliteStore {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        self.write(move |it| run_ready(insert_session(it, tenant, &write)))
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        let tenant = inquiry.tenant().id;
        self.read(move |it| run_ready(find_session(it, tenant, id, now)))
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        self.read(move |it| run_ready(find_notified_session(it, id, now)))
    }

    /// It may be the answer to a message that cannot be sent again: where others are told that the
    /// writer has too much to do, this waits.
    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let write = Arc::new(write);
            for _ in 0..TURNS_MAX {
                let write = Arc::clone(&write);
                match self.writer.write(move |it| run_ready(update_session(it, &write))).await {
                    Err(StoreError::Busy) => tokio::time::sleep(TURN).await,
                    done => return done,
                }
            }
            Err(StoreError::Busy)
        })
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = inquiry.tenant().id;
        self.read(move |it| run_ready(is_named_by_session(it, tenant, token, now)))
    }
}

const FORGOTTEN_AT_ONCE: i64 = 256;

const FORGET_EVENTS: &str = "
-- forget_events
DELETE FROM session_events WHERE seq IN (
    SELECT seq FROM session_events WHERE at <= $1 ORDER BY at LIMIT $2
)";

pub(crate) const STATEMENTS: &[&str] = &[FORGET_EVENTS];

impl EventStore for SqliteStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        self.read(move |it| run_ready(list_events(it, after, events_max)))
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.write(move |it| execute(it, FORGET_EVENTS, &parameters![before, FORGOTTEN_AT_ONCE]))
    }
}
