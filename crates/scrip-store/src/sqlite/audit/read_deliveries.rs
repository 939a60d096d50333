//! Deliveries of the events of reads. They are first written to the read log, and moved from there
//! to the vault.

use rusqlite::Connection;
use scrip_core::types::StoreError;

use crate::{
    sql::{ColumnReader, Parameter, Statements, parameters, read_required, run_sync_future},
    sqlite::engine::statement::execute,
};

/// Maximum number of rows per statement.
const BATCH_SIZE: i64 = 256;

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

/// The row exists already if the process stopped after an earlier copy.
const COPY_DELIVERY: &str = "
-- copy_delivery
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, body, state, pending_since,
    attempts, next_at)
VALUES ($1, $2, $3, $4, $5, $6, 'pending', $5, 0, $5)
ON CONFLICT (tenant, webhook, event) DO NOTHING";

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
