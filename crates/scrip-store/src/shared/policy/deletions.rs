//! The list of deleted tenants.

use scrip_core::{
    Timestamp,
    audit::DeletedTenant,
    types::{StoreError, id::TenantId},
};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Statements, parameters, read_optional, read_required};

const LIST_DELETED_TENANTS: &str = "
-- list_deleted_tenants
SELECT id, deleted_at, mac FROM deleted_tenants";

/// Lists deleted tenants. Skips rows that cannot be decoded, because Scrip did not write them.
pub(crate) async fn list_deleted_tenants(
    client: &impl Statements,
) -> Result<Vec<DeletedTenant>, StoreError> {
    let decode = |row: &dyn ColumnReader| Ok(decode_deleted_tenant(row));
    let rows = client.query(LIST_DELETED_TENANTS, &[], decode).await?;
    Ok(rows.into_iter().flatten().collect())
}

/// A MAC that cannot be decoded becomes an invalid MAC.
fn decode_deleted_tenant(row: &dyn ColumnReader) -> Option<DeletedTenant> {
    let tenant = read_required(row, 0).ok()?;
    let deleted_at = read_optional(row, 1).ok().flatten().unwrap_or(Timestamp { unix_ms: 0 });
    let mac = read_required(row, 2).unwrap_or(Mac([0; 32]));
    Some(DeletedTenant { tenant, deleted_at, mac })
}

const FIND_DELETIONS: &str = "
-- find_deletions
SELECT id, deleted_at, mac FROM deleted_tenants WHERE id = $1";

/// Finds a tenant in the list of deleted tenants.
pub(super) async fn find_deletions(
    client: &impl Statements,
    tenant: TenantId,
) -> Result<Vec<DeletedTenant>, StoreError> {
    let decode = |row: &dyn ColumnReader| Ok(decode_deleted_tenant(row));
    let rows = client.query(FIND_DELETIONS, &parameters![tenant], decode).await?;
    Ok(rows.into_iter().flatten().collect())
}
