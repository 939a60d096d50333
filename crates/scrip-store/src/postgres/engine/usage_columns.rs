//! The counts of tokens, put once before the commit.

use deadpool_postgres::Object;
use scrip_core::{id::TenantId, store::StoreError};
use tokio_postgres::Statement;

use crate::{
    postgres::engine::error::store_error,
    shared::tokens::usage_delta::{UsageDelta, UsageTotals},
};

/// The sums of a transaction, which is of one tenant, as columns.
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

/// Raises where something was made, and lowers only what is there: what a deleted tenant leaves to be
/// swept has no counts any more.
pub(crate) const PUT_TYPES: &str = "
-- put_usage_types
INSERT INTO usage_types (tenant, type, count, last_created_at)
    SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (tenant, type) DO UPDATE SET count = usage_types.count + excluded.count,
    last_created_at = greatest(usage_types.last_created_at, excluded.last_created_at)";

const DECREASE_TYPES: &str = "
-- lower_usage_types
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
        for ((_, of), sum) in types {
            if sum.created > 0 {
                columns.types.push(of.as_str());
                columns.counts.push(sum.created.saturating_sub(sum.removed));
                columns.last_created.push(sum.last_created_ms);
            } else {
                columns.decreased.push(of.as_str());
                columns.decreased_by.push(sum.removed);
            }
        }
        (columns.months, columns.created) =
            months.into_iter().map(|((month, _), made)| (month.0, made)).unzip();
        columns
    }

    /// Nothing where there is nothing to put.
    pub(crate) async fn prepare(
        &self,
        client: &Object,
    ) -> Result<Option<[Statement; 3]>, StoreError> {
        if self.types.is_empty() && self.decreased.is_empty() {
            return Ok(None);
        }
        let types = client.prepare_cached(PUT_TYPES).await.map_err(store_error)?;
        let lower = client.prepare_cached(DECREASE_TYPES).await.map_err(store_error)?;
        let months = client.prepare_cached(PUT_MONTHS).await.map_err(store_error)?;
        Ok(Some([types, lower, months]))
    }

    /// All are sent before any is answered.
    pub(crate) async fn put(
        &self,
        client: &Object,
        TenantId(tenant): TenantId,
        statements: Option<[Statement; 3]>,
    ) -> Result<(), StoreError> {
        let Some([put_types, lower, put_months]) = statements else { return Ok(()) };
        let Self {
            types,
            counts,
            last_created: lasts,
            decreased: lowered,
            decreased_by: lowered_by,
            months,
            created: made,
        } = self;
        tokio::try_join!(
            biased;
            async { client.execute(&put_types, &[&tenant, types, counts, lasts]).await },
            async {
                match lowered.is_empty() {
                    true => Ok(0),
                    false => client.execute(&lower, &[&tenant, lowered, lowered_by]).await,
                }
            },
            async { client.execute(&put_months, &[&tenant, months, made]).await },
        )
        .map(drop)
        .map_err(store_error)
    }
}
