//! The hash chain that a transaction extends. New records and the new head are written together,
//! before the commit.

use scrip_core::{
    audit::{AuditRecord, ChainHead, ChainTip, LogKind, LogRow, RecordSubject},
    types::{StoreError, id::TenantId},
};
use tokio_postgres::Row;

use crate::{
    postgres::engine::{statement::RowStatement, tenant_lock::TenantLog},
    shared::log::{decode_head, log_row_parameters, report_lost_head},
    sql::{ColumnReader, Statements, parameters, read_required},
};

/// The records that a transaction will append to a chain.
#[derive(Debug)]
pub(crate) struct PendingChain {
    previous: PreviousHead,
    records: Vec<PendingRecord>,
    /// The final record of a deleted tenant, and the retention of its chain in seconds.
    final_record: Option<(AuditRecord, Option<i64>)>,
}

/// The head of the chain before the transaction.
#[derive(Debug)]
enum PreviousHead {
    /// `None` for an empty chain.
    Head(Option<ChainHead>),
    /// Missing, unreadable or outdated.
    Lost,
}

/// A record without a sequence number.
#[derive(Debug)]
struct PendingRecord {
    audit: AuditRecord,
    entity: String,
    outcome: &'static str,
}

/// Reads the head of a chain. Always returns one row. Its last columns are the versions of the
/// tenant's sealing key; the first of them is NULL if the tenant does not exist.
pub(crate) const OPEN_CHAIN: &str = "
-- open_chain
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac,
    (SELECT max(sequence) FROM log_records WHERE tenant = $1 AND log = $2),
    EXISTS (SELECT 1 FROM chain_checkpoints WHERE tenant = $1 AND log = $2),
    (SELECT coalesce(sealing_version, 0) FROM tenants WHERE id = $1),
    (SELECT min(version) FROM tenant_keys WHERE tenant = $1)
FROM (SELECT 1) AS single_row LEFT JOIN chain_heads AS it ON it.tenant = $1 AND it.log = $2";

impl PendingChain {
    pub(crate) fn from_row(row: &Row) -> Self {
        let last_sequence: Option<i64> = row.try_get(6).unwrap_or(Some(i64::MAX));
        let was_pruned = row.try_get(7).unwrap_or(true);
        let has_head = row.try_get::<_, Option<i64>>(1).map_or(true, |it| it.is_some());
        let previous = match decode_head(row) {
            Ok(head)
                if head.sequence < i64::MAX
                    && last_sequence.is_none_or(|it| it <= head.sequence) =>
            {
                PreviousHead::Head(Some(head))
            }
            Err(_) if !has_head && last_sequence.is_none() && !was_pruned => {
                PreviousHead::Head(None)
            }
            Ok(_) | Err(_) => PreviousHead::Lost,
        };
        Self { previous, records: Vec::new(), final_record: None }
    }

    pub(crate) fn append(&mut self, audit: &AuditRecord, subject: RecordSubject<'_>) {
        let RecordSubject { entity, outcome, .. } = subject;
        self.records.push(PendingRecord {
            audit: audit.clone(),
            entity: entity.to_owned(),
            outcome,
        });
    }

    pub(crate) fn record_count(&self) -> usize {
        self.records.len()
    }

    /// Drops the records after the given count, because their savepoint was rolled back.
    pub(crate) fn truncate(&mut self, record_count: usize) {
        self.records.truncate(record_count);
    }

    /// Adds the final record of a deleted tenant and sets the retention of its chain.
    pub(crate) fn set_final_record(&mut self, audit: &AuditRecord, retention_seconds: Option<i64>) {
        self.final_record = Some((audit.clone(), retention_seconds));
    }

    /// Replaces a lost head by a placeholder, so that the chain continues after its last record.
    pub(crate) async fn recover_lost_head(
        &mut self,
        client: &impl Statements,
        tenant_log: TenantLog,
    ) -> Result<(), StoreError> {
        if self.records.is_empty() || matches!(self.previous, PreviousHead::Head(_)) {
            return Ok(());
        }
        let TenantLog { log, tenant } = tenant_log;
        let decode_position =
            |row: &dyn ColumnReader| Ok((read_required(row, 0).ok(), read_required(row, 1).ok()));
        let key = parameters![tenant, log.as_str()];
        let (sequence, link) = client
            .find(FIND_LAST_RECORD_BEFORE_GAP, &key, decode_position)
            .await?
            .unwrap_or_default();
        self.previous =
            PreviousHead::Head(Some(report_lost_head(tenant, sequence.unwrap_or(0), link)));
        Ok(())
    }

    /// Numbers the records and computes the head after them.
    pub(crate) fn chain_rows(&self, tenant_log: TenantLog) -> ChainRows<'_> {
        let TenantLog { log, tenant } = tenant_log;
        let previous_head = match &self.previous {
            PreviousHead::Head(head) => head.as_ref(),
            PreviousHead::Lost => None,
        };
        let mut tip = ChainTip::from_head(previous_head);
        let mut rows = Vec::with_capacity(self.records.len());
        for PendingRecord { audit, entity, outcome } in &self.records {
            rows.push(
                audit.link_to_chain(&mut tip, RecordSubject { log, tenant, entity, outcome }),
            );
        }
        let head = self.records.last().map(|last_record| {
            let head = last_record.audit.head_signer().head(log, tenant, previous_head, tip);
            match &self.final_record {
                Some((audit, retention_seconds)) => {
                    audit.close_chain(head, log, *retention_seconds)
                }
                None => head,
            }
        });
        ChainRows { log, tenant, head, rows }
    }
}

/// Finds the last record with a free number after it, because an attacker may have used the highest
/// number. If no record is left, finds the position of the checkpoint.
const FIND_LAST_RECORD_BEFORE_GAP: &str = "
-- find_last_record_before_gap
(SELECT sequence, link FROM log_records AS it
WHERE tenant = $1 AND log = $2 AND sequence < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM log_records WHERE tenant = $1 AND log = $2
        AND sequence = it.sequence + 1)
ORDER BY sequence DESC LIMIT 1)
UNION ALL
    SELECT sequence, link FROM chain_checkpoints
WHERE tenant = $1 AND log = $2 AND sequence < 9223372036854775807
ORDER BY sequence DESC LIMIT 1";

/// The records and the head that one transaction writes.
pub(crate) struct ChainRows<'a> {
    log: LogKind,
    tenant: TenantId,
    head: Option<ChainHead>,
    rows: Vec<LogRow<'a>>,
}

pub(crate) const INSERT_RECORDS: &str = "
-- insert_records
INSERT INTO log_records (tenant, log, sequence, at, actor_kind, actor, operation, entity, outcome,
    trace, address, api_key, os_user, repeats, detail, link)
    SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::uuid[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::uuid[], $13::text[], $14::bigint[],
    $15::text[], $16::bytea[])";

pub(crate) const PUT_HEAD: &str = "
-- put_head
INSERT INTO chain_heads (tenant, log, sequence, at, link, retention_seconds, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, log) DO UPDATE
SET sequence = $3, at = $4, link = $5, retention_seconds = $6, mac = $7";

impl ChainRows<'_> {
    pub(crate) fn statements(&self) -> Vec<RowStatement<'_>> {
        let Some(head) = &self.head else { return Vec::new() };
        let (tenant, log) = (self.tenant, self.log.as_str());
        let rows = self.rows.iter().map(|it| {
            let [_, columns @ ..] = log_row_parameters(it);
            columns
        });
        let ChainHead { sequence, at, link, retention_seconds, mac, .. } = head;
        let head = parameters![tenant, log, *sequence, *at, link, *retention_seconds, mac];
        vec![
            RowStatement::new(INSERT_RECORDS, parameters![tenant, log]).columns(rows),
            RowStatement::new(PUT_HEAD, head),
        ]
    }
}
