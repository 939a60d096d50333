//! The statements about tokens and 3-D Secure sessions, for whoever looks at how the engine runs
//! them. Each has its name in its first line.

use crate::{
    shared,
    sqlite::{
        engine::shared_writes,
        maintenance::sweep,
        sessions::threeds,
        tokens::{entries, listing, survey, writes},
    },
};

#[must_use]
pub fn list_statements() -> Vec<&'static str> {
    let all = [
        writes::STATEMENTS,
        entries::STATEMENTS,
        listing::STATEMENTS,
        survey::STATEMENTS,
        sweep::STATEMENTS,
        shared_writes::STATEMENTS,
        shared::sessions::STATEMENTS,
        threeds::STATEMENTS,
    ];
    all.concat()
}
