//! The records of all operations: actor, operation, entity, time and address. Records never contain
//! token data.
//!
//! Writes are recorded in the audit log, in their own transaction. Reads and rejected requests are
//! recorded in the read log, which is on disk before the response is sent. Both logs are hash
//! chains: [`chain`] links the records, [`verify`] finds alterations.

pub mod chain;
pub mod message;
pub mod record_scan;
mod saved_head;
pub mod trail;
pub mod vault_rows;
pub mod verify;

pub use self::{
    chain::{
        Chain, ChainHead, ChainTip, Checkpoint, HeadSigner, LogKind, LogRecord, LogRow, PruneChain,
        RecordSubject, ResignChain,
    },
    record_scan::{RecordFilter, ScanRecords, ScannedRecords},
    saved_head::{HeadChange, SavedHead},
    trail::{AuditTrail, ReadRecording},
    vault_rows::{DeletedTenant, SignedWatermark},
};

use std::{net::Ipv4Addr, sync::Arc};

use scrip_seal::AuditKey;

use crate::{
    Timestamp,
    policy::{Actor, Caller, PolicyPermit, RequestOrigin},
    types::{Operation, Transform, id::ApiKeyId},
};

/// The outcome of a read with this transform.
pub(crate) fn read_outcome(transform: Transform) -> &'static str {
    match transform {
        Transform::Redact => "redacted",
        Transform::Mask => "masked",
        Transform::Reveal => "revealed",
    }
}

/// A record, committed in the transaction of the change that it records, or before the response
/// that it records. [`chain`] adds the entity and the outcome.
#[derive(Debug, Clone)]
pub struct AuditRecord {
    pub operation: Operation,
    pub actor: Actor,
    pub trace: Arc<str>,
    pub address: Arc<str>,
    pub at: Timestamp,
    /// The API key that authenticated the request.
    pub api_key: Option<ApiKeyId>,
    /// The operating-system user of an operator's command.
    pub os_user: Option<Arc<str>>,
    /// The number of events in an aggregated record.
    pub repeats: Option<i64>,
    /// Method, destination host and proxy of a proxied call. Never text that may contain a card
    /// number.
    pub detail: Option<Arc<str>>,
    /// The key for the link. Code that links the record needs no other access to the key.
    key: Arc<AuditKey>,
}

impl AuditRecord {
    pub fn new(operation: Operation, caller: &Caller, at: Timestamp) -> Self {
        let actor = Actor::Application(caller.application());
        let record =
            Self::for_request(actor, operation, caller.origin(), &caller.tenant().audit_key, at);
        Self { api_key: caller.api_key(), ..record }
    }

    pub fn for_policy(operation: Operation, permit: &PolicyPermit, at: Timestamp) -> Self {
        match permit.caller() {
            Some(caller) => Self::new(operation, caller, at),
            None => Self {
                os_user: permit.os_user().cloned(),
                ..Self::without_request(permit.actor(), operation, &permit.tenant().audit_key, at)
            },
        }
    }

    /// A record of an operator's command on this machine, without a request.
    pub fn for_operator(operation: Operation, key: &Arc<AuditKey>, at: Timestamp) -> Self {
        Self::without_request(Actor::Operator, operation, key, at)
    }

    /// A record of an action of the vault, such as an expiry.
    pub fn for_vault(operation: Operation, key: &Arc<AuditKey>, at: Timestamp) -> Self {
        Self::without_request(Actor::Vault, operation, key, at)
    }

    pub(crate) fn without_request(
        actor: Actor,
        operation: Operation,
        key: &Arc<AuditKey>,
        at: Timestamp,
    ) -> Self {
        let origin = RequestOrigin { trace: "".into(), address: Ipv4Addr::LOCALHOST.into() };
        Self::for_request(actor, operation, &origin, key, at)
    }

    pub(crate) fn for_request(
        actor: Actor,
        operation: Operation,
        origin: &RequestOrigin,
        key: &Arc<AuditKey>,
        at: Timestamp,
    ) -> Self {
        Self {
            operation,
            actor,
            trace: Arc::clone(&origin.trace),
            address: origin.address.to_string().into(),
            at,
            api_key: None,
            os_user: None,
            repeats: None,
            detail: None,
            key: Arc::clone(key),
        }
    }

    /// A record of the same request for an entity of another type.
    pub fn with_operation(&self, operation: Operation) -> Self {
        Self { operation, ..self.clone() }
    }

    pub(crate) fn key(&self) -> &AuditKey {
        &self.key
    }

    /// A record of an action of the vault during the same request.
    pub fn to_vault_record(&self, operation: Operation) -> Self {
        Self::for_vault(operation, &self.key, self.at)
    }
}
