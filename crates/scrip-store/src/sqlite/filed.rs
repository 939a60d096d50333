//! The entries by which tokens are found: one for each facet in each container.

use rusqlite::{Connection, params};
use scrip_core::{
    id::TenantId,
    listing::Facet,
    store::{StoreError, TokenRecord},
};

use crate::{facets::facet_bytes, sqlite::tokens::execute};

const FILE: &str = "
-- file
INSERT INTO filed (tenant, facet, container, created_at, token) VALUES (?1, ?2, ?3, ?4, ?5)";

const UNFILE: &str = "
-- unfile
DELETE FROM filed
WHERE tenant = ?1 AND facet = ?2 AND container = ?3 AND created_at = ?4 AND token = ?5";

pub(super) fn file(
    connection: &Connection,
    tenant: TenantId,
    seq: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    each_entry(connection, FILE, (tenant, seq), record)
}

pub(super) fn unfile(
    connection: &Connection,
    tenant: TenantId,
    seq: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    each_entry(connection, UNFILE, (tenant, seq), record)
}

/// Most updates change nothing that a token is found by.
pub(super) fn refile(
    connection: &Connection,
    tenant: TenantId,
    seq: i64,
    (before, after): (&TokenRecord, &TokenRecord),
) -> Result<(), StoreError> {
    if before.containers == after.containers && Facet::of_record(before).eq(Facet::of_record(after))
    {
        return Ok(());
    }
    unfile(connection, tenant, seq, before)?;
    file(connection, tenant, seq, after)
}

fn each_entry(
    connection: &Connection,
    sql: &str,
    (tenant, seq): (TenantId, i64),
    record: &TokenRecord,
) -> Result<(), StoreError> {
    let created_at = record.created_at.unix_ms;
    for facet in Facet::of_record(record) {
        let facet = facet_bytes(&facet);
        for container in record.containers.iter() {
            let tenant = tenant.0.as_bytes();
            let entry = params![tenant, facet, container.as_str(), created_at, seq];
            execute(connection, sql, entry)?;
        }
    }
    Ok(())
}
