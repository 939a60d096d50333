//! Statements about tokens, 3DS sessions and deliveries, for tests of their query plans. The first line of each
//! statement is its name.

use crate::{
    shared::{self, session_cards},
    sqlite::{
        engine::write_transaction,
        maintenance::{deliveries, expiry, key_rotations},
        tokens::{index_entries, listing, newest_tokens, writes},
    },
    stores::threeds_sessions,
};

#[must_use]
pub fn list_statements() -> Vec<&'static str> {
    let statements = [
        writes::STATEMENTS,
        index_entries::STATEMENTS,
        listing::STATEMENTS,
        newest_tokens::STATEMENTS,
        expiry::STATEMENTS,
        write_transaction::STATEMENTS,
        session_cards::STATEMENTS,
        threeds_sessions::STATEMENTS,
        shared::deliveries::STATEMENTS,
        deliveries::STATEMENTS,
        shared::key_rotations::STATEMENTS,
        key_rotations::STATEMENTS,
    ];
    statements.concat()
}
