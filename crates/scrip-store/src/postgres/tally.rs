//! What the tokens of a transaction change of its tenant's counts, put once before the commit.

use std::collections::HashMap;

use deadpool_postgres::Object;
use scrip_core::{
    id::TenantId,
    store::StoreError,
    time::{Month, Timestamp},
    token_type::TokenType,
};
use tokio_postgres::Statement;

use crate::postgres::statement::fault;

#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    types: HashMap<TokenType, Sum>,
    months: HashMap<Month, i64>,
}

/// Of one type.
#[derive(Debug, Default, Clone)]
struct Sum {
    made: i64,
    gone: i64,
    last_made_ms: i64,
}

/// Raises where something was made, and lowers only what is there: what a deleted tenant leaves to be
/// swept has no counts any more.
const PUT_TYPES: &str = "
-- put_usage_types
INSERT INTO usage_types (tenant, type, count, last_created_at)
    SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (tenant, type) DO UPDATE SET count = usage_types.count + excluded.count,
    last_created_at = greatest(usage_types.last_created_at, excluded.last_created_at)";

const LOWER_TYPES: &str = "
-- lower_usage_types
UPDATE usage_types AS it SET count = it.count - gone.count
FROM unnest($2::text[], $3::bigint[]) AS gone (type, count)
WHERE it.tenant = $1 AND it.type = gone.type";

const PUT_MONTHS: &str = "
-- put_usage_months
INSERT INTO usage_months (tenant, month, created)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])
ON CONFLICT (tenant, month) DO UPDATE SET created = usage_months.created + excluded.created";

impl Tally {
    pub(super) fn made(&mut self, of: TokenType, at: Timestamp) {
        let sum = self.types.entry(of).or_default();
        sum.made = sum.made.saturating_add(1);
        sum.last_made_ms = sum.last_made_ms.max(at.unix_ms);
        let made = self.months.entry(Month::of(at)).or_default();
        *made = made.saturating_add(1);
    }

    pub(super) fn gone(&mut self, of: TokenType) {
        let sum = self.types.entry(of).or_default();
        sum.gone = sum.gone.saturating_add(1);
    }

    /// Nothing where there is nothing to put.
    pub(super) async fn prepare(
        &self,
        client: &Object,
    ) -> Result<Option<[Statement; 3]>, StoreError> {
        if self.types.is_empty() {
            return Ok(None);
        }
        let types = client.prepare_cached(PUT_TYPES).await.map_err(fault)?;
        let lower = client.prepare_cached(LOWER_TYPES).await.map_err(fault)?;
        let months = client.prepare_cached(PUT_MONTHS).await.map_err(fault)?;
        Ok(Some([types, lower, months]))
    }

    /// All are sent before any is answered.
    pub(super) async fn put(
        &self,
        client: &Object,
        TenantId(tenant): TenantId,
        statements: Option<[Statement; 3]>,
    ) -> Result<(), StoreError> {
        let Some([put_types, lower, put_months]) = statements else { return Ok(()) };
        let (mut types, mut counts, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lowered, mut by) = (Vec::new(), Vec::new());
        for (of, sum) in &self.types {
            if sum.made > 0 {
                types.push(of.as_str());
                counts.push(sum.made.saturating_sub(sum.gone));
                lasts.push(sum.last_made_ms);
            } else {
                lowered.push(of.as_str());
                by.push(sum.gone);
            }
        }
        let (months, made): (Vec<_>, Vec<_>) =
            self.months.iter().map(|(it, made)| (it.0, *made)).unzip();
        tokio::try_join!(
            biased;
            async { client.execute(&put_types, &[&tenant, &types, &counts, &lasts]).await },
            async { client.execute(&lower, &[&tenant, &lowered, &by]).await },
            async { client.execute(&put_months, &[&tenant, &months, &made]).await },
        )
        .map(drop)
        .map_err(fault)
    }
}
