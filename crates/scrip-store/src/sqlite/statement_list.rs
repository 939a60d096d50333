//! The statements about tokens and 3-D Secure sessions, for whoever looks at how the engine runs
//! them. Each has its name in its first line.

use crate::{
    rules::session_cards,
    sqlite::{
        engine::write_transaction,
        maintenance::sweep,
        tokens::{entries, listing, survey, writes},
    },
    stores::sessions,
};

#[must_use]
pub fn list_statements() -> Vec<&'static str> {
    let all = [
        writes::STATEMENTS,
        entries::STATEMENTS,
        listing::STATEMENTS,
        survey::STATEMENTS,
        sweep::STATEMENTS,
        write_transaction::STATEMENTS,
        session_cards::STATEMENTS,
        sessions::STATEMENTS,
    ];
    all.concat()
}
