//! The counts of tokens, put once before a commit.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError};

use crate::{
    shared::tokens::usage_delta::{UsageDelta, UsageTotals},
    sql::parameters,
    sqlite::engine::statement::put_or_report,
};

const PUT_TYPE: &str = "
-- put_usage_type
INSERT INTO usage_types (tenant, type, count, last_created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, type) DO UPDATE SET count = count + $3,
    last_created_at = max(last_created_at, $4)";

/// Nothing where there is no count: what a deleted tenant leaves to be purged has none any more.
const DECREASE_TYPE: &str = "
-- lower_usage_type
UPDATE usage_types SET count = count - $1 WHERE tenant = $2 AND type = $3";

const PUT_MONTH: &str = "
-- put_usage_month
INSERT INTO usage_months (month, tenant, created) VALUES ($1, $2, $3)
ON CONFLICT (month, tenant) DO UPDATE SET created = created + $3";

pub(crate) fn put_usage(connection: &Connection, usage: &UsageDelta) -> Result<(), StoreError> {
    let UsageTotals { types, months } = usage.totals();
    for ((tenant, of), sum) in types {
        if sum.created > 0 {
            let count = sum.created.saturating_sub(sum.removed);
            let row = parameters![tenant, of, count, sum.last_created_ms];
            put_or_report(connection, PUT_TYPE, &row, || report_usage_error(tenant))?;
        } else {
            let row = parameters![sum.removed, tenant, of];
            put_or_report(connection, DECREASE_TYPE, &row, || report_usage_error(tenant))?;
        }
    }
    for ((month, tenant), made) in months {
        let row = parameters![month, tenant, made];
        put_or_report(connection, PUT_MONTH, &row, || report_usage_error(tenant))?;
    }
    Ok(())
}

fn report_usage_error(tenant: TenantId) {
    tracing::error!(%tenant, "a count of tokens cannot be written; it is wrong from now on");
}
