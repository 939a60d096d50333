//! What the two hot operations send, one list for each round trip, for whoever measures what they
//! cost the engine alone. Each statement has its name in its first line, and `$1` and so on.

use scrip_core::id::TenantId;
use uuid::Uuid;

use crate::postgres::{
    engine::{
        chain::{INSERT_RECORDS, OPEN_CHAIN, PUT_HEAD},
        scope::RowScope,
        transaction::LOCK_TENANT,
        usage_columns::{PUT_MONTHS, PUT_TYPES},
        write_set::{FIND_CONFLICTS, INSERT_TOKENS},
    },
    tokens::writes::FIND_TOKEN,
};

const COMMIT: &str = "COMMIT";

/// Of the tenant whose id is zero.
fn nil_tenant_scope() -> RowScope {
    RowScope::for_tenant(TenantId(Uuid::nil()))
}

fn round_trip(begin: &str, statements: &[&str]) -> Vec<String> {
    let all = begin.split("; ").chain(statements.iter().copied());
    all.map(|it| it.trim().to_owned()).collect()
}

/// A token that has nothing in its way, and no idempotency key.
#[must_use]
pub fn create_token() -> [Vec<String>; 2] {
    let end = [INSERT_TOKENS, INSERT_RECORDS, PUT_HEAD, PUT_TYPES, PUT_MONTHS, COMMIT];
    [
        round_trip(&nil_tenant_scope().begin_write(), &[LOCK_TENANT, OPEN_CHAIN, FIND_CONFLICTS]),
        end.map(str::to_owned).into(),
    ]
}

/// A token by its id.
#[must_use]
pub fn read_token() -> [Vec<String>; 1] {
    [round_trip(&nil_tenant_scope().begin_single(), &[FIND_TOKEN, COMMIT])]
}

/// What is recorded of a read, in the access log.
#[must_use]
pub fn record_read() -> [Vec<String>; 2] {
    let end = [INSERT_RECORDS, PUT_HEAD, COMMIT];
    [
        round_trip(&nil_tenant_scope().begin_write(), &[LOCK_TENANT, OPEN_CHAIN]),
        end.map(str::to_owned).into(),
    ]
}
