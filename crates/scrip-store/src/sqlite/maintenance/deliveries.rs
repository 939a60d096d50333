//! Deliveries of events to webhooks. The deliveries of reads are moved from the read log
//! (`audit/read_deliveries.rs`).

use scrip_core::{
    events::{AttemptResult, ClaimedDelivery, WebhookKey},
    store::deliveries::DeliveryClaim,
    types::StoreError,
};

use crate::{
    shared::deliveries::{TrimStatements, decode_claimed_delivery, result_parameters},
    sql::{ColumnReader, Statements, parameters, run_sync_future},
    sqlite::{
        SqliteStore,
        audit::read_deliveries::{
            copy_read_deliveries, delete_read_deliveries, list_read_deliveries,
        },
        engine::{statement::execute, transaction::SqliteTransaction},
    },
};

const SELECT_DUE: &str = "
-- select_due_deliveries
SELECT event, event_type, occurred_at, min(attempts, 999999) + 1, coalesce(first_attempt_at, $1), body
FROM deliveries WHERE tenant = $2 AND webhook = $3 AND state = 'pending' AND next_at <= $1
ORDER BY next_at, event LIMIT $4";

const CLAIM: &str = "
-- claim_deliveries
UPDATE deliveries SET attempts = min(attempts, 999999) + 1, first_attempt_at = coalesce(first_attempt_at, $1),
    next_at = $2
WHERE seq IN (
    SELECT seq FROM deliveries
    WHERE tenant = $3 AND webhook = $4 AND state = 'pending' AND next_at <= $1
    ORDER BY next_at, event LIMIT $5)";

/// Stores results of attempts. The number of attempts is the fence: after the lease of a claim has
/// ended, the next claim raises it, and the result of the earlier claim finds no row.
const FINISH: &str = "
-- finish_deliveries
UPDATE deliveries SET state = it.state, attempts = deliveries.attempts - it.uncounted,
    first_attempt_at =
        CASE WHEN deliveries.attempts = it.uncounted THEN NULL ELSE deliveries.first_attempt_at END,
    next_at = coalesce(it.next_at, deliveries.next_at),
    last_attempt_at = CASE WHEN it.uncounted = 1 THEN deliveries.last_attempt_at ELSE it.at END,
    last_status = CASE WHEN it.uncounted = 1 THEN deliveries.last_status ELSE it.status END,
    last_error = CASE WHEN it.uncounted = 1 THEN deliveries.last_error ELSE it.error END
FROM (SELECT $1 AS event, $2 AS attempts, $3 AS state, $4 AS uncounted, $5 AS next_at, $6 AS at,
    $7 AS status, $8 AS error) AS it
WHERE deliveries.tenant = $9 AND deliveries.webhook = $10 AND deliveries.event = it.event
    AND deliveries.state = 'pending' AND deliveries.attempts = it.attempts";

/// Maximum number of rows per statement.
const BATCH_SIZE: i64 = 256;

const DELETE_ORPHANS: &str = "
-- delete_orphan_deliveries
DELETE FROM deliveries WHERE seq IN (
    SELECT seq FROM deliveries WHERE tenant = $1 AND webhook = $2
        AND NOT EXISTS (SELECT 1 FROM webhooks WHERE tenant = $1 AND id = $2)
    LIMIT $3)";

impl SqliteStore {
    /// One index seek per webhook: the first row of each webhook is found after the previous one.
    pub(crate) const LIST_DUE_WEBHOOKS: &str = "
-- list_due_webhooks
WITH RECURSIVE first_rows (tenant, webhook, next_at) AS (
    SELECT * FROM (
        SELECT tenant, webhook, next_at FROM deliveries WHERE state = 'pending'
        ORDER BY tenant, webhook, next_at, event LIMIT 1)
    UNION ALL
    SELECT it.tenant, it.webhook, it.next_at FROM first_rows CROSS JOIN deliveries AS it
    WHERE it.seq = (
        SELECT seq FROM deliveries
        WHERE state = 'pending' AND (tenant, webhook) > (first_rows.tenant, first_rows.webhook)
        ORDER BY tenant, webhook, next_at, event LIMIT 1)
)
SELECT tenant, webhook FROM first_rows WHERE next_at <= $1";

    pub(crate) const LIST_WEBHOOKS: &str = "
-- list_webhooks_with_deliveries
WITH RECURSIVE first_rows (tenant, webhook, next_at) AS (
    SELECT * FROM (
        SELECT tenant, webhook, next_at FROM deliveries
        ORDER BY tenant, webhook, event LIMIT 1)
    UNION ALL
    SELECT it.tenant, it.webhook, it.next_at FROM first_rows CROSS JOIN deliveries AS it
    WHERE it.seq = (
        SELECT seq FROM deliveries
        WHERE (tenant, webhook) > (first_rows.tenant, first_rows.webhook)
        ORDER BY tenant, webhook, event LIMIT 1)
)
SELECT tenant, webhook FROM first_rows";

    pub(crate) const TRIM_STATEMENTS: TrimStatements = TrimStatements {
        delete_finished: "
-- delete_finished_deliveries
DELETE FROM deliveries WHERE seq IN (
    SELECT seq FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND event < $3 AND state <> 'pending'
    ORDER BY event LIMIT $4)",
        exhaust: "
-- exhaust_deliveries
UPDATE deliveries SET state = 'exhausted' WHERE seq IN (
    SELECT seq FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND state = 'pending' AND pending_since < $3
    ORDER BY pending_since LIMIT $4)",
        delete_oldest: "
-- delete_oldest_deliveries
DELETE FROM deliveries WHERE seq IN (
    SELECT seq FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND event <= $3 ORDER BY event LIMIT $4)
RETURNING state",
    };

    /// Reads and updates the same rows: the writer runs one transaction at a time.
    pub(crate) async fn claim_due(
        &self,
        key: WebhookKey,
        claim: DeliveryClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let DeliveryClaim { now, lease_until, deliveries_max } = claim;
        let WebhookKey { tenant, webhook } = key;
        self.writer
            .write(move |it| {
                let decode = |row: &dyn ColumnReader| Ok(decode_claimed_delivery(row, key));
                let due = parameters![now, tenant, webhook, deliveries_max];
                let claimed: Vec<_> = run_sync_future(it.query(SELECT_DUE, &due, decode))?;
                let due = parameters![now, lease_until, tenant, webhook, deliveries_max];
                execute(it, CLAIM, &due)?;
                Ok(claimed.into_iter().flatten().collect())
            })
            .await
    }

    pub(crate) async fn put_results(
        &self,
        WebhookKey { tenant, webhook }: WebhookKey,
        results: Vec<AttemptResult>,
    ) -> Result<usize, StoreError> {
        self.writer
            .write(move |it| {
                let mut stored = 0_usize;
                for result in &results {
                    let mut row = Vec::from(result_parameters(result));
                    row.extend(parameters![tenant, webhook]);
                    stored = stored.saturating_add(execute(it, FINISH, &row)?);
                }
                Ok(stored)
            })
            .await
    }

    /// If the process stops between the copy and the deletion, the next call repeats the copy.
    pub(crate) async fn move_from_read_log(&self) -> Result<usize, StoreError> {
        let rows = self.read_log.readers.read(list_read_deliveries)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let rows = self
            .writer
            .write(move |it| {
                copy_read_deliveries(it, &rows)?;
                Ok(rows)
            })
            .await?;
        self.read_log.writer.write(move |it| delete_read_deliveries(it, &rows)).await
    }

    pub(crate) async fn delete_orphans(
        &self,
        WebhookKey { tenant, webhook }: WebhookKey,
    ) -> Result<usize, StoreError> {
        let delete = move |it: &mut SqliteTransaction<'_>| {
            execute(it, DELETE_ORPHANS, &parameters![tenant, webhook, BATCH_SIZE])
        };
        self.writer.write(delete).await
    }
}
