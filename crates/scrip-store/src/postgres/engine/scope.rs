//! The rows that a transaction may read and write: the second barrier between tenants.
//!
//! The first barrier is that every statement names the tenant. The second is row-level security:
//! policies in the schema admit only rows of the tenant that the transaction has set, and no rows
//! if it has set none. Work on all tenants uses [`RowScope::all_tenants`], so a search for that
//! name finds every place without this barrier.
//!
//! `SET LOCAL` sets the scope in each transaction and ends with it, because a pooler gives the
//! connection to another client afterwards.

use scrip_core::types::id::TenantId;

/// The value that the row-level security policies read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowScope(TenantScope);

#[derive(Debug, Clone, Copy)]
enum TenantScope {
    Tenant(TenantId),
    AllTenants,
    NoTenant,
}

/// Begins a write transaction. The timeouts of the server are shorter than the client's response
/// timeout. The idle timeout ends the transaction of a node that hangs, so that the tenant is not
/// blocked.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
    SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'; ";

/// Begins a transaction that is sent together with COMMIT, so it needs no idle timeout.
const BEGIN_SINGLE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
    SET LOCAL statement_timeout = '10s'; ";

/// Begins a transaction that scans whole tables.
const BEGIN_LONG: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '60s'; ";

const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; \
    SET LOCAL idle_in_transaction_session_timeout = '10s'; ";

impl RowScope {
    pub(crate) fn for_tenant(tenant: TenantId) -> Self {
        Self(TenantScope::Tenant(tenant))
    }

    /// Scope for rows that are found by a key without a tenant, and for background work.
    pub(crate) fn all_tenants() -> Self {
        Self(TenantScope::AllTenants)
    }

    /// Scope for tables without tenant data.
    pub(crate) fn no_tenant() -> Self {
        Self(TenantScope::NoTenant)
    }

    /// Returns the statement that sets the scope. A UUID needs no quoting.
    pub(crate) fn set_statement(self) -> String {
        match self.0 {
            TenantScope::Tenant(TenantId(id)) => format!("SET LOCAL scrip.tenant = '{id}'"),
            TenantScope::AllTenants => "SET LOCAL scrip.tenant = 'all'".to_owned(),
            // The empty value is also set, because the session may have an older value.
            TenantScope::NoTenant => "SET LOCAL scrip.tenant = ''".to_owned(),
        }
    }

    fn with_begin(self, begin: &str) -> String {
        let mut statements = begin.to_owned();
        statements.push_str(&self.set_statement());
        statements
    }

    /// Begins a write transaction of several statements.
    pub(crate) fn begin_write(self) -> String {
        self.with_begin(BEGIN_WRITE)
    }

    /// Begins a transaction of one statement.
    pub(crate) fn begin_single(self) -> String {
        self.with_begin(BEGIN_SINGLE)
    }

    /// Begins a transaction of one long-running statement.
    pub(crate) fn begin_long(self) -> String {
        self.with_begin(BEGIN_LONG)
    }

    /// Begins a read transaction in which all statements see the same snapshot.
    pub(crate) fn begin_snapshot(self) -> String {
        self.with_begin(BEGIN_SNAPSHOT)
    }
}
