//! What the two hot operations send, one list for each round trip, for whoever measures what they
//! cost the engine alone. Each statement has its name in its first line, and `$1` and so on.

use scrip_core::id::TenantId;
use uuid::Uuid;

use crate::postgres::{
    engine::{
        chain::{INSERT_RECORDS, OPEN, PUT_HEAD},
        scope::Scope,
        set::{FIND_OBSTACLES, INSERT_TOKENS},
        tally::{PUT_MONTHS, PUT_TYPES},
        transaction::ENTER,
    },
    tokens::writes::FIND_TOKEN,
};

const COMMIT: &str = "COMMIT";

/// Of the tenant whose id is zero.
fn scope() -> Scope {
    Scope::of(TenantId(Uuid::nil()))
}

fn behind(begin: &str, statements: &[&str]) -> Vec<String> {
    let all = begin.split("; ").chain(statements.iter().copied());
    all.map(|it| it.trim().to_owned()).collect()
}

/// A token that has nothing in its way, and no idempotency key.
#[must_use]
pub fn create() -> [Vec<String>; 2] {
    let end = [INSERT_TOKENS, INSERT_RECORDS, PUT_HEAD, PUT_TYPES, PUT_MONTHS, COMMIT];
    [behind(&scope().begin_write(), &[ENTER, OPEN, FIND_OBSTACLES]), end.map(str::to_owned).into()]
}

/// A token by its id.
#[must_use]
pub fn read() -> [Vec<String>; 1] {
    [behind(&scope().begin_one(), &[FIND_TOKEN, COMMIT])]
}

/// What is recorded of a read, in the access log.
#[must_use]
pub fn record() -> [Vec<String>; 2] {
    let end = [INSERT_RECORDS, PUT_HEAD, COMMIT];
    [behind(&scope().begin_write(), &[ENTER, OPEN]), end.map(str::to_owned).into()]
}
