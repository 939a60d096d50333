//! The command line.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{config::Environment, dev};

/// A vault for card and personal data that you run yourself.
#[derive(Debug, Parser)]
#[command(name = "scrip", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a vault to try things out with: embedded storage, no services, keys printed.
    Dev(DevArguments),
}

/// The first run makes the data directory, a root key and a test tenant with three applications.
/// Later runs find them again.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct DevArguments {
    /// Where the vault keeps its database and its keys.
    #[arg(long, value_name = "DIR", default_value = "scrip-data")]
    pub(crate) data_dir: PathBuf,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4242")]
    pub(crate) listen: SocketAddr,
    /// Print one line of JSON when ready, and nothing else, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Rate limits, once there are any.
    #[arg(long, value_name = "MODE", default_value = "on")]
    pub(crate) rate_limits: RateLimits,
    /// Allow plain HTTP beyond this machine, such as from inside a container.
    #[arg(long)]
    pub(crate) plain_http: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RateLimits {
    On,
    Off,
}

#[must_use]
pub fn run() -> ExitCode {
    let environment = Environment::read();
    let outcome = match Cli::parse().command {
        Command::Dev(arguments) => dev::run(&arguments, &environment),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a command that failed")]
fn complain(error: &anyhow::Error) {
    eprintln!("scrip: {error:#}");
}
