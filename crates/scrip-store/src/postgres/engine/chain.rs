//! The chain that a transaction goes on with. Its records and its head are written together, before
//! the commit.

use deadpool_postgres::Object;
use scrip_core::{
    audit::{AuditRecord, ChainHead, ChainTip, LogKind, LogRow, RecordSubject},
    id::TenantId,
    store::StoreError,
};
use tokio_postgres::{Row, Statement};

use crate::{
    postgres::engine::{
        columns::ColumnArrays, error::store_error, statement::SqlValue, tenant_lock::TenantLog,
    },
    shared::audit::log::{decode_head, log_row_parameters, report_lost_head},
    sql::{ColumnReader, Statements, parameters, required},
};

#[derive(Debug)]
pub(crate) struct PendingChain {
    previous: PreviousHead,
    records: Vec<PendingRecord>,
    /// The last record of a tenant, and how long the chain is then kept.
    final_record: Option<(AuditRecord, Option<i64>)>,
}

#[derive(Debug)]
enum PreviousHead {
    /// A chain without a record has none.
    Head(Option<ChainHead>),
    /// Missing, unreadable or of another time.
    Lost,
}

/// A record that has no number yet.
#[derive(Debug)]
struct PendingRecord {
    audit: AuditRecord,
    entity: String,
    outcome: &'static str,
}

/// Always one row, at whose end stands whether the tenant is there.
pub(crate) const OPEN_CHAIN: &str = "
-- open_chain
SELECT it.tenant, it.n, it.at, it.link, it.retention_seconds, it.mac,
    (SELECT max(n) FROM records WHERE tenant = $1 AND log = $2),
    EXISTS (SELECT 1 FROM checkpoints WHERE tenant = $1 AND log = $2),
    EXISTS (SELECT 1 FROM tenants WHERE id = $1)
FROM (SELECT 1) AS one LEFT JOIN heads AS it ON it.tenant = $1 AND it.log = $2";

impl PendingChain {
    pub(crate) fn from_row(row: &Row) -> Self {
        let last: Option<i64> = row.try_get(6).unwrap_or(Some(i64::MAX));
        let was_pruned = row.try_get(7).unwrap_or(true);
        let is_there = row.try_get::<_, Option<i64>>(1).map_or(true, |it| it.is_some());
        let before = match decode_head(row) {
            Ok(head) if head.sequence < i64::MAX && last.is_none_or(|it| it <= head.sequence) => {
                PreviousHead::Head(Some(head))
            }
            Err(_) if !is_there && last.is_none() && !was_pruned => PreviousHead::Head(None),
            Ok(_) | Err(_) => PreviousHead::Lost,
        };
        Self { previous: before, records: Vec::new(), final_record: None }
    }

    pub(crate) fn append(&mut self, audit: &AuditRecord, entry: RecordSubject<'_>) {
        let RecordSubject { entity, outcome, .. } = entry;
        self.records.push(PendingRecord {
            audit: audit.clone(),
            entity: entity.to_owned(),
            outcome,
        });
    }

    pub(crate) fn record_count(&self) -> usize {
        self.records.len()
    }

    /// What was appended behind so many was taken back.
    pub(crate) fn truncate(&mut self, records: usize) {
        self.records.truncate(records);
    }

    /// With the last record of a tenant, whose chain is then kept for so long.
    pub(crate) fn set_final_record(&mut self, audit: &AuditRecord, retention_seconds: Option<i64>) {
        self.final_record = Some((audit.clone(), retention_seconds));
    }

    /// Where the head is lost, the chain goes on behind its last record.
    pub(crate) async fn recover_lost_head(
        &mut self,
        client: &impl Statements,
        tenant_log: TenantLog,
    ) -> Result<(), StoreError> {
        if self.records.is_empty() || matches!(self.previous, PreviousHead::Head(_)) {
            return Ok(());
        }
        let TenantLog { log, tenant } = tenant_log;
        let last = |row: &dyn ColumnReader| Ok((required(row, 0).ok(), required(row, 1).ok()));
        let key = parameters![tenant, log.as_str()];
        let (n, link) = client.find(FIND_LAST_FREE_NUMBER, &key, last).await?.unwrap_or_default();
        self.previous = PreviousHead::Head(Some(report_lost_head(tenant, n.unwrap_or(0), link)));
        Ok(())
    }

    /// The records with their numbers, and the head behind them.
    pub(crate) fn chain_rows(&self, tenant_log: TenantLog) -> ChainRows<'_> {
        let TenantLog { log, tenant } = tenant_log;
        let before = match &self.previous {
            PreviousHead::Head(head) => head.as_ref(),
            PreviousHead::Lost => None,
        };
        let mut tip = ChainTip::from_head(before);
        let mut rows = Vec::with_capacity(self.records.len());
        for PendingRecord { audit, entity, outcome } in &self.records {
            rows.push(
                audit.link_to_chain(&mut tip, RecordSubject { log, tenant, entity, outcome }),
            );
        }
        let head = self.records.last().map(|last| {
            let head = last.audit.head_signer().head(log, tenant, before, tip);
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

/// The last record that has a free number behind it: somebody may have used up the highest. Where
/// no record is left, what the checkpoint says.
const FIND_LAST_FREE_NUMBER: &str = "
-- find_free
(SELECT n, link FROM records AS it
WHERE tenant = $1 AND log = $2 AND n < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM records WHERE tenant = $1 AND log = $2 AND n = it.n + 1)
ORDER BY n DESC LIMIT 1)
UNION ALL
    SELECT n, link FROM checkpoints
WHERE tenant = $1 AND log = $2 AND n < 9223372036854775807
ORDER BY n DESC LIMIT 1";

/// Columns of the records of one transaction.
pub(crate) struct ChainRows<'a> {
    log: LogKind,
    tenant: TenantId,
    head: Option<ChainHead>,
    rows: Vec<LogRow<'a>>,
}

pub(crate) const INSERT_RECORDS: &str = "
-- insert_records
INSERT INTO records (tenant, log, n, at, actor_kind, actor, operation, entity, outcome, trace,
    address, api_key, os_user, repeats, link)
    SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::uuid[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::uuid[], $13::text[], $14::bigint[],
    $15::bytea[])";

pub(crate) const PUT_HEAD: &str = "
-- put_head
INSERT INTO heads (tenant, log, n, at, link, retention_seconds, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, log) DO UPDATE
SET n = $3, at = $4, link = $5, retention_seconds = $6, mac = $7";

impl ChainRows<'_> {
    pub(crate) async fn prepare(&self, client: &Object) -> Result<[Statement; 2], StoreError> {
        let records = client.prepare_cached(INSERT_RECORDS).await.map_err(store_error)?;
        let head = client.prepare_cached(PUT_HEAD).await.map_err(store_error)?;
        Ok([records, head])
    }

    /// Both are sent before either is answered.
    pub(crate) async fn put(
        &self,
        client: &Object,
        [records, put_head]: [Statement; 2],
    ) -> Result<(), StoreError> {
        let Some(head) = &self.head else { return Ok(()) };
        let (tenant, log) = (self.tenant.0, self.log.as_str());
        let rows = ColumnArrays::from_rows(self.rows.iter().map(log_row_parameters));
        let insert = async {
            let key: [SqlValue<'_>; 2] = [&tenant, &log];
            let columns: Vec<_> = key.into_iter().chain(rows.raw().skip(1)).collect();
            client.execute(&records, &columns).await
        };
        let ChainHead { retention_seconds, .. } = head;
        let (head_link, mac) = (head.link.0.as_slice(), head.mac.0.as_slice());
        let put = async {
            let columns: [SqlValue<'_>; 7] = [
                &tenant,
                &log,
                &head.sequence,
                &head.at.unix_ms,
                &head_link,
                retention_seconds,
                &mac,
            ];
            client.execute(&put_head, &columns).await
        };
        tokio::try_join!(biased; insert, put).map(drop).map_err(store_error)
    }
}
