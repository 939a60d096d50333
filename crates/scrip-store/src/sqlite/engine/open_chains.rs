//! The hash chains that a transaction extends. Records are written immediately; each head is
//! written once, before the commit.

use std::collections::HashMap;

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, ChainHead, ChainTip, HeadSigner, LogKind, LogRow, RecordSubject},
    types::{StoreError, id::TenantId},
};
use scrip_seal::Mac;

use crate::{
    shared::log::{SQLITE_LOG, decode_head, log_row_parameters, report_lost_head},
    sql::{ColumnReader, Statements, parameters, read_required, run_sync_future},
    sqlite::engine::statement::{put_or_report, try_insert_unique},
};

/// The chains that the transaction has changed.
#[derive(Debug, Default)]
pub(crate) struct OpenChains {
    chains: HashMap<TenantId, OpenChain>,
    /// The state of a chain before each change; `None` if it was not open.
    changes: Vec<(TenantId, Option<OpenChain>)>,
}

/// The head before the transaction, and the current tip.
#[derive(Debug, Clone)]
struct OpenChain {
    log: LogKind,
    previous_head: Option<ChainHead>,
    tip: ChainTip,
    signer: HeadSigner,
}

impl OpenChains {
    /// Appends a record to the chain of its tenant.
    pub(crate) fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        subject: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        let mut chain = match self.chains.get(&subject.tenant) {
            Some(chain) => chain.clone(),
            None => OpenChain::open(connection, audit, subject)?,
        };
        chain.append(connection, audit, subject)?;
        self.replace(subject.tenant, chain);
        Ok(())
    }

    /// Sets the retention in the head of a deleted tenant's chain. The final record is appended before.
    pub(crate) fn set_tenant_end(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        retention_seconds: Option<i64>,
    ) {
        if let Some(chain) = self.chains.get(&tenant) {
            let head = audit.close_chain(chain.head(tenant), chain.log, retention_seconds);
            let closed_chain = OpenChain { previous_head: Some(head), ..chain.clone() };
            self.replace(tenant, closed_chain);
        }
    }

    fn replace(&mut self, tenant: TenantId, chain: OpenChain) {
        let previous = self.chains.insert(tenant, chain);
        self.changes.push((tenant, previous));
    }

    /// Returns the number of changes so far. A savepoint passes it to [`Self::roll_back_to`].
    pub(crate) fn change_count(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn roll_back_to(&mut self, change_count: usize) {
        while self.changes.len() > change_count
            && let Some((tenant, previous)) = self.changes.pop()
        {
            match previous {
                Some(chain) => self.chains.insert(tenant, chain),
                None => self.chains.remove(&tenant),
            };
        }
    }

    pub(crate) fn put_heads(&self, connection: &Connection) -> Result<(), StoreError> {
        self.chains.iter().try_for_each(|(tenant, it)| put_head(connection, &it.head(*tenant)))
    }
}

impl OpenChain {
    fn open(
        connection: &Connection,
        audit: &AuditRecord,
        RecordSubject { log, tenant, .. }: RecordSubject<'_>,
    ) -> Result<Self, StoreError> {
        let previous_head = match find_head(connection, tenant) {
            Ok(Some(head)) if head.sequence < i64::MAX => Some(head),
            // No head and no records: a new chain.
            Ok(None) if !has_records(connection, tenant)? => None,
            // The head was deleted, is damaged, or has the highest number.
            Ok(_) | Err(StoreError::Corrupt(_)) => Some(recover_head(connection, tenant)?),
            Err(
                error @ (StoreError::Busy
                | StoreError::AlreadyCompleted
                | StoreError::Unavailable(_)),
            ) => {
                return Err(error);
            }
        };
        let (tip, signer) = (ChainTip::from_head(previous_head.as_ref()), audit.head_signer());
        Ok(Self { log, previous_head, tip, signer })
    }

    /// Appends a record. No other transaction writes at the same time, so a number that is taken
    /// means that the head was set back. Then the record is appended after the last one.
    fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        subject: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        if insert_record(connection, &audit.link_to_chain(&mut self.tip, subject))? {
            return Ok(());
        }
        let recovered_head = recover_head(connection, subject.tenant)?;
        (self.previous_head, self.tip) =
            (Some(recovered_head), ChainTip::from_head(Some(&recovered_head)));
        if insert_record(connection, &audit.link_to_chain(&mut self.tip, subject))? {
            return Ok(());
        }
        Err(StoreError::Corrupt("the chain has no free sequence number"))
    }

    fn head(&self, tenant: TenantId) -> ChainHead {
        self.signer.head(self.log, tenant, self.previous_head.as_ref(), self.tip)
    }
}

const HAS_RECORDS: &str = "
-- has_records
SELECT 1 WHERE EXISTS (SELECT 1 FROM log_records WHERE tenant = $1)
    OR EXISTS (SELECT 1 FROM chain_checkpoints WHERE tenant = $1)";

fn has_records(connection: &Connection, tenant: TenantId) -> Result<bool, StoreError> {
    let row = run_sync_future(connection.find(HAS_RECORDS, &parameters![tenant], |_| Ok(())))?;
    Ok(row.is_some())
}

/// Finds the last record with a free number after it, because an attacker may have used the highest
/// number.
const FIND_LAST_RECORD_BEFORE_GAP: &str = "
-- find_last_record_before_gap
SELECT sequence, link FROM log_records AS it WHERE tenant = $1 AND sequence < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM log_records WHERE tenant = $1 AND sequence = it.sequence + 1)
ORDER BY sequence DESC LIMIT 1";
/// Finds the position of the checkpoint, if no record is left.
const FIND_CHECKPOINT_END: &str = "
-- find_checkpoint_end
SELECT sequence, link FROM chain_checkpoints WHERE tenant = $1 AND sequence < 9223372036854775807";

/// Creates a placeholder for a lost head, so that the chain continues after its last record.
fn recover_head(connection: &Connection, tenant: TenantId) -> Result<ChainHead, StoreError> {
    let decode_position =
        |row: &dyn ColumnReader| Ok((read_required(row, 0)?, read_required::<Mac>(row, 1).ok()));
    let find = |sql| run_sync_future(connection.find(sql, &parameters![tenant], decode_position));
    let last_position = match find(FIND_LAST_RECORD_BEFORE_GAP)? {
        None => find(FIND_CHECKPOINT_END)?,
        found => found,
    };
    let (sequence, link) = last_position.unwrap_or((0, None));
    Ok(report_lost_head(tenant, sequence, link))
}

const INSERT_RECORD: &str = "
-- insert_record
INSERT INTO log_records (tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace,
    address, api_key, os_user, repeats, detail, link)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

/// Returns whether the number was free.
fn insert_record(connection: &Connection, row: &LogRow<'_>) -> Result<bool, StoreError> {
    try_insert_unique(connection, INSERT_RECORD, &log_row_parameters(row))
}

fn find_head(connection: &Connection, tenant: TenantId) -> Result<Option<ChainHead>, StoreError> {
    run_sync_future(connection.find(&SQLITE_LOG.find_head, &parameters![tenant], decode_head))
}

const PUT_HEAD: &str = "
-- put_head
INSERT INTO chain_heads (tenant, sequence, at, link, retention_seconds, mac)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant) DO UPDATE SET sequence = $2, at = $3, link = $4, retention_seconds = $5, mac = $6";

fn put_head(connection: &Connection, head: &ChainHead) -> Result<(), StoreError> {
    let ChainHead { tenant, sequence, at, link, retention_seconds, mac } = head;
    let row = parameters![*tenant, *sequence, *at, link, *retention_seconds, mac];
    // If the head is not written, verification detects records after the old head.
    put_or_report(connection, PUT_HEAD, &row, || {
        tracing::error!(%tenant, "chain head cannot be written; run: scrip audit verify");
    })
}
