//! Usage counters of tokens, written once before a commit.

use rusqlite::Connection;
use scrip_core::types::{StoreError, id::TenantId};

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

/// Changes nothing if there is no counter: the remaining rows of a deleted tenant have none.
const DECREASE_TYPE: &str = "
-- decrease_usage_type
UPDATE usage_types SET count = count - $1 WHERE tenant = $2 AND type = $3";

const PUT_MONTH: &str = "
-- put_usage_month
INSERT INTO usage_months (month, tenant, created) VALUES ($1, $2, $3)
ON CONFLICT (month, tenant) DO UPDATE SET created = created + $3";

pub(crate) fn put_usage(connection: &Connection, usage: &UsageDelta) -> Result<(), StoreError> {
    let UsageTotals { types, months } = usage.totals();
    for ((tenant, token_type), type_totals) in types {
        if type_totals.created > 0 {
            let count = type_totals.created.saturating_sub(type_totals.removed);
            let row = parameters![tenant, token_type, count, type_totals.last_created_ms];
            put_or_report(connection, PUT_TYPE, &row, || report_usage_error(tenant))?;
        } else {
            let row = parameters![type_totals.removed, tenant, token_type];
            put_or_report(connection, DECREASE_TYPE, &row, || report_usage_error(tenant))?;
        }
    }
    for ((month, tenant), created) in months {
        let row = parameters![month, tenant, created];
        put_or_report(connection, PUT_MONTH, &row, || report_usage_error(tenant))?;
    }
    Ok(())
}

fn report_usage_error(tenant: TenantId) {
    tracing::error!(%tenant, "usage counter cannot be written; it is wrong from now on");
}
