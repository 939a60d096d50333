//! Deliveries of events to webhooks. The deliveries of reads are first written to the read log, and
//! moved from there.

use rusqlite::Connection;
use scrip_core::{
    event::{AttemptResult, ClaimedDelivery, WebhookKey},
    store::{StoreError, deliveries::DeliveryClaim},
};

use crate::{
    shared::deliveries::{
        TrimStatements, decode_claimed_delivery, finish_deliveries, insert_delivery_columns,
        result_parameters, trim_statements,
    },
    sql::{ColumnReader, Parameter, Statements, parameters, read_required, run_sync_future},
    sqlite::{
        SqliteStore,
        engine::{statement::execute, transaction::SqliteTransaction},
    },
};

/// A new delivery is due at once.
macro_rules! insert_delivery {
    ($name:literal, $conflict:literal) => {
        concat!(
            "-- ",
            $name,
            "\nINSERT INTO deliveries (",
            insert_delivery_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, 'pending', $5, 0, $5)",
            $conflict
        )
    };
}

pub(crate) const INSERT_DELIVERY: &str = insert_delivery!("insert_delivery", "");

/// The row exists already if the process stopped after an earlier copy.
const COPY_DELIVERY: &str =
    insert_delivery!("copy_delivery", " ON CONFLICT (tenant, webhook, event) DO NOTHING");

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

const FINISH: &str = finish_deliveries!(
    "(SELECT $1 AS event, $2 AS attempts, $3 AS state, $4 AS uncounted, $5 AS next_at, $6 AS at,
    $7 AS status, $8 AS error) AS it"
);

/// Maximum number of rows per statement.
const BATCH_SIZE: i64 = 256;

const DELETE_ORPHANS: &str = "
-- delete_orphan_deliveries
DELETE FROM deliveries WHERE seq IN (
    SELECT seq FROM deliveries WHERE tenant = $1 AND webhook = $2
        AND NOT EXISTS (SELECT 1 FROM webhooks WHERE tenant = $1 AND id = $2)
    LIMIT $3)";

/// Statement that lists webhooks with one index seek per webhook: the first row of each webhook is
/// found after the previous one.
macro_rules! list_webhooks {
    ($name:literal, $condition:literal, $order:literal, $filter:literal) => {
        concat!(
            "-- ",
            $name,
            "\nWITH RECURSIVE first_rows (tenant, webhook, next_at) AS (
    SELECT * FROM (
        SELECT tenant, webhook, next_at FROM deliveries WHERE ",
            $condition,
            " ORDER BY tenant, webhook, ",
            $order,
            " LIMIT 1)
    UNION ALL
    SELECT it.tenant, it.webhook, it.next_at FROM first_rows CROSS JOIN deliveries AS it
    WHERE it.seq = (
        SELECT seq FROM deliveries WHERE ",
            $condition,
            " AND (tenant, webhook) > (first_rows.tenant, first_rows.webhook)
        ORDER BY tenant, webhook, ",
            $order,
            " LIMIT 1)
)
    SELECT tenant, webhook FROM first_rows",
            $filter
        )
    };
}

/// A row of the read log.
pub(crate) struct ReadDelivery {
    seq: i64,
    /// `None` for a row that cannot be decoded: it is deleted, so that it does not stop the others.
    columns: Option<ReadDeliveryColumns>,
}

/// In the order of the columns of a new delivery.
type ReadDeliveryColumns = (Vec<u8>, Vec<u8>, Vec<u8>, String, i64, Vec<u8>);

fn copy_parameters(columns: &ReadDeliveryColumns) -> [Parameter<'_>; 6] {
    let (tenant, webhook, event, event_type, occurred_at, body) = columns;
    parameters![tenant, webhook, event, event_type, *occurred_at, body]
}

pub(crate) const INSERT_READ_DELIVERY: &str = "
-- insert_read_delivery
INSERT INTO read_deliveries (tenant, webhook, event, event_type, occurred_at, body)
VALUES ($1, $2, $3, $4, $5, $6)";

const LIST_READ_DELIVERIES: &str = "
-- list_read_deliveries
SELECT seq, tenant, webhook, event, event_type, occurred_at, body FROM read_deliveries
ORDER BY seq LIMIT $1";

/// SQLite may use the number of a deleted row again, so the row is also named by its event.
const DELETE_READ_DELIVERY: &str = "
-- delete_read_delivery
DELETE FROM read_deliveries WHERE seq = $1 AND webhook = $2 AND event = $3";

const DELETE_INVALID_READ_DELIVERY: &str = "
-- delete_invalid_read_delivery
DELETE FROM read_deliveries WHERE seq = $1";

/// Reads the oldest rows of the read log.
pub(crate) fn list_read_deliveries(read_log: &Connection) -> Result<Vec<ReadDelivery>, StoreError> {
    let decode_columns = |row: &dyn ColumnReader| {
        Ok::<ReadDeliveryColumns, StoreError>((
            read_required(row, 1)?,
            read_required(row, 2)?,
            read_required(row, 3)?,
            read_required(row, 4)?,
            read_required(row, 5)?,
            read_required(row, 6)?,
        ))
    };
    let decode = |row: &dyn ColumnReader| {
        let (seq, columns) = (read_required(row, 0)?, decode_columns(row).ok());
        if columns.is_none() {
            tracing::error!(
                seq,
                "a delivery in the read log was altered outside of the vault and is deleted"
            );
        }
        Ok(ReadDelivery { seq, columns })
    };
    run_sync_future(read_log.query(LIST_READ_DELIVERIES, &parameters![BATCH_SIZE], decode))
}

/// Copies rows of the read log to the vault. A repetition changes nothing.
pub(crate) fn copy_read_deliveries(
    vault: &Connection,
    rows: &[ReadDelivery],
) -> Result<(), StoreError> {
    let mut columns = rows.iter().filter_map(|it| it.columns.as_ref());
    columns.try_for_each(|it| execute(vault, COPY_DELIVERY, &copy_parameters(it)).map(drop))
}

/// Deletes rows of the read log, after their copies are durable.
pub(crate) fn delete_read_deliveries(
    read_log: &Connection,
    rows: &[ReadDelivery],
) -> Result<usize, StoreError> {
    let delete = |it: &ReadDelivery| match &it.columns {
        None => execute(read_log, DELETE_INVALID_READ_DELIVERY, &parameters![it.seq]),
        Some((_, webhook, event, ..)) => {
            execute(read_log, DELETE_READ_DELIVERY, &parameters![it.seq, webhook, event])
        }
    };
    let add = |total: usize, count: usize| total.saturating_add(count);
    rows.iter().try_fold(0, |total, it| Ok(add(total, delete(it)?)))
}

impl SqliteStore {
    pub(crate) const LIST_DUE_WEBHOOKS: &str = list_webhooks!(
        "list_due_webhooks",
        "state = 'pending'",
        "next_at, event",
        " WHERE next_at <= $1"
    );

    pub(crate) const LIST_WEBHOOKS: &str =
        list_webhooks!("list_webhooks_with_deliveries", "true", "event", "");

    pub(crate) const TRIM_STATEMENTS: TrimStatements = trim_statements!("seq", "");

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

/// The statements on the vault.
pub(crate) const STATEMENTS: &[&str] = &[
    INSERT_DELIVERY,
    COPY_DELIVERY,
    SELECT_DUE,
    CLAIM,
    FINISH,
    DELETE_ORPHANS,
    SqliteStore::LIST_DUE_WEBHOOKS,
    SqliteStore::LIST_WEBHOOKS,
    SqliteStore::TRIM_STATEMENTS.delete_finished,
    SqliteStore::TRIM_STATEMENTS.exhaust,
    SqliteStore::TRIM_STATEMENTS.delete_oldest,
];
