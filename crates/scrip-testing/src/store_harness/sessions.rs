//! The methods of a store for 3-D Secure sessions with default arguments for most tests.

use std::time::Duration;

use scrip_core::{
    Timestamp,
    audit::{LogKind, LogRecord},
    change::ChangeOutcome,
    store::ExpiringEntity,
    threeds::{ThreeDsSessionCard, ThreeDsSessionRecord, ThreeDsSessionWrite},
    types::{
        Operation, StoreError,
        id::{TenantId, ThreeDsSessionId, TokenIntentId},
    },
};
use scrip_seal::Sealed;
use uuid::Uuid;

use crate::{clock::START, store_harness::StoreHarness};

const MINUTE: Duration = Duration::from_secs(60);

pub fn threeds_session_id(number: u8) -> ThreeDsSessionId {
    ThreeDsSessionId(Uuid::from_bytes([number; 16]))
}

pub fn intent_id(number: u8) -> TokenIntentId {
    TokenIntentId(Uuid::from_bytes([number; 16]))
}

impl StoreHarness {
    pub fn tenant(&self) -> TenantId {
        self.caller.tenant().id
    }

    pub fn threeds_session_record(&self, number: u8) -> ThreeDsSessionRecord {
        ThreeDsSessionRecord {
            tenant: self.tenant(),
            id: threeds_session_id(number),
            created_by: self.caller.application(),
            created_at: START,
            deletes_at: Some(START.plus(MINUTE)),
            revision: 1,
            card: ThreeDsSessionCard::Intent { id: intent_id(number), conversion: None },
            body: Sealed::from_stored(vec![number; 40]),
        }
    }

    pub fn threeds_session_write(
        &self,
        session: ThreeDsSessionRecord,
        events: &[u8],
    ) -> ThreeDsSessionWrite {
        ThreeDsSessionWrite {
            session,
            deliveries: events.iter().map(|it| self.new_delivery(*it)).collect(),
            audit: self.audit(Operation::CreateThreeDsSession),
            outcome: "created",
            used_card: None,
            idempotency: None,
        }
    }

    pub async fn insert_threeds_session(
        &self,
        write: ThreeDsSessionWrite,
    ) -> Result<(), StoreError> {
        self.store().insert_threeds_session(self.lookup_permit(), write).await
    }

    /// Inserts a session with these events.
    pub async fn insert_session(
        &self,
        session: ThreeDsSessionRecord,
        events: &[u8],
    ) -> Result<(), StoreError> {
        self.insert_threeds_session(self.threeds_session_write(session, events)).await
    }

    /// Updates a session with these events.
    pub async fn update_session(
        &self,
        session: ThreeDsSessionRecord,
        events: &[u8],
    ) -> ChangeOutcome {
        self.update_threeds_session(self.threeds_session_write(session, events)).await
    }

    pub async fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> ChangeOutcome {
        self.store().update_threeds_session(write).await.unwrap()
    }

    pub async fn find_threeds_session(&self, number: u8) -> Option<ThreeDsSessionRecord> {
        self.store()
            .find_threeds_session(self.lookup_permit(), threeds_session_id(number), self.now())
            .await
            .unwrap()
    }

    pub async fn find_notified_threeds_session(&self, number: u8) -> Option<ThreeDsSessionRecord> {
        self.store()
            .find_notified_threeds_session(threeds_session_id(number), self.now())
            .await
            .unwrap()
    }

    pub async fn delete_expired_threeds_sessions(&self, cutoff: Timestamp) -> usize {
        let operation = Operation::ExpireThreeDsSession;
        self.delete_expired(ExpiringEntity::ThreeDsSession, operation, cutoff).await
    }

    /// The records of session operations: operation, entity and outcome.
    pub async fn threeds_session_records(&self) -> Vec<[String; 3]> {
        let records = self.store().list_records(LogKind::Audit, self.tenant(), 0, 10_000).await;
        let to_texts = |it: LogRecord| [it.operation, it.entity, it.outcome];
        let texts = records.unwrap().into_iter().map(to_texts);
        texts.filter(|it| it[0].ends_with("_session")).collect()
    }

    pub async fn threeds_row_counts(&self) -> [u64; 2] {
        let status = self.store().status().await.unwrap();
        ["threeds_sessions", "webhook_deliveries"]
            .map(|name| status.counts.iter().find(|(it, _)| *it == name).unwrap().1)
    }
}
