//! `with-postgres COMMAND…` runs a command with a new, empty PostgreSQL database as its
//! `SCRIP_STORAGE_URL`.
//!
//! `with-postgres` starts a PostgreSQL server and stops it at its end. Inside another
//! `with-postgres`, it only creates a database on the server of the other one and executes the
//! command. So one `with-postgres` can run a test suite, and another one each vault that the suite
//! starts.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a command for tests that panics if a requirement is missing"
)]

use std::{
    env,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use scrip_testing::postgres::{self, query::query_database};
use uuid::Uuid;

/// The variable with the superuser address of the outer server.
const SERVER_URL: &str = "SCRIP_TEST_POSTGRES";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: with-postgres COMMAND [ARGUMENT]...");
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let outer_url = env::var_os(SERVER_URL).map(|it| it.into_string().expect("an address"));
    let server_url = outer_url.clone().unwrap_or_else(postgres::server_url);
    let name = format!("vault_{}", Uuid::new_v4().simple());
    let result = query_database(
        &server_url,
        &format!("CREATE DATABASE {name} OWNER {}", postgres::OWNER_ROLE),
    );
    drop(result);
    command.env("SCRIP_STORAGE_URL", postgres::database_url(&server_url, &name));
    if outer_url.is_some() {
        panic!("the command cannot be executed: {}", command.exec());
    }
    let status = command.env(SERVER_URL, server_url).status().expect("run the command");
    ExitCode::from(status.code().and_then(|it| u8::try_from(it).ok()).unwrap_or(1))
}
