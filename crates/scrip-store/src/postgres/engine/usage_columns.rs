//! Usage counters of tokens, written once before the commit.

use deadpool_postgres::Object;
use scrip_core::types::{StoreError, id::TenantId};
use tokio_postgres::Statement;

use crate::{
    postgres::engine::error::store_error,
    shared::tokens::usage_delta::{UsageDelta, UsageTotals},
};

/// The changes of one transaction, which belong to one tenant, as columns.
#[derive(Debug, Default)]
pub(crate) struct UsageColumns {
    types: Vec<&'static str>,
    counts: Vec<i64>,
    last_created: Vec<i64>,
    decreased: Vec<&'static str>,
    decreased_by: Vec<i64>,
    months: Vec<i64>,
    created: Vec<i64>,
}

/// Increments counters, and inserts missing ones. Decrements change existing rows only, because the
/// remaining rows of a deleted tenant have no counters.
pub(crate) const PUT_TYPES: &str = "
-- put_usage_types
INSERT INTO usage_types (tenant, type, count, last_created_at)
    SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (tenant, type) DO UPDATE SET count = usage_types.count + excluded.count,
    last_created_at = greatest(usage_types.last_created_at, excluded.last_created_at)";

const DECREASE_TYPES: &str = "
-- decrease_usage_types
UPDATE usage_types AS it SET count = it.count - gone.count
FROM unnest($2::text[], $3::bigint[]) AS gone (type, count)
WHERE it.tenant = $1 AND it.type = gone.type";

pub(crate) const PUT_MONTHS: &str = "
-- put_usage_months
INSERT INTO usage_months (tenant, month, created)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])
ON CONFLICT (tenant, month) DO UPDATE SET created = usage_months.created + excluded.created";

impl UsageColumns {
    pub(crate) fn new(usage: &UsageDelta) -> Self {
        let UsageTotals { types, months } = usage.totals();
        let mut columns = Self::default();
        for ((_, token_type), type_totals) in types {
            if type_totals.created > 0 {
                columns.types.push(token_type.as_str());
                columns.counts.push(type_totals.created.saturating_sub(type_totals.removed));
                columns.last_created.push(type_totals.last_created_ms);
            } else {
                columns.decreased.push(token_type.as_str());
                columns.decreased_by.push(type_totals.removed);
            }
        }
        (columns.months, columns.created) =
            months.into_iter().map(|((month, _), created)| (month.0, created)).unzip();
        columns
    }

    /// Prepares the statements; `None` if there are no changes.
    pub(crate) async fn prepare(
        &self,
        client: &Object,
    ) -> Result<Option<[Statement; 3]>, StoreError> {
        if self.types.is_empty() && self.decreased.is_empty() {
            return Ok(None);
        }
        let put_types = client.prepare_cached(PUT_TYPES).await.map_err(store_error)?;
        let decrease_types = client.prepare_cached(DECREASE_TYPES).await.map_err(store_error)?;
        let put_months = client.prepare_cached(PUT_MONTHS).await.map_err(store_error)?;
        Ok(Some([put_types, decrease_types, put_months]))
    }

    /// Pipelines all statements: sends them before it waits for a result.
    pub(crate) async fn put(
        &self,
        client: &Object,
        TenantId(tenant): TenantId,
        statements: Option<[Statement; 3]>,
    ) -> Result<(), StoreError> {
        let Some([put_types, decrease_types, put_months]) = statements else { return Ok(()) };
        let Self { types, counts, last_created, decreased, decreased_by, months, created } = self;
        tokio::try_join!(
            biased;
            async { client.execute(&put_types, &[&tenant, types, counts, last_created]).await },
            async {
                match decreased.is_empty() {
                    true => Ok(0),
                    false => {
                        client
                            .execute(&decrease_types, &[&tenant, decreased, decreased_by])
                            .await
                    }
                }
            },
            async { client.execute(&put_months, &[&tenant, months, created]).await },
        )
        .map(drop)
        .map_err(store_error)
    }
}
