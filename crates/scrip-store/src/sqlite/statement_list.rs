//! Statements about tokens, 3DS sessions and deliveries, for tests of their query plans. The first
//! line of each statement is its name.

use crate::{
    shared,
    sqlite::{
        engine::{delivery_rows, write_transaction},
        maintenance::{deliveries, expiry, key_rotations},
        tokens::{index_entries, listing, newest_tokens, writes},
    },
};

pub fn list_statements() -> Vec<&'static str> {
    let statements = [
        writes::STATEMENTS,
        index_entries::STATEMENTS,
        listing::STATEMENTS,
        newest_tokens::STATEMENTS,
        expiry::STATEMENTS,
        write_transaction::STATEMENTS,
        shared::session_cards::STATEMENTS,
        shared::threeds_sessions::STATEMENTS,
        shared::deliveries::STATEMENTS,
        delivery_rows::STATEMENTS,
        deliveries::STATEMENTS,
        shared::key_rotations::STATEMENTS,
        key_rotations::STATEMENTS,
    ];
    statements.concat()
}
