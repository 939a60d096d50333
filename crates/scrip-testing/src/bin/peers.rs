//! `peers COMMAND…`: runs a command with a new, empty database of PostgreSQL as its `SCRIP_STORAGE_URL`.
//!
//! Without more it has a server of its own, which ends with it. Under another `peers`, it takes a
//! database of that one's server and becomes the command: so a suite can be run by one `peers`, and
//! every vault that it starts by another.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a command for tests, which says what it lacks and ends"
)]

use std::{
    env,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use scrip_testing::postgres::{self, query::query_database};
use uuid::Uuid;

/// Where the server of the outer one is, for whoever may make databases.
const SERVER_URL: &str = "SCRIP_TEST_POSTGRES";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: peers COMMAND [ARGUMENT]...");
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let outer = env::var_os(SERVER_URL).map(|it| it.into_string().expect("an address"));
    let server = outer.clone().unwrap_or_else(postgres::server_url);
    let name = format!("vault_{}", Uuid::new_v4().simple());
    let created =
        query_database(&server, &format!("CREATE DATABASE {name} OWNER {}", postgres::OWNER_ROLE));
    drop(created);
    command.env("SCRIP_STORAGE_URL", postgres::database_url(&server, &name));
    if outer.is_some() {
        panic!("it does not run: {}", command.exec());
    }
    let status = command.env(SERVER_URL, server).status().expect("it runs");
    ExitCode::from(status.code().and_then(|it| u8::try_from(it).ok()).unwrap_or(1))
}
