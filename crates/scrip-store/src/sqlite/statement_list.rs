//! The statements about tokens and 3-D Secure sessions, for whoever looks at how the engine runs
//! them. Each has its name in its first line.

use crate::{
    shared::session_cards,
    sqlite::{
        engine::write_transaction,
        maintenance::expiry,
        tokens::{index_entries, listing, newest_tokens, writes},
    },
    stores::threeds_sessions,
};

#[must_use]
pub fn list_statements() -> Vec<&'static str> {
    let all = [
        writes::STATEMENTS,
        index_entries::STATEMENTS,
        listing::STATEMENTS,
        newest_tokens::STATEMENTS,
        expiry::STATEMENTS,
        write_transaction::STATEMENTS,
        session_cards::STATEMENTS,
        threeds_sessions::STATEMENTS,
    ];
    all.concat()
}
