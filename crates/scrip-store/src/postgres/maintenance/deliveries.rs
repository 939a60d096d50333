//! Deliveries of events to webhooks. Claims and results need no lock of the tenant: a claim skips
//! rows that another node has locked, and a result is stored only while its claim is current.

use scrip_core::{
    events::{AttemptResult, ClaimedDelivery, WebhookKey},
    store::deliveries::DeliveryClaim,
    types::StoreError,
};

use crate::{
    postgres::{
        PostgresStore,
        engine::statement::{PostgresClient, RowStatement, driver_parameters},
    },
    shared::deliveries::{TrimStatements, decode_claimed_delivery, result_parameters},
    sql::{Execute, parameters, read_required},
};

/// The last column is the time at which the delivery was due: the rows have no order.
const CLAIM: &str = "
-- claim_deliveries
WITH due AS (
    SELECT event, next_at FROM deliveries
    WHERE tenant = $3 AND webhook = $4 AND state = 'pending' AND next_at <= $1
    ORDER BY next_at, event LIMIT $5 FOR UPDATE SKIP LOCKED
)
    UPDATE deliveries AS it SET attempts = least(it.attempts, 999999) + 1,
    first_attempt_at = coalesce(it.first_attempt_at, $1), next_at = $2
FROM due WHERE it.tenant = $3 AND it.webhook = $4 AND it.event = due.event
RETURNING it.event, it.event_type, it.occurred_at, it.attempts, it.first_attempt_at, it.body,
    due.next_at";

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
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::text[]) AS it (event, attempts, state, uncounted, next_at, at, status, error)
WHERE deliveries.tenant = $9 AND deliveries.webhook = $10 AND deliveries.event = it.event
    AND deliveries.state = 'pending' AND deliveries.attempts = it.attempts";

/// Maximum number of rows per statement.
const BATCH_SIZE: i64 = 256;

const DELETE_ORPHANS: &str = "
-- delete_orphan_deliveries
DELETE FROM deliveries WHERE (tenant, webhook, event) IN (
    SELECT tenant, webhook, event FROM deliveries WHERE tenant = $1 AND webhook = $2
        AND NOT EXISTS (SELECT 1 FROM webhooks WHERE tenant = $1 AND id = $2)
    LIMIT $3 FOR UPDATE SKIP LOCKED)";

impl PostgresStore {
    /// One index seek per webhook: the first row of each webhook is found after the previous one.
    pub(crate) const LIST_DUE_WEBHOOKS: &str = "
-- list_due_webhooks
WITH RECURSIVE first_rows AS (
    (SELECT tenant, webhook, next_at FROM deliveries WHERE state = 'pending'
        ORDER BY tenant, webhook, next_at, event LIMIT 1)
    UNION ALL
    SELECT it.tenant, it.webhook, it.next_at FROM first_rows CROSS JOIN LATERAL (
        SELECT tenant, webhook, next_at FROM deliveries
        WHERE state = 'pending' AND (tenant, webhook) > (first_rows.tenant, first_rows.webhook)
        ORDER BY tenant, webhook, next_at, event LIMIT 1
    ) AS it
)
SELECT tenant, webhook FROM first_rows WHERE next_at <= $1";

    pub(crate) const LIST_WEBHOOKS: &str = "
-- list_webhooks_with_deliveries
WITH RECURSIVE first_rows AS (
    (SELECT tenant, webhook, next_at FROM deliveries
        ORDER BY tenant, webhook, event LIMIT 1)
    UNION ALL
    SELECT it.tenant, it.webhook, it.next_at FROM first_rows CROSS JOIN LATERAL (
        SELECT tenant, webhook, next_at FROM deliveries
        WHERE (tenant, webhook) > (first_rows.tenant, first_rows.webhook)
        ORDER BY tenant, webhook, event LIMIT 1
    ) AS it
)
SELECT tenant, webhook FROM first_rows";

    pub(crate) const TRIM_STATEMENTS: TrimStatements = TrimStatements {
        delete_finished: "
-- delete_finished_deliveries
DELETE FROM deliveries WHERE (tenant, webhook, event) IN (
    SELECT tenant, webhook, event FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND event < $3 AND state <> 'pending'
    ORDER BY event LIMIT $4 FOR UPDATE SKIP LOCKED)",
        exhaust: "
-- exhaust_deliveries
UPDATE deliveries SET state = 'exhausted' WHERE (tenant, webhook, event) IN (
    SELECT tenant, webhook, event FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND state = 'pending' AND pending_since < $3
    ORDER BY pending_since LIMIT $4 FOR UPDATE SKIP LOCKED)",
        delete_oldest: "
-- delete_oldest_deliveries
DELETE FROM deliveries WHERE (tenant, webhook, event) IN (
    SELECT tenant, webhook, event FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND event <= $3 ORDER BY event LIMIT $4 FOR UPDATE SKIP LOCKED)
RETURNING state",
    };

    pub(crate) async fn claim_due(
        &self,
        key: WebhookKey,
        claim: DeliveryClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let DeliveryClaim { now, lease_until, deliveries_max } = claim;
        let WebhookKey { tenant, webhook } = key;
        let due = parameters![now, lease_until, tenant, webhook, deliveries_max];
        let rows = self.for_tenant(tenant).rows(CLAIM, &driver_parameters(&due)).await?;
        let mut claimed = Vec::new();
        for row in &rows {
            let due_at: i64 = read_required(row, 6)?;
            claimed.extend(decode_claimed_delivery(row, key).map(|it| (due_at, it)));
        }
        claimed.sort_by_key(|(due_at, it)| (*due_at, it.event));
        Ok(claimed.into_iter().map(|(_, it)| it).collect())
    }

    pub(crate) async fn put_results(
        &self,
        WebhookKey { tenant, webhook }: WebhookKey,
        mut results: Vec<AttemptResult>,
    ) -> Result<usize, StoreError> {
        // All nodes lock the rows in the same order, so that they do not wait for each other.
        results.sort_by_key(|it| it.event);
        let rows = results.iter().map(result_parameters);
        let finish = RowStatement::new(FINISH, []).columns(rows);
        let finish = finish.values(parameters![tenant, webhook]);
        self.for_tenant(tenant).execute_raw(FINISH, &finish.driver_parameters()).await
    }

    /// Both logs are in one database: the deliveries of reads are already in their place.
    pub(crate) async fn move_from_read_log(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    pub(crate) async fn delete_orphans(
        &self,
        WebhookKey { tenant, webhook }: WebhookKey,
    ) -> Result<usize, StoreError> {
        let batch = parameters![tenant, webhook, BATCH_SIZE];
        self.for_tenant(tenant).execute(DELETE_ORPHANS, &batch).await
    }
}
