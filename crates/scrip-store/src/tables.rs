//! Every table without a policy entity.
//!
//! The list says what the deletion of a tenant does with the rows, and which rights PostgreSQL's
//! serving role has. [`ENTITIES`](scrip_core::policy::ENTITIES) describes the other tables. Tests
//! compare both lists with the schema of each engine.

/// What the deletion of a tenant does with the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantRows {
    /// No row belongs to a tenant.
    None,
    /// The transaction that deletes the tenant deletes the rows.
    Deleted,
    /// The rows refer to the row of the tenant, and are deleted with it.
    ReferToTenant,
    /// The rows refer to rows of another table, and are deleted with them.
    ReferToOthers,
    /// The purge deletes the rows in batches. It finds a row by these columns; SQLite has some of
    /// the tables in its read log, where `active_tokens.rs` deletes them.
    Purged { sqlite_key: Option<&'static str>, postgres_key: &'static str },
    /// The rows stay, for this reason.
    Stay(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub tenant_rows: TenantRows,
    /// Cascading deletes run with the owner's rights and need no grant.
    pub(crate) rights: &'static str,
}

const READ: &str = "SELECT";
const APPEND: &str = "SELECT, INSERT";
const UPDATE_EXISTING: &str = "SELECT, UPDATE";
const UPSERT: &str = "SELECT, INSERT, UPDATE";
pub(crate) const INSERT_AND_DELETE: &str = "SELECT, INSERT, DELETE";
const INSERT_AND_LOCK_FOR_DELETE: &str = "SELECT, INSERT, DELETE, UPDATE (tenant)";
/// A key rotation replaces the sealed body, and the one of fingerprint keys the fingerprint.
const INSERT_RENEW_AND_DELETE: &str = "SELECT, INSERT, DELETE, UPDATE (tenant, fingerprint, body)";
pub(crate) const FULL: &str = "SELECT, INSERT, UPDATE, DELETE";

const RETENTION: TenantRows = TenantRows::Stay("the retention of the audit log decides");

const fn table(name: &'static str, tenant_rows: TenantRows, rights: &'static str) -> Table {
    Table { name, tenant_rows, rights }
}

const fn purged(sqlite_key: &'static str, postgres_key: &'static str) -> TenantRows {
    TenantRows::Purged { sqlite_key: Some(sqlite_key), postgres_key }
}

const fn purged_on_postgres(postgres_key: &'static str) -> TenantRows {
    TenantRows::Purged { sqlite_key: None, postgres_key }
}

/// In the order of the purge.
pub const TABLES: [Table; 31] = [
    table("schema_state", TenantRows::None, READ),
    table("system_keys", TenantRows::None, UPSERT),
    table("vault_state", TenantRows::None, UPSERT),
    table("unlocks", TenantRows::None, FULL),
    table("dual_control", TenantRows::None, FULL),
    table("approvals", TenantRows::None, FULL),
    table("directory_state", TenantRows::None, UPDATE_EXISTING),
    table("clock_watermark", TenantRows::None, UPSERT),
    table("import_state", TenantRows::None, FULL),
    table("tenant_locks", TenantRows::Stay("late writes still lock the tenant"), UPSERT),
    table("tenant_keys", TenantRows::ReferToTenant, FULL),
    table("permanent_keys", TenantRows::ReferToTenant, UPSERT),
    table("key_rotations", TenantRows::ReferToTenant, FULL),
    table("deleted_tenants", TenantRows::Stay("the purge ends with this row"), INSERT_AND_DELETE),
    table("usage_types", TenantRows::Deleted, FULL),
    table("usage_months", TenantRows::Deleted, FULL),
    table("active_tokens", purged_on_postgres("tenant, month, token"), INSERT_AND_LOCK_FOR_DELETE),
    table("active_months", purged_on_postgres("tenant, month"), FULL),
    table("tokens", purged("seq", "tenant, number"), FULL),
    table(
        "token_index",
        purged(
            "tenant, facet, container, created_at, token",
            "tenant, facet, container, created_at, token",
        ),
        INSERT_AND_LOCK_FOR_DELETE,
    ),
    table("token_intents", purged("seq", "tenant, id"), INSERT_RENEW_AND_DELETE),
    table("threeds_sessions", purged("seq", "tenant, id"), FULL),
    table("deliveries", purged("seq", "tenant, webhook, event"), FULL),
    table(
        "guesses",
        purged("tenant, bucket, number_digest", "tenant, bucket, number_digest"),
        FULL,
    ),
    table("cvcs", TenantRows::ReferToOthers, FULL),
    table("intent_cvcs", TenantRows::ReferToOthers, INSERT_AND_LOCK_FOR_DELETE),
    table("response_token_data", TenantRows::ReferToOthers, APPEND),
    table(
        "idempotency_records",
        TenantRows::Stay("they expire within a day"),
        INSERT_AND_LOCK_FOR_DELETE,
    ),
    table("log_records", RETENTION, INSERT_AND_DELETE),
    table("chain_heads", RETENTION, UPSERT),
    table("chain_checkpoints", RETENTION, UPSERT),
];

/// The names of the tables whose rows have this fate.
pub(crate) fn tables_with(tenant_rows: TenantRows) -> impl Iterator<Item = &'static str> {
    TABLES.iter().filter(move |it| it.tenant_rows == tenant_rows).map(|it| it.name)
}
