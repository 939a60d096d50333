//! Deliveries of events, written once before the commit.

use deadpool_postgres::Object;
use scrip_core::{events::NewDelivery, types::StoreError};
use tokio_postgres::Statement;

use crate::{
    postgres::engine::{columns::ColumnArrays, error::store_error, statement::SqlValue},
    shared::deliveries::delivery_parameters,
};

/// A new delivery is due at once. A row exists already if the outcome of a proxied call is written
/// again, because the first write failed with an unknown result.
pub(crate) const INSERT_DELIVERIES: &str = "
-- insert_deliveries
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, body, state, pending_since,
    attempts, next_at)
SELECT it.*, 'pending', it.occurred_at, 0, it.occurred_at
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::bytea[])
    AS it (tenant, webhook, event, event_type, occurred_at, body)
ON CONFLICT (tenant, webhook, event) DO NOTHING";

/// The rows of deliveries, as columns.
#[derive(Debug)]
pub(crate) struct DeliveryRows<'a> {
    columns: ColumnArrays<'a, 6>,
    is_empty: bool,
}

impl<'a> DeliveryRows<'a> {
    pub(crate) fn new(deliveries: &'a [NewDelivery]) -> Self {
        let columns = ColumnArrays::from_rows(deliveries.iter().map(delivery_parameters));
        Self { columns, is_empty: deliveries.is_empty() }
    }

    /// The parameters of [`INSERT_DELIVERIES`].
    pub(crate) fn parameters(&self) -> Vec<SqlValue<'_>> {
        self.columns.driver_parameters().collect()
    }

    /// Prepares the statement; `None` without deliveries.
    pub(crate) async fn prepare(&self, client: &Object) -> Result<Option<Statement>, StoreError> {
        match self.is_empty {
            true => Ok(None),
            false => client.prepare_cached(INSERT_DELIVERIES).await.map(Some).map_err(store_error),
        }
    }

    pub(crate) async fn put(
        &self,
        client: &Object,
        statement: Option<Statement>,
    ) -> Result<(), StoreError> {
        let Some(statement) = statement else { return Ok(()) };
        client.execute(&statement, &self.parameters()).await.map(drop).map_err(store_error)
    }
}
