//! The hash chains of records: one for each tenant and log.
//!
//! Every record has a sequence number, without gaps, and a MAC over all of its columns and the MAC
//! of the record before it. Each chain also has a stored head with its own MAC. Without the head,
//! an attacker could remove the last records unnoticed. Pruning leaves a checkpoint, and the rest
//! of the chain continues from it. An engine only stores these rows; it never has the key.

use std::{net::Ipv4Addr, sync::Arc};

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    Timestamp,
    policy::{Actor, Caller, PolicyPermit, RequestOrigin},
    types::{
        Operation, Transform,
        id::{ApiKeyId, ApplicationId, TenantId},
    },
};

words! {
    /// The two logs.
    pub enum LogKind {
        /// Changes, written in the transaction of the change.
        Audit = "audit",
        /// Reads and rejections, stored separately so that no read waits for a writer.
        Read = "read",
    }
}

impl Actor {
    /// The kind, and the application if there is one.
    pub fn columns(self) -> (&'static str, Option<ApplicationId>) {
        match self {
            Self::Application(id) => ("application", Some(id)),
            Self::Operator => ("operator", None),
            Self::Vault => ("vault", None),
            Self::Unauthenticated => ("unauthenticated", None),
        }
    }
}

/// The outcome of a read with this transform.
pub(crate) fn read_outcome(transform: Transform) -> &'static str {
    match transform {
        Transform::Redact => "redacted",
        Transform::Mask => "masked",
        Transform::Reveal => "revealed",
    }
}

/// A record, committed in the transaction of the change that it records, or before the response
/// that it records. Its link adds the entity and the outcome.
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
    /// Method, destination host and proxy of a proxied call, or the sender for whom a call stored a
    /// token. Never text that may contain a card number.
    pub detail: Option<Arc<str>>,
    /// The key for the link. Code that links the record needs no other access to the key.
    pub(super) key: Arc<AuditKey>,
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

/// The stored columns of a record, with a valid or an invalid link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogColumns<T> {
    pub tenant: TenantId,
    /// Starts at 1.
    pub sequence: i64,
    pub at: Timestamp,
    pub actor_kind: T,
    pub actor: Option<ApplicationId>,
    pub operation: T,
    /// The id of the entity; empty if there is none.
    pub entity: T,
    pub outcome: T,
    /// Empty if there was no request to a server.
    pub trace: T,
    pub address: T,
    /// The API key that authenticated the request.
    pub api_key: Option<ApiKeyId>,
    /// The operating-system user who ran the command.
    pub os_user: Option<T>,
    /// The number of events of an aggregated record; `None` for a single event.
    pub repeats: Option<i64>,
    /// For a proxied call: method, destination host, and the proxy.
    pub detail: Option<T>,
    pub link: Mac,
}

/// A record with borrowed texts.
pub type LogRow<'a> = LogColumns<&'a str>;

/// A record with owned texts.
pub type LogRecord = LogColumns<String>;

impl<T> LogColumns<T> {
    fn map_texts<'a, U>(&'a self, convert: impl Fn(&'a T) -> U) -> LogColumns<U> {
        LogColumns {
            tenant: self.tenant,
            sequence: self.sequence,
            at: self.at,
            actor_kind: convert(&self.actor_kind),
            actor: self.actor,
            operation: convert(&self.operation),
            entity: convert(&self.entity),
            outcome: convert(&self.outcome),
            trace: convert(&self.trace),
            address: convert(&self.address),
            api_key: self.api_key,
            os_user: self.os_user.as_ref().map(&convert),
            repeats: self.repeats,
            detail: self.detail.as_ref().map(convert),
            link: self.link,
        }
    }
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    pub tenant: TenantId,
    /// The sequence number of the last record.
    pub sequence: i64,
    pub at: Timestamp,
    pub link: Mac,
    /// How long the records of a deleted tenant are stored: the value of its quota when it was
    /// deleted. Only in the audit log, for both logs.
    pub retention_seconds: Option<i64>,
    pub mac: Mac,
}

/// The end of the pruned part of a chain: when it was pruned, and the link of the last pruned
/// record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    pub tenant: TenantId,
    pub sequence: i64,
    pub link: Mac,
    pub at: Timestamp,
    pub mac: Mac,
}

/// The head and the age of a chain, which the store finds without a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    pub head: ChainHead,
    /// The time of the oldest remaining record. If a command wrote that record and the first record
    /// of a server has an earlier time, the time of that record.
    pub oldest_at: Option<Timestamp>,
}

/// The log, tenant, entity and outcome of a new record.
#[derive(Debug, Clone, Copy)]
pub struct RecordSubject<'a> {
    pub log: LogKind,
    pub tenant: TenantId,
    pub entity: &'a str,
    pub outcome: &'static str,
}

/// The link before the first record.
pub(crate) const NO_LINK: Mac = Mac([0; 32]);

/// The position at which a chain continues.
#[derive(Debug, Clone, Copy)]
pub struct ChainTip {
    sequence: i64,
    at: Timestamp,
    link: Mac,
}

impl ChainTip {
    pub fn from_head(head: Option<&ChainHead>) -> Self {
        let start = Self { sequence: 0, at: Timestamp { unix_ms: 0 }, link: NO_LINK };
        head.map_or(start, |it| Self { sequence: it.sequence, at: it.at, link: it.link })
    }
}

impl AuditRecord {
    /// The next record of a chain. Write it together with the new head of the chain:
    /// [`HeadSigner::head`].
    pub fn link_to_chain<'a>(
        &'a self,
        tip: &mut ChainTip,
        subject: RecordSubject<'a>,
    ) -> LogRow<'a> {
        let RecordSubject { log, tenant, entity, outcome } = subject;
        let (actor_kind, actor) = self.actor.columns();
        let mut row = LogRow {
            tenant,
            sequence: tip.sequence.saturating_add(1),
            at: self.at,
            actor_kind,
            actor,
            operation: self.operation.as_str(),
            entity,
            outcome,
            trace: &self.trace,
            address: &self.address,
            api_key: self.api_key,
            os_user: self.os_user.as_deref(),
            repeats: self.repeats,
            detail: self.detail.as_deref(),
            link: NO_LINK,
        };
        row.link = self.key.mac(&row.link_place(log, tip.link));
        *tip = ChainTip { sequence: row.sequence, at: row.at, link: row.link };
        row
    }

    /// A signer for code that writes many records and then one head.
    pub fn head_signer(&self) -> HeadSigner {
        HeadSigner(Arc::clone(&self.key))
    }

    /// The final head of the chain of a deleted tenant. A second deletion, of leftovers, keeps the
    /// retention of the first.
    pub fn close_chain(
        &self,
        head: ChainHead,
        log: LogKind,
        retention_seconds: Option<i64>,
    ) -> ChainHead {
        if !head.has_valid_mac(&self.key, log) {
            return head;
        }
        let retention_seconds = retention_seconds.or(head.retention_seconds);
        let mut closed = ChainHead { retention_seconds, ..head };
        closed.mac = closed.compute_mac(&self.key, log);
        closed
    }
}

/// Signs heads of chains. It gives no other access to the key.
#[derive(Debug, Clone)]
pub struct HeadSigner(Arc<AuditKey>);

impl HeadSigner {
    /// The head of a chain after new records.
    ///
    /// An altered head is continued, so that an attacker cannot stop the vault with it. But the new
    /// head gets no valid MAC either, so verification always finds the alteration.
    pub fn head(
        &self,
        log: LogKind,
        tenant: TenantId,
        previous: Option<&ChainHead>,
        tip: ChainTip,
    ) -> ChainHead {
        let retention_seconds = previous.and_then(|it| it.retention_seconds);
        let ChainTip { sequence, at, link } = tip;
        let mut head = ChainHead { tenant, sequence, at, link, retention_seconds, mac: NO_LINK };
        if previous.is_none_or(|it| it.has_valid_mac(&self.0, log)) {
            head.mac = head.compute_mac(&self.0, log);
        }
        head
    }
}

impl LogRow<'_> {
    /// Whether the record has the link that it must have after a record with `previous_link`. A key
    /// that was replaced may have signed it: the head of the chain proves that the links are current.
    pub fn has_valid_link(&self, key: &AuditKey, log: LogKind, previous_link: Mac) -> bool {
        key.verifies_with_any(&self.link_place(log, previous_link), &self.link)
    }

    /// The input of a link after a record with `previous_link`.
    ///
    /// A record without a detail has the link that it had before details existed, so that older
    /// chains stay valid. The detail is the last part: a record with one has one part more.
    fn link_place(&self, log: LogKind, previous_link: Mac) -> Place {
        let actor = self.actor.as_ref().map(|it| it.0.as_bytes().as_slice());
        let place = Place::new("audit.record")
            .text(log.as_str())
            .bytes(self.tenant.0.as_bytes())
            .number(self.sequence)
            .bytes(&previous_link.0)
            .number(self.at.unix_ms)
            .text(self.actor_kind)
            .optional_bytes(actor)
            .text(self.operation)
            .text(self.entity)
            .text(self.outcome)
            .text(self.trace)
            .text(self.address)
            .optional_bytes(self.api_key.as_ref().map(|it| it.0.as_bytes().as_slice()))
            .optional_bytes(self.os_user.map(str::as_bytes))
            .optional_number(self.repeats);
        match self.detail {
            Some(detail) => place.text(detail),
            None => place,
        }
    }

    pub fn to_record(&self) -> LogRecord {
        self.map_texts(|it| (*it).to_owned())
    }
}

impl LogRecord {
    /// Whether an operator's command wrote the record, not a server.
    pub fn is_from_command(&self) -> bool {
        self.actor_kind == Actor::Operator.columns().0
    }

    pub fn to_row(&self) -> LogRow<'_> {
        self.map_texts(String::as_str)
    }
}

impl ChainHead {
    /// Creates a replacement for a lost head. The chain continues after this record, and its heads
    /// never get a valid MAC again.
    pub fn placeholder(tenant: TenantId, sequence: i64, link: Option<Mac>) -> Self {
        let (at, link) = (Timestamp { unix_ms: 0 }, link.unwrap_or(NO_LINK));
        Self { tenant, sequence, at, link, retention_seconds: None, mac: NO_LINK }
    }

    pub fn has_valid_mac(&self, key: &AuditKey, log: LogKind) -> bool {
        key.verifies(&self.mac_place(log), &self.mac)
    }

    pub(super) fn compute_mac(&self, key: &AuditKey, log: LogKind) -> Mac {
        key.mac(&self.mac_place(log))
    }

    fn mac_place(&self, log: LogKind) -> Place {
        Place::new("audit.head")
            .text(log.as_str())
            .bytes(self.tenant.0.as_bytes())
            .number(self.sequence)
            .number(self.at.unix_ms)
            .bytes(&self.link.0)
            .optional_number(self.retention_seconds)
    }
}

impl Checkpoint {
    pub fn has_valid_mac(&self, key: &AuditKey, log: LogKind) -> bool {
        key.verifies(&self.mac_place(log), &self.mac)
    }

    pub(super) fn compute_mac(&self, key: &AuditKey, log: LogKind) -> Mac {
        key.mac(&self.mac_place(log))
    }

    fn mac_place(&self, log: LogKind) -> Place {
        Place::new("audit.checkpoint")
            .text(log.as_str())
            .bytes(self.tenant.0.as_bytes())
            .number(self.sequence)
            .bytes(&self.link.0)
            .number(self.at.unix_ms)
    }
}
