//! The chain that a transaction goes on with. Its records and its head are written together, before
//! the commit.

use deadpool_postgres::Object;
use scrip_core::{
    audit::{AuditRecord, Entry, Head, Log, LogRow, Tip},
    id::TenantId,
    store::StoreError,
};
use tokio_postgres::{Row, Statement};

use crate::{
    postgres::engine::{columns::Columns, fault::fault, lane::Lane, statement::SqlValue},
    rules::audit::log::{head, lost_head, record_row},
    sql::{ColumnReader, Statements, parameters, required},
};

#[derive(Debug)]
pub(crate) struct Chain {
    before: Before,
    entries: Vec<Written>,
    /// The last record of a tenant, and how long the chain is then kept.
    end: Option<(AuditRecord, Option<i64>)>,
}

#[derive(Debug)]
enum Before {
    /// A chain without a record has none.
    Head(Option<Head>),
    /// Missing, unreadable or of another time.
    Lost,
}

/// A record that has no number yet.
#[derive(Debug)]
struct Written {
    audit: AuditRecord,
    entity: String,
    outcome: &'static str,
}

/// Always one row, at whose end stands whether the tenant is there.
pub(crate) const OPEN: &str = "
-- open_chain
SELECT it.tenant, it.n, it.at, it.link, it.retention_seconds, it.mac,
    (SELECT max(n) FROM records WHERE tenant = $1 AND log = $2),
    EXISTS (SELECT 1 FROM checkpoints WHERE tenant = $1 AND log = $2),
    EXISTS (SELECT 1 FROM tenants WHERE id = $1)
FROM (SELECT 1) AS one LEFT JOIN heads AS it ON it.tenant = $1 AND it.log = $2";

impl Chain {
    pub(crate) fn opened(row: &Row) -> Self {
        let last: Option<i64> = row.try_get(6).unwrap_or(Some(i64::MAX));
        let was_pruned = row.try_get(7).unwrap_or(true);
        let is_there = row.try_get::<_, Option<i64>>(1).map_or(true, |it| it.is_some());
        let before = match head(row) {
            Ok(head) if head.n < i64::MAX && last.is_none_or(|it| it <= head.n) => {
                Before::Head(Some(head))
            }
            Err(_) if !is_there && last.is_none() && !was_pruned => Before::Head(None),
            Ok(_) | Err(_) => Before::Lost,
        };
        Self { before, entries: Vec::new(), end: None }
    }

    pub(crate) fn append(&mut self, audit: &AuditRecord, entry: Entry<'_>) {
        let Entry { entity, outcome, .. } = entry;
        self.entries.push(Written { audit: audit.clone(), entity: entity.to_owned(), outcome });
    }

    pub(crate) fn records(&self) -> usize {
        self.entries.len()
    }

    /// What was appended behind so many was taken back.
    pub(crate) fn keep_only(&mut self, records: usize) {
        self.entries.truncate(records);
    }

    /// With the last record of a tenant, whose chain is then kept for so long.
    pub(crate) fn end(&mut self, audit: &AuditRecord, retention_seconds: Option<i64>) {
        self.end = Some((audit.clone(), retention_seconds));
    }

    /// Where the head is lost, the chain goes on behind its last record.
    pub(crate) async fn find_lost(
        &mut self,
        client: &impl Statements,
        of: Lane,
    ) -> Result<(), StoreError> {
        if self.entries.is_empty() || matches!(self.before, Before::Head(_)) {
            return Ok(());
        }
        let Lane { log, tenant } = of;
        let last = |row: &dyn ColumnReader| Ok((required(row, 0).ok(), required(row, 1).ok()));
        let of = parameters![tenant, log.as_str()];
        let (n, link) = client.find(FIND_FREE, &of, last).await?.unwrap_or_default();
        self.before = Before::Head(Some(lost_head(tenant, n.unwrap_or(0), link)));
        Ok(())
    }

    /// The records with their numbers, and the head behind them.
    pub(crate) fn links(&self, of: Lane) -> Links<'_> {
        let Lane { log, tenant } = of;
        let before = match &self.before {
            Before::Head(head) => head.as_ref(),
            Before::Lost => None,
        };
        let mut tip = Tip::of(before);
        let mut rows = Vec::with_capacity(self.entries.len());
        for Written { audit, entity, outcome } in &self.entries {
            rows.push(audit.link(&mut tip, Entry { log, tenant, entity, outcome }));
        }
        let head = self.entries.last().map(|last| {
            let head = last.audit.head_signer().head(log, tenant, before, tip);
            match &self.end {
                Some((audit, retention_seconds)) => audit.end(head, log, *retention_seconds),
                None => head,
            }
        });
        Links { log, tenant, head, rows }
    }
}

/// The last record that has a free number behind it: somebody may have used up the highest. Where
/// no record is left, what the checkpoint says.
const FIND_FREE: &str = "
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
pub(crate) struct Links<'a> {
    log: Log,
    tenant: TenantId,
    head: Option<Head>,
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

impl Links<'_> {
    pub(crate) async fn prepare(&self, client: &Object) -> Result<[Statement; 2], StoreError> {
        let records = client.prepare_cached(INSERT_RECORDS).await.map_err(fault)?;
        let head = client.prepare_cached(PUT_HEAD).await.map_err(fault)?;
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
        let rows = Columns::of(self.rows.iter().map(record_row));
        let insert = async {
            let of: [SqlValue<'_>; 2] = [&tenant, &log];
            let columns: Vec<_> = of.into_iter().chain(rows.raw().skip(1)).collect();
            client.execute(&records, &columns).await
        };
        let Head { retention_seconds, .. } = head;
        let (head_link, mac) = (head.link.0.as_slice(), head.mac.0.as_slice());
        let put = async {
            let columns: [SqlValue<'_>; 7] =
                [&tenant, &log, &head.n, &head.at.unix_ms, &head_link, retention_seconds, &mac];
            client.execute(&put_head, &columns).await
        };
        tokio::try_join!(biased; insert, put).map(drop).map_err(fault)
    }
}
