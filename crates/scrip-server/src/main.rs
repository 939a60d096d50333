//! The binary `scrip`.

use std::process::ExitCode;

fn main() -> ExitCode {
    scrip_server::cli::run()
}
