//! The store's methods for 3-D Secure sessions, with what most tests do not care about filled in.

use std::time::Duration;

use scrip_core::{
    audit::{Log, LogRecord, Operation},
    id::{SessionId, TenantId, TokenIntentId},
    store::{Changed, Ending, StoreError},
    threeds::{EventRecord, SessionCard, SessionRecord, SessionWrite},
    time::Timestamp,
};
use scrip_seal::Sealed;
use uuid::Uuid;

use crate::{clock::START, store_harness::StoreHarness};

const MINUTE: Duration = Duration::from_secs(60);

#[must_use]
pub fn session_id(number: u8) -> SessionId {
    SessionId(Uuid::from_bytes([number; 16]))
}

#[must_use]
pub fn intent_id(number: u8) -> TokenIntentId {
    TokenIntentId(Uuid::from_bytes([number; 16]))
}

impl StoreHarness {
    pub fn tenant(&self) -> TenantId {
        self.caller.tenant().id
    }

    pub fn session(&self, number: u8) -> SessionRecord {
        SessionRecord {
            tenant: self.tenant(),
            id: session_id(number),
            created_by: self.caller.application(),
            created_at: START,
            ends_at: Some(START.after(MINUTE)),
            revision: 1,
            card: SessionCard::Intent { id: intent_id(number), converted: None },
            body: Sealed::from_stored(vec![number; 40]),
        }
    }

    pub fn event(&self, number: u8) -> EventRecord {
        EventRecord {
            tenant: self.tenant(),
            id: Uuid::from_bytes([number; 16]),
            at: self.now(),
            body: Sealed::from_stored(vec![number; 20]),
        }
    }

    pub fn written(&self, session: SessionRecord, events: &[u8]) -> SessionWrite {
        SessionWrite {
            session,
            events: events.iter().map(|it| self.event(*it)).collect(),
            audit: self.audit(Operation::CreateSession),
            outcome: "created",
            used: None,
            answer: None,
        }
    }

    pub async fn insert_session(&self, write: SessionWrite) -> Result<(), StoreError> {
        self.store().insert_session(self.inquiry(), write).await
    }

    pub async fn update_session(&self, write: SessionWrite) -> Changed {
        self.store().update_session(write).await.unwrap()
    }

    pub async fn find_session(&self, number: u8) -> Option<SessionRecord> {
        self.store().find_session(self.inquiry(), session_id(number), self.now()).await.unwrap()
    }

    pub async fn notified(&self, number: u8) -> Option<SessionRecord> {
        self.store().find_notified_session(session_id(number), self.now()).await.unwrap()
    }

    pub async fn sweep_sessions(&self, ended: Timestamp) -> usize {
        let mut swept = 0;
        loop {
            let audit = self.world.vault.audit.of_vault(Operation::ExpireSession, self.now());
            match self.store().sweep(Ending::Session, ended, audit.unwrap()).await.unwrap() {
                0 => return swept,
                some => swept += some,
            }
        }
    }

    pub async fn events(&self, after: i64, events_max: usize) -> Vec<(i64, EventRecord)> {
        self.store().list_events(after, events_max).await.unwrap()
    }

    /// What was done to sessions: operation, entity, outcome.
    pub async fn trail(&self) -> Vec<[String; 3]> {
        let records = self.store().list_records(Log::Audit, self.tenant(), 0, 10_000).await;
        let words = |it: LogRecord| [it.operation, it.entity, it.outcome];
        let all = records.unwrap().into_iter().map(words);
        all.filter(|it| it[0].ends_with("_session")).collect()
    }

    pub async fn held(&self) -> [u64; 2] {
        let status = self.store().status().await.unwrap();
        ["sessions", "session_events"]
            .map(|name| status.counts.iter().find(|(it, _)| *it == name).unwrap().1)
    }
}
