//! The binary `scrip`.

mod cli;
mod commands;
mod dev;
mod serve;
mod signals;

use std::process::ExitCode;

/// Measured: a read takes a fifth less time than with the allocator of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
