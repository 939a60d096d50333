//! The statements of the two hot operations, one list per round trip, for benchmarks that measure
//! the cost of the engine alone.
//!
//! The first line of each statement is its name; parameters are `$1` and so on.

use scrip_core::types::id::TenantId;
use uuid::Uuid;

use crate::postgres::{
    engine::{
        chain::{INSERT_RECORDS, OPEN_CHAIN, PUT_HEAD},
        commit_rows::{PUT_MONTHS, PUT_TYPES},
        scope::RowScope,
        transaction::LOCK_TENANT,
        write_set::{FIND_CONFLICTS, INSERT_TOKENS},
    },
    tokens::writes::FIND_TOKEN,
};

const COMMIT: &str = "COMMIT";

/// Row scope of the tenant with the all-zero id.
fn nil_tenant_scope() -> RowScope {
    RowScope::for_tenant(TenantId(Uuid::nil()))
}

/// Splits the BEGIN statements and appends the others.
fn round_trip(begin: &str, statements: &[&str]) -> Vec<String> {
    let statements = begin.split("; ").chain(statements.iter().copied());
    statements.map(|it| it.trim().to_owned()).collect()
}

/// Statements that create a token that has no conflict and no idempotency key.
pub fn create_token() -> [Vec<String>; 2] {
    let second_round_trip =
        [INSERT_TOKENS, INSERT_RECORDS, PUT_HEAD, PUT_TYPES, PUT_MONTHS, COMMIT];
    [
        round_trip(&nil_tenant_scope().begin_write(), &[LOCK_TENANT, OPEN_CHAIN, FIND_CONFLICTS]),
        second_round_trip.map(str::to_owned).into(),
    ]
}

/// Statements that read a token by its id.
pub fn read_token() -> [Vec<String>; 1] {
    [round_trip(&nil_tenant_scope().begin_single(), &[FIND_TOKEN, COMMIT])]
}

/// Statements that write the read-log record of a read.
pub fn record_read() -> [Vec<String>; 2] {
    let second_round_trip = [INSERT_RECORDS, PUT_HEAD, COMMIT];
    [
        round_trip(&nil_tenant_scope().begin_write(), &[LOCK_TENANT, OPEN_CHAIN]),
        second_round_trip.map(str::to_owned).into(),
    ]
}
