//! The entries by which tokens are found: one for each facet in each container.

use rusqlite::{Connection, params};
use scrip_core::{
    id::TenantId,
    listing::Facet,
    store::{StoreError, TokenRecord},
};

use crate::sqlite::tokens::execute;

/// A letter that keeps the facets apart, and what is looked for. Half a fingerprint is enough to
/// find it by: the token's row has it whole.
pub(super) fn facet_bytes(facet: &Facet) -> Vec<u8> {
    let (letter, bytes) = match facet {
        Facet::Type(token_type) => (b't', token_type.as_str().as_bytes()),
        Facet::Fingerprint(fingerprint) => (b'f', fingerprint.0.split_at(16).0),
        Facet::Index(digest) => (b'i', digest.0.as_slice()),
    };
    let mut facet = Vec::with_capacity(bytes.len().saturating_add(1));
    facet.push(letter);
    facet.extend_from_slice(bytes);
    facet
}

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
