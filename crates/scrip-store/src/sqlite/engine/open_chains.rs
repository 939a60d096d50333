//! The chains that a transaction goes on with. Their records are written at once, and their heads
//! once for all of those, before the commit.

use std::collections::HashMap;

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, ChainHead, ChainTip, HeadSigner, LogKind, LogRow, RecordSubject},
    id::TenantId,
    store::StoreError,
};
use scrip_seal::Mac;

use crate::{
    shared::audit::log::{
        decode_head, head_columns, log_row_parameters, record_columns, report_lost_head,
    },
    sql::{ColumnReader, Statements, parameters, required, run_ready},
    sqlite::engine::statement::{put_or_report, try_insert_unique},
};

#[derive(Debug, Default)]
pub(crate) struct OpenChains {
    chains: HashMap<TenantId, OpenChain>,
    /// What a chain was before each change: nothing where it was not open.
    changes: Vec<(TenantId, Option<OpenChain>)>,
}

/// Its head before the transaction, and where it has come to.
#[derive(Debug, Clone)]
struct OpenChain {
    log: LogKind,
    previous_head: Option<ChainHead>,
    tip: ChainTip,
    signer: HeadSigner,
}

impl OpenChains {
    /// One more record.
    pub(crate) fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        entry: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        let mut chain = match self.chains.get(&entry.tenant) {
            Some(open) => open.clone(),
            None => OpenChain::open(connection, audit, entry)?,
        };
        chain.append(connection, audit, entry)?;
        self.replace(entry.tenant, chain);
        Ok(())
    }

    /// With the last record of a tenant, whose chain is then kept for so long.
    pub(crate) fn set_tenant_end(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        retention_seconds: Option<i64>,
    ) {
        if let Some(open) = self.chains.get(&tenant) {
            let before = Some(audit.close_chain(open.head(tenant), open.log, retention_seconds));
            let ended = OpenChain { previous_head: before, ..open.clone() };
            self.replace(tenant, ended);
        }
    }

    fn replace(&mut self, tenant: TenantId, chain: OpenChain) {
        let before = self.chains.insert(tenant, chain);
        self.changes.push((tenant, before));
    }

    /// How many there were: up to where a savepoint takes them back.
    pub(crate) fn change_count(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn roll_back_to(&mut self, change_count: usize) {
        while self.changes.len() > change_count
            && let Some((tenant, before)) = self.changes.pop()
        {
            match before {
                Some(before) => self.chains.insert(tenant, before),
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
        let before = match find_head(connection, tenant) {
            Ok(Some(head)) if head.sequence < i64::MAX => Some(head),
            // A new chain; or somebody took its head away.
            Ok(None) if !has_records(connection, tenant)? => None,
            Ok(_) | Err(StoreError::Corrupt(_)) => Some(recover_head(connection, tenant)?),
            Err(
                error @ (StoreError::Busy
                | StoreError::AlreadyCompleted
                | StoreError::Unavailable(_)),
            ) => {
                return Err(error);
            }
        };
        let (tip, signer) = (ChainTip::from_head(before.as_ref()), audit.head_signer());
        Ok(Self { log, previous_head: before, tip, signer })
    }

    /// Nobody else writes meanwhile: whose number is taken follows a head that was put back, and
    /// goes on behind the others.
    fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        entry: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        if insert_record(connection, &audit.link_to_chain(&mut self.tip, entry))? {
            return Ok(());
        }
        let lost = recover_head(connection, entry.tenant)?;
        (self.previous_head, self.tip) = (Some(lost), ChainTip::from_head(Some(&lost)));
        if insert_record(connection, &audit.link_to_chain(&mut self.tip, entry))? {
            return Ok(());
        }
        Err(StoreError::Corrupt("a chain has no free number"))
    }

    fn head(&self, tenant: TenantId) -> ChainHead {
        self.signer.head(self.log, tenant, self.previous_head.as_ref(), self.tip)
    }
}

const HAS_RECORDS: &str = "
-- has_records
SELECT 1 WHERE EXISTS (SELECT 1 FROM audit WHERE tenant = $1)
    OR EXISTS (SELECT 1 FROM audit_checkpoints WHERE tenant = $1)";

fn has_records(connection: &Connection, tenant: TenantId) -> Result<bool, StoreError> {
    let found = run_ready(connection.find(HAS_RECORDS, &parameters![tenant], |_| Ok(())))?;
    Ok(found.is_some())
}

/// The last record that has a free number behind it: somebody may have used up the highest. Where
/// no record is left, what the checkpoint says.
const FIND_LAST_FREE_NUMBER: &str = "
-- find_free
SELECT n, link FROM audit AS it WHERE tenant = $1 AND n < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND n = it.n + 1)
ORDER BY n DESC LIMIT 1";
const FIND_CHECKPOINT_END: &str = "
-- find_pruned
SELECT n, link FROM audit_checkpoints WHERE tenant = $1 AND n < 9223372036854775807";

/// The chain goes on behind its last record.
fn recover_head(connection: &Connection, tenant: TenantId) -> Result<ChainHead, StoreError> {
    let last = |row: &dyn ColumnReader| Ok((required(row, 0)?, required::<Mac>(row, 1).ok()));
    let find = |sql| run_ready(connection.find(sql, &parameters![tenant], last));
    let last = match find(FIND_LAST_FREE_NUMBER)? {
        None => find(FIND_CHECKPOINT_END)?,
        some => some,
    };
    let (n, link) = last.unwrap_or((0, None));
    Ok(report_lost_head(tenant, n, link))
}

const INSERT_RECORD: &str = concat!(
    "-- insert_record\nINSERT INTO audit (",
    record_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
);

/// Whether its number was free.
fn insert_record(connection: &Connection, row: &LogRow<'_>) -> Result<bool, StoreError> {
    try_insert_unique(connection, INSERT_RECORD, &log_row_parameters(row))
}

const FIND_HEAD: &str = concat!(
    "-- find_head\nSELECT ",
    head_columns!(),
    " FROM audit_heads AS it WHERE it.tenant = $1"
);

fn find_head(connection: &Connection, tenant: TenantId) -> Result<Option<ChainHead>, StoreError> {
    run_ready(connection.find(FIND_HEAD, &parameters![tenant], decode_head))
}

const PUT_HEAD: &str = "
-- put_head
INSERT INTO audit_heads (tenant, n, at, link, retention_seconds, mac)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant) DO UPDATE SET n = $2, at = $3, link = $4, retention_seconds = $5, mac = $6";

fn put_head(connection: &Connection, head: &ChainHead) -> Result<(), StoreError> {
    let ChainHead { tenant, sequence: n, at, link, retention_seconds, mac } = head;
    let row = parameters![*tenant, *n, *at, link, *retention_seconds, mac];
    // Verifying finds it, for the records are there.
    put_or_report(connection, PUT_HEAD, &row, || {
        tracing::error!(%tenant, "the head of a chain of records cannot be written");
    })
}
