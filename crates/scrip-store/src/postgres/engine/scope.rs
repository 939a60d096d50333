//! Whose rows a transaction sees and writes: the second wall between tenants.
//!
//! The first one is that every statement names the tenant. Policies in the schema let through only
//! rows of the tenant that the transaction says it is about; where it says nothing, none. What is
//! rightly about all tenants says so, by [`Scope::every_tenant`]: whoever looks for places where the
//! wall is open looks for that.
//!
//! It is said in each transaction and ends with it, for behind a pooler the next one is another's.

use scrip_core::id::TenantId;

/// As the policies in the schema read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowScope(TenantScope);

#[derive(Debug, Clone, Copy)]
enum TenantScope {
    Tenant(TenantId),
    AllTenants,
    NoTenant,
}

/// A client that waits for longer gets no answer anyway.
macro_rules! timeouts {
    () => {
        "SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; "
    };
}

/// The last keeps a node that hangs from holding a tenant.
const BEGIN_WRITE: &str = concat!(
    "BEGIN ISOLATION LEVEL READ COMMITTED; ",
    timeouts!(),
    "SET LOCAL idle_in_transaction_session_timeout = '10s'; "
);

/// Its end is sent with it, so it does not idle.
const BEGIN_SINGLE: &str = concat!("BEGIN ISOLATION LEVEL READ COMMITTED; ", timeouts!());

/// What goes through whole tables.
const BEGIN_LONG: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '60s'; ";

const BEGIN_SNAPSHOT: &str = concat!(
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ",
    timeouts!(),
    "SET LOCAL idle_in_transaction_session_timeout = '10s'; "
);

impl RowScope {
    pub(crate) fn for_tenant(tenant: TenantId) -> Self {
        Self(TenantScope::Tenant(tenant))
    }

    /// For what is found by something that names no tenant, or is the vault's own work.
    pub(crate) fn all_tenants() -> Self {
        Self(TenantScope::AllTenants)
    }

    /// For tables that belong to nobody.
    pub(crate) fn no_tenant() -> Self {
        Self(TenantScope::NoTenant)
    }

    /// A UUID needs no quoting.
    pub(crate) fn set_statement(self) -> String {
        match self.0 {
            TenantScope::Tenant(TenantId(id)) => format!("SET LOCAL scrip.tenant = '{id}'"),
            TenantScope::AllTenants => "SET LOCAL scrip.tenant = 'every'".to_owned(),
            // Not left out: somebody may have said something for the whole session.
            TenantScope::NoTenant => "SET LOCAL scrip.tenant = ''".to_owned(),
        }
    }

    fn with_begin(self, begin: &str) -> String {
        let mut begin = begin.to_owned();
        begin.push_str(&self.set_statement());
        begin
    }

    /// A transaction that writes, of several statements.
    pub(crate) fn begin_write(self) -> String {
        self.with_begin(BEGIN_WRITE)
    }

    /// A transaction of one statement.
    pub(crate) fn begin_single(self) -> String {
        self.with_begin(BEGIN_SINGLE)
    }

    /// One statement that may take its time.
    pub(crate) fn begin_long(self) -> String {
        self.with_begin(BEGIN_LONG)
    }

    /// A transaction that reads, whose statements see the database as the first of them does.
    pub(crate) fn begin_snapshot(self) -> String {
        self.with_begin(BEGIN_SNAPSHOT)
    }
}
