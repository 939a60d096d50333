//! Rows that a deleted tenant left.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError, time::Timestamp};

use crate::{
    shared::policy::changes::LATE_WRITES_MS,
    sql::{Statements, delete_some, parameters, run_ready},
    sqlite::{
        SqliteStore,
        engine::{statement::execute, transaction::SqliteTransaction},
        maintenance::usage::delete_activity,
    },
};

const PURGE_BATCH: i64 = 256;

/// Some rows of a table that belong to a tenant.
macro_rules! purge {
    ($table:literal, $key:literal) => {
        delete_some!(sqlite, concat!("purge_", $table), $table, "tenant = $1", $key)
    };
}

const PURGE_STATEMENTS: [&str; 6] = [
    purge!("tokens", "seq"),
    purge!("filed", "tenant, facet, container, created_at, token"),
    purge!("token_intents", "seq"),
    purge!("sessions", "seq"),
    purge!("session_events", "seq"),
    purge!("guesses", "tenant, bucket, number"),
];

const FIND_TENANT: &str = "-- find_tenant\nSELECT 1 FROM tenants WHERE id = $1";

/// Those of these tenants that have no row any more.
fn list_tenants_without_row(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<Vec<TenantId>, StoreError> {
    let mut deleted = Vec::new();
    for tenant in tenants {
        let key = parameters![*tenant];
        let found = connection.find(FIND_TENANT, &key, |_| Ok(()));
        if run_ready(found)?.is_none() {
            deleted.push(*tenant);
        }
    }
    Ok(deleted)
}

const DELETE_PURGED_TENANT: &str = "
-- forget_deleted_tenant
DELETE FROM deleted_tenants WHERE id = $1 AND deleted_at <= $2";

impl SqliteStore {
    pub(crate) async fn purge(
        &self,
        tenants: Vec<TenantId>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let tenants = self.readers.read(|it| list_tenants_without_row(it, &tenants))?;
        let deleted = tenants.clone();
        let forget = move |it: &mut SqliteTransaction<'_>| delete_activity(it, &deleted);
        match self.read_log.writer.write(forget).await? {
            0 => self.writer.write(move |it| purge_tenants(it, &tenants, now)).await,
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
        for sql in PURGE_STATEMENTS {
            let rows = execute(connection, sql, &parameters![*tenant, PURGE_BATCH])?;
            purged = purged.saturating_add(rows);
        }
        if purged > 0 {
            return Ok(purged);
        }
        let before = now.unix_ms.saturating_sub(LATE_WRITES_MS);
        execute(connection, DELETE_PURGED_TENANT, &parameters![*tenant, before])?;
    }
    Ok(purged)
}
