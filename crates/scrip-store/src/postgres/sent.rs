//! What the two hot operations send, one list for each round trip, for whoever measures what they
//! cost the engine alone. Each statement has its name in its first line, and `$1` and so on.

use scrip_core::id::TenantId;
use uuid::Uuid;

use crate::postgres::engine::chain::INSERT_RECORDS;
use crate::postgres::engine::chain::OPEN;
use crate::postgres::engine::chain::PUT_HEAD;
use crate::postgres::engine::scope::Scope;
use crate::postgres::engine::set::FIND_OBSTACLES;
use crate::postgres::engine::set::INSERT_TOKENS;
use crate::postgres::engine::tally::PUT_MONTHS;
use crate::postgres::engine::tally::PUT_TYPES;
use crate::postgres::tokens::writes::FIND_TOKEN;
use crate::postgres::engine::transaction::ENTER;

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
