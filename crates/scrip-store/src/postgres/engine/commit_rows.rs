//! Rows that a transaction collects and writes once, before the commit: usage counters of tokens, and
//! deliveries of events.

use scrip_core::{events::NewDelivery, types::id::TenantId};

use crate::{
    postgres::engine::statement::RowStatement,
    shared::{
        deliveries::delivery_parameters,
        tokens::writes::{UsageDelta, UsageTotals},
    },
    sql::parameters,
};

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

/// The statements for the changes of one transaction, which belong to one tenant.
pub(crate) fn usage_statements<'a>(usage: &UsageDelta, tenant: TenantId) -> Vec<RowStatement<'a>> {
    let UsageTotals { types, months } = usage.totals();
    let (mut increased, mut decreased) = (Vec::new(), Vec::new());
    for ((_, token_type), totals) in types {
        if totals.created > 0 {
            let count = totals.created.saturating_sub(totals.removed);
            increased.push(parameters![token_type, count, totals.last_created_ms]);
        } else {
            decreased.push(parameters![token_type, totals.removed]);
        }
    }
    let months = months.into_iter().map(|((month, _), created)| parameters![month, created]);
    let statements = [
        RowStatement::for_rows(PUT_TYPES, parameters![tenant], increased),
        RowStatement::for_rows(DECREASE_TYPES, parameters![tenant], decreased),
        RowStatement::for_rows(PUT_MONTHS, parameters![tenant], months.collect()),
    ];
    statements.into_iter().flatten().collect()
}

/// A new delivery is due at once. A row exists already if the outcome of a proxied call is written
/// again, because the first write failed with an unknown result.
const INSERT_DELIVERIES: &str = "
-- insert_deliveries
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, body, state, pending_since,
    attempts, next_at)
SELECT it.*, 'pending', it.occurred_at, 0, it.occurred_at
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::bytea[])
    AS it (tenant, webhook, event, event_type, occurred_at, body)
ON CONFLICT (tenant, webhook, event) DO NOTHING";

/// The statement that inserts deliveries; `None` without deliveries.
pub(crate) fn delivery_statement(deliveries: &[NewDelivery]) -> Option<RowStatement<'_>> {
    let rows = deliveries.iter().map(delivery_parameters).collect();
    RowStatement::for_rows(INSERT_DELIVERIES, [], rows)
}
