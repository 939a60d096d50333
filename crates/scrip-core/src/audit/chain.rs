//! The chains that records are links of: one for each tenant and log.
//!
//! Every record has a number, without gaps, and a mac over all of its columns and the mac of the
//! one before it. Beside the records stands the head of each chain, with a mac of its own: else
//! whoever removes the last records would only have to say that the one before was the last.
//! What was pruned leaves a checkpoint, from which the rest goes on. An engine stores what is made
//! here, and never has the key.

use std::sync::Arc;

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::AuditRecord,
    id::{ApiKeyId, ApplicationId, TenantId},
    policy::Actor,
    time::Timestamp,
};

words! {
    /// Which of the two.
    pub enum LogKind {
        /// What was changed: beside the data, in the transaction of the change.
        Audit = "audit",
        /// What was seen, and what was refused: apart, so that no read waits for a writer.
        Read = "access",
    }
}

impl Actor {
    /// The kind, and who of that kind where there are many.
    #[must_use]
    pub fn columns(self) -> (&'static str, Option<ApplicationId>) {
        match self {
            Self::Application(id) => ("application", Some(id)),
            Self::Operator => ("operator", None),
            Self::Vault => ("vault", None),
            Self::Unauthenticated => ("outsider", None),
        }
    }
}

/// A record as it is stored: its columns as they are, whatever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogColumns<T> {
    pub tenant: TenantId,
    /// From 1.
    pub sequence: i64,
    pub at: Timestamp,
    pub actor_kind: T,
    pub actor: Option<ApplicationId>,
    pub operation: T,
    /// Nothing where there is none to name.
    pub entity: T,
    pub outcome: T,
    /// Nothing for whoever asked no server.
    pub trace: T,
    pub address: T,
    /// The API key that authenticated the request.
    pub api_key: Option<ApiKeyId>,
    /// The operating-system user who ran the command.
    pub os_user: Option<T>,
    /// How many events the record stands for; absent in the record of a single one.
    pub repeats: Option<i64>,
    pub link: Mac,
}

pub type LogRow<'a> = LogColumns<&'a str>;

/// The same, to keep.
pub type LogRecord = LogColumns<String>;

impl<T> LogColumns<T> {
    fn with_texts<'a, U>(&'a self, text: impl Fn(&'a T) -> U) -> LogColumns<U> {
        LogColumns {
            tenant: self.tenant,
            sequence: self.sequence,
            at: self.at,
            actor_kind: text(&self.actor_kind),
            actor: self.actor,
            operation: text(&self.operation),
            entity: text(&self.entity),
            outcome: text(&self.outcome),
            trace: text(&self.trace),
            address: text(&self.address),
            api_key: self.api_key,
            os_user: self.os_user.as_ref().map(text),
            repeats: self.repeats,
            link: self.link,
        }
    }
}

/// Where a chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    pub tenant: TenantId,
    /// Of the last record.
    pub sequence: i64,
    pub at: Timestamp,
    pub link: Mac,
    /// How long the records of a deleted tenant are kept: what its quota said at the end. Only in
    /// the audit log, for both.
    pub retention_seconds: Option<i64>,
    pub mac: Mac,
}

/// Up to where a chain was pruned, when, and the link of the last record that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    pub tenant: TenantId,
    pub sequence: i64,
    pub link: Mac,
    pub at: Timestamp,
    pub mac: Mac,
}

/// A chain as the store knows it without reading it through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    pub head: ChainHead,
    /// When its first record was made that is still there: by its own word or, when a command wrote
    /// that, by the first that a server wrote, if that is earlier.
    pub oldest_at: Option<Timestamp>,
}

/// What a new record is about.
#[derive(Debug, Clone, Copy)]
pub struct RecordSubject<'a> {
    pub log: LogKind,
    pub tenant: TenantId,
    pub entity: &'a str,
    pub outcome: &'static str,
}

/// Before the first record there is no link.
pub(crate) const NO_LINK: Mac = Mac([0; 32]);

/// Where a chain goes on.
#[derive(Debug, Clone, Copy)]
pub struct ChainTip {
    sequence: i64,
    at: Timestamp,
    link: Mac,
}

impl ChainTip {
    #[must_use]
    pub fn from_head(head: Option<&ChainHead>) -> Self {
        let first = Self { sequence: 0, at: Timestamp { unix_ms: 0 }, link: NO_LINK };
        head.map_or(first, |it| Self { sequence: it.sequence, at: it.at, link: it.link })
    }
}

impl AuditRecord {
    /// The next record of a chain. It is to be written together with the head that the chain has
    /// when all are: [`HeadSigner::head`].
    #[must_use]
    pub fn link_to_chain<'a>(&'a self, tip: &mut ChainTip, entry: RecordSubject<'a>) -> LogRow<'a> {
        let RecordSubject { log, tenant, entity, outcome } = entry;
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
            link: NO_LINK,
        };
        row.link = row.compute_link(&self.key, log, tip.link);
        *tip = ChainTip { sequence: row.sequence, at: row.at, link: row.link };
        row
    }

    /// For whoever writes the records of many, and one head behind them.
    #[must_use]
    pub fn head_signer(&self) -> HeadSigner {
        HeadSigner(Arc::clone(&self.key))
    }

    /// The head of a chain whose tenant ends with this record.
    #[must_use]
    pub fn close_chain(
        &self,
        head: ChainHead,
        log: LogKind,
        retention_seconds: Option<i64>,
    ) -> ChainHead {
        if !head.has_valid_mac(&self.key, log) {
            return head;
        }
        let mut closed = ChainHead { retention_seconds, ..head };
        closed.mac = closed.compute_mac(&self.key, log);
        closed
    }
}

/// Makes heads of chains, and can do nothing else with the key.
#[derive(Debug, Clone)]
pub struct HeadSigner(Arc<AuditKey>);

impl HeadSigner {
    /// The head of a chain that has come so far.
    ///
    /// A head that somebody altered is followed, for nobody must be able to stop a vault by it; but
    /// what follows is no more ours than it was, and verifying finds it for ever.
    #[must_use]
    pub fn head(
        &self,
        log: LogKind,
        tenant: TenantId,
        before: Option<&ChainHead>,
        tip: ChainTip,
    ) -> ChainHead {
        let retention_seconds = before.and_then(|it| it.retention_seconds);
        let ChainTip { sequence: n, at, link } = tip;
        let mut head = ChainHead { tenant, sequence: n, at, link, retention_seconds, mac: NO_LINK };
        if before.is_none_or(|it| it.has_valid_mac(&self.0, log)) {
            head.mac = head.compute_mac(&self.0, log);
        }
        head
    }
}

impl LogRow<'_> {
    /// What its link has to be.
    #[must_use]
    pub fn compute_link(&self, key: &AuditKey, log: LogKind, before: Mac) -> Mac {
        let actor = self.actor.as_ref().map(|it| it.0.as_bytes().as_slice());
        let place = Place::new("audit.record")
            .text(log.as_str())
            .bytes(self.tenant.0.as_bytes())
            .number(self.sequence)
            .bytes(&before.0)
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
        key.mac(&place)
    }

    #[must_use]
    pub fn to_record(&self) -> LogRecord {
        self.with_texts(|it| (*it).to_owned())
    }
}

impl LogRecord {
    /// Whether an operator's command wrote it, and no server.
    #[must_use]
    pub fn is_from_command(&self) -> bool {
        self.actor_kind == Actor::Operator.columns().0
    }

    #[must_use]
    pub fn as_row(&self) -> LogRow<'_> {
        self.with_texts(String::as_str)
    }
}

impl ChainHead {
    /// In the place of one that is lost: a chain goes on behind this record, and no head of it is
    /// ours again.
    #[must_use]
    pub fn placeholder(tenant: TenantId, sequence: i64, link: Option<Mac>) -> Self {
        let (at, link) = (Timestamp { unix_ms: 0 }, link.unwrap_or(NO_LINK));
        Self { tenant, sequence, at, link, retention_seconds: None, mac: NO_LINK }
    }

    #[must_use]
    pub fn has_valid_mac(&self, key: &AuditKey, log: LogKind) -> bool {
        self.mac.constant_time_eq(&self.compute_mac(key, log))
    }

    fn compute_mac(&self, key: &AuditKey, log: LogKind) -> Mac {
        let place = Place::new("audit.head")
            .text(log.as_str())
            .bytes(self.tenant.0.as_bytes())
            .number(self.sequence)
            .number(self.at.unix_ms)
            .bytes(&self.link.0)
            .optional_number(self.retention_seconds);
        key.mac(&place)
    }
}

impl Checkpoint {
    #[must_use]
    pub fn has_valid_mac(&self, key: &AuditKey, log: LogKind) -> bool {
        self.mac.constant_time_eq(&self.compute_mac(key, log))
    }

    fn compute_mac(&self, key: &AuditKey, log: LogKind) -> Mac {
        let place = Place::new("audit.checkpoint")
            .text(log.as_str())
            .bytes(self.tenant.0.as_bytes())
            .number(self.sequence)
            .bytes(&self.link.0)
            .number(self.at.unix_ms);
        key.mac(&place)
    }
}

/// What may be pruned of one chain, decided where the rows are read that it would remove.
#[derive(Debug, Clone)]
pub struct PruneChain {
    pub log: LogKind,
    pub tenant: TenantId,
    /// Records from before this.
    pub(crate) before: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) key: Arc<AuditKey>,
}

/// Why a chain is not pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenChain;

impl PruneChain {
    /// How many of these, at the front. A command has the clock of its machine, which may be far
    /// ahead; what a server wrote behind it was written later, and its time is believed.
    fn due_count(&self, records: &[LogRecord]) -> usize {
        let mut due = 0_usize;
        for (before, record) in records.iter().enumerate() {
            let is_due = record.at < self.before;
            if is_due && (due == before || !record.is_from_command()) {
                due = before.saturating_add(1);
            } else if !is_due && !record.is_from_command() {
                break;
            }
        }
        due
    }

    /// The checkpoint up to which these records, the first ones that the chain has, may be removed;
    /// nothing when the first of them stays. Only ever a stretch at the front.
    ///
    /// # Errors
    /// They do not follow from the checkpoint that is there, or are not as they were written: to
    /// remove and sign them would hide it.
    pub fn checkpoint(
        &self,
        before: Option<&Checkpoint>,
        records: &[LogRecord],
    ) -> Result<Option<Checkpoint>, BrokenChain> {
        if before
            .is_some_and(|it| it.tenant != self.tenant || !it.has_valid_mac(&self.key, self.log))
        {
            return Err(BrokenChain);
        }
        let (mut n, mut link) = before.map_or((0, NO_LINK), |it| (it.sequence, it.link));
        let first = n;
        for record in records.iter().take(self.due_count(records)) {
            let row = record.as_row();
            let follows = row.tenant == self.tenant && n.checked_add(1) == Some(row.sequence);
            if !follows || !row.link.constant_time_eq(&row.compute_link(&self.key, self.log, link))
            {
                return Err(BrokenChain);
            }
            (n, link) = (row.sequence, row.link);
        }
        if n == first {
            return Ok(None);
        }
        let mut created =
            Checkpoint { tenant: self.tenant, sequence: n, link, at: self.at, mac: NO_LINK };
        created.mac = created.compute_mac(&self.key, self.log);
        Ok(Some(created))
    }
}
