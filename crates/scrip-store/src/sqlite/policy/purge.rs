//! Rows that a deleted tenant left.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError, time::Timestamp};

use crate::{
    rules::policy::changes::STRAGGLERS_MS,
    sql::{Statements, delete_some, parameters, run_ready},
    sqlite::{
        SqliteStore,
        engine::{statement::execute, transaction::Transaction},
        maintenance::usage::forget_active,
    },
};

const PURGED_AT_ONCE: i64 = 256;

/// Some rows of a table that belong to a tenant.
macro_rules! purge {
    ($table:literal, $key:literal) => {
        delete_some!(sqlite, concat!("purge_", $table), $table, "tenant = $1", $key)
    };
}

const PURGE: [&str; 6] = [
    purge!("tokens", "seq"),
    purge!("filed", "tenant, facet, container, created_at, token"),
    purge!("token_intents", "seq"),
    purge!("sessions", "seq"),
    purge!("session_events", "seq"),
    purge!("guesses", "tenant, bucket, number"),
];

const FIND_TENANT: &str = "-- find_tenant\nSELECT 1 FROM tenants WHERE id = $1";

/// Those of these tenants that have no row any more.
fn list_without_row(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<Vec<TenantId>, StoreError> {
    let mut gone = Vec::new();
    for tenant in tenants {
        let of = parameters![*tenant];
        let found = connection.find(FIND_TENANT, &of, |_| Ok(()));
        if run_ready(found)?.is_none() {
            gone.push(*tenant);
        }
    }
    Ok(gone)
}

const FORGET_DELETED: &str = "
-- forget_deleted_tenant
DELETE FROM deleted_tenants WHERE id = $1 AND deleted_at <= $2";

impl SqliteStore {
    pub(crate) async fn purge(
        &self,
        tenants: Vec<TenantId>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let gone = self.readers.read(|it| list_without_row(it, &tenants))?;
        let deleted = gone.clone();
        let forget = move |it: &mut Transaction<'_>| forget_active(it, &deleted);
        match self.access.writer.write(forget).await? {
            0 => self.writer.write(move |it| purge_tenants(it, &gone, now)).await,
            some => Ok(some),
        }
    }
}

fn purge_tenants(
    connection: &Connection,
    tenants: &[TenantId],
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut purged = 0_usize;
    for tenant in tenants {
        for sql in PURGE {
            let rows = execute(connection, sql, &parameters![*tenant, PURGED_AT_ONCE])?;
            purged = purged.saturating_add(rows);
        }
        if purged > 0 {
            return Ok(purged);
        }
        let before = now.unix_ms.saturating_sub(STRAGGLERS_MS);
        execute(connection, FORGET_DELETED, &parameters![*tenant, before])?;
    }
    Ok(purged)
}
