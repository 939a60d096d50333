//! Rows that deleted tenants left.

use scrip_core::{id::TenantId, store::StoreError, time::Timestamp};
use uuid::Uuid;

use crate::{
    postgres::engine::{
        row::column,
        statement::{Single, count, execute, query},
    },
    shared::policy::changes::STRAGGLERS_MS,
};

const PURGED_AT_ONCE: i64 = 256;

/// Some rows of a table that belong to a tenant that is deleted.
macro_rules! purge {
    ($table:literal, $key:literal) => {
        concat!(
            "-- purge_",
            $table,
            "\nDELETE FROM ",
            $table,
            " WHERE (",
            $key,
            ") IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE tenant = ANY ($2) LIMIT $1
             FOR UPDATE SKIP LOCKED)"
        )
    };
}

const PURGE: [&str; 8] = [
    purge!("active_tokens", "tenant, month, token"),
    purge!("active_months", "tenant, month"),
    purge!("tokens", "tenant, number"),
    purge!("filed", "tenant, facet, container, created_at, token"),
    purge!("token_intents", "tenant, id"),
    purge!("sessions", "tenant, id"),
    purge!("session_events", "tenant, seq"),
    purge!("guesses", "tenant, bucket, number"),
];

/// Only where there is nothing left: rows that another node was about to purge are skipped above,
/// and stay where that fails.
const FORGET_DELETED: &str = "
-- forget_deleted_tenants
DELETE FROM deleted_tenants AS it WHERE deleted_at <= $1 AND id = ANY ($2)
    AND NOT EXISTS (SELECT 1 FROM active_tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM active_months WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM filed WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_intents WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM session_events WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM guesses WHERE tenant = it.id)";

/// Those of these tenants that have no row any more.
const WITHOUT_ROW: &str = "
-- find_tenants_without_row
SELECT it FROM unnest($1::uuid[]) AS it WHERE it NOT IN (SELECT id FROM tenants)";

/// Each statement is a transaction of its own; there is nothing left that they must agree on.
pub(crate) async fn purge_tenants(
    client: &Single<'_>,
    tenants: Vec<TenantId>,
    now: Timestamp,
) -> Result<usize, StoreError> {
    if tenants.is_empty() {
        return Ok(0);
    }
    let tenants: Vec<_> = tenants.into_iter().map(|it| it.0).collect();
    let rows = query(client, WITHOUT_ROW, &[&tenants]).await?;
    let gone: Result<Vec<Uuid>, _> = rows.iter().map(|row| column(row, 0)).collect();
    let gone = gone?;
    let mut purged = 0_u64;
    for sql in PURGE {
        purged = purged.saturating_add(execute(client, sql, &[&PURGED_AT_ONCE, &gone]).await?);
    }
    if purged == 0 {
        let before = now.unix_ms.saturating_sub(STRAGGLERS_MS);
        execute(client, FORGET_DELETED, &[&before, &gone]).await?;
    }
    Ok(count(purged))
}
