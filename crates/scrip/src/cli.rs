//! The command line.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use scrip_server::config::{
    Environment,
    check::{self, OutputFormat},
};

use crate::{
    commands::{
        CommonArguments,
        audit::{self, AuditCommand},
        bin::{self, BinCommand},
        doctor, init, migrate,
        policy::{
            access_session::{self, AccessSessionCommand},
            application::{self, ApplicationCommand},
            key::{self, KeyCommand},
            tenant::{self, TenantCommand},
        },
        simulator::{self, SimulatorArguments},
        status,
        transfer::{
            backup::{self, BackupArguments},
            export::{self, ExportArguments},
            import::{self, ImportArguments},
            restore::{self, RestoreArguments},
        },
    },
    dev,
    serve::{self, Announcement},
};

const EXAMPLES: &str = "\
Try it out:
  scrip dev

Run it for good:
  scrip config example > scrip.toml    every setting, explained
  scrip config check                   what is wrong, or what is in force
  scrip init                           a data directory, a root key, a vault
  scrip migrate                        after an update, when the vault is on PostgreSQL
  scrip tenant create Acme             somebody to serve
  scrip application create --tenant Acme --name Admin --type management --all
  scrip serve                          until SIGTERM

Look after it, while it runs:
  scrip status                         what there is
  scrip doctor                         what could go wrong
  scrip audit verify                   whether the audit trail is whole
  scrip backup FILE                    the vault as it is now, in one file

Move it to another engine, while it does not run:
  scrip export FILE                    all of it, sealed as it is
  scrip import FILE                    into an empty place, where the settings say

Any setting can come from the environment: SCRIP_SERVER_LISTEN=127.0.0.1:8080 scrip serve";

/// A vault for card and personal data that you run yourself.
#[derive(Debug, Parser)]
#[command(name = "scrip", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a vault to try things out with: embedded storage, no services, keys printed.
    Dev(DevArguments),
    /// Serve the vault of the settings.
    Serve(ServeArguments),
    /// Make a data directory, a root key and an empty vault; what is there stays as it is.
    #[command(after_help = INIT_EXAMPLES)]
    Init(ConfigArgument),
    /// Look at settings.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Tenants: create, list, show, delete, restore, quotas.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Applications: create, list, delete.
    #[command(subcommand)]
    Application(ApplicationCommand),
    /// API keys: create, delete, import.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Access sessions of browsers: list, revoke.
    #[command(subcommand)]
    AccessSession(AccessSessionCommand),
    /// BIN data: import, status, remove.
    #[command(subcommand)]
    Bin(BinCommand),
    /// The audit trail: verify.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// What there is, how much of it, and who serves it.
    Status {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// What could go wrong here, and what to do about it.
    Doctor {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Bring PostgreSQL's schema up to what this program needs, or make it.
    #[command(after_help = migrate::EXAMPLES)]
    Migrate {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Write the vault as it is now to one file, beside a running server; or check such a file.
    Backup(BackupArguments),
    /// Put a vault from a backup into an empty data directory.
    Restore(RestoreArguments),
    /// Write a vault that nobody serves to a file from which another engine can take it.
    Export(ExportArguments),
    /// Take a vault from such a file into an empty place.
    Import(ImportArguments),
    /// Play a directory server and a bank, to try 3-D Secure with.
    Simulator(SimulatorArguments),
    /// Print a script that teaches a shell to complete this command line.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completions { shell: Shell },
}

const DEV_EXAMPLES: &str = "\
Examples:
  scrip dev
  scrip dev --listen 127.0.0.1:0 --json --data-dir /tmp/vault";

/// The first run makes the data directory, a root key and a test tenant with three applications.
/// Later runs find them again.
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = DEV_EXAMPLES)]
pub(crate) struct DevArguments {
    /// Where the vault keeps its database and its keys [default: scrip-data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Where to listen; port 0 takes any free one [default: 127.0.0.1:4242].
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Print one line of JSON when ready, and nothing else, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Rate limits [default: on, which for a test tenant is 50 requests in 10 seconds].
    #[arg(long, value_name = "MODE", value_parser = ["on", "off"])]
    pub(crate) rate_limits: Option<String>,
    /// Allow plain HTTP beyond this machine, such as from inside a container.
    #[arg(long)]
    pub(crate) plain_http: bool,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  scrip serve
  scrip serve --config /etc/scrip/scrip.toml

Until the root key is found and opens the vault, everything but /healthz is answered with 503.
SIGTERM and SIGINT let requests in flight finish; SIGHUP reads the certificate again.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
struct ServeArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Print one line of JSON when listening, and nothing else, on standard output.
    #[arg(long)]
    json: bool,
}

const INIT_EXAMPLES: &str = "\
Examples:
  scrip init
  SCRIP_STORAGE_DATA_DIR=/var/lib/scrip scrip init

An existing root key is never overwritten, and SCRIP_ROOT_KEY takes the place of the file.";

/// Where the settings are, for every command that needs some.
#[derive(Debug, Args)]
struct ConfigArgument {
    /// The file with the settings [default: `SCRIP_CONFIG`, else scrip.toml if there is one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what is wrong, or what is in force and where it comes from.
    Check {
        #[command(flatten)]
        config: ConfigArgument,
        /// Say it as one line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a file with every setting, explained, at its default.
    Example,
}

const COMPLETION_EXAMPLES: &str = "\
Examples:
  scrip completions bash > /etc/bash_completion.d/scrip
  scrip completions zsh > ~/.zfunc/_scrip";

pub(crate) fn run() -> ExitCode {
    match dispatch(Cli::parse().command, &Environment::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command, environment: &Environment) -> anyhow::Result<()> {
    match command {
        Command::Dev(arguments) => dev::run(&arguments, environment),
        Command::Serve(ServeArguments { config, json }) => {
            let announcement = if json { Announcement::Json } else { Announcement::None };
            serve::serve(config.config.as_deref(), announcement, environment)
        }
        Command::Init(ConfigArgument { config }) => init::run(config.as_deref(), environment),
        Command::Config(ConfigCommand::Check { config, json }) => {
            let saying = if json { OutputFormat::Json } else { OutputFormat::Text };
            check::check_settings(config.config.as_deref(), saying, environment)
        }
        Command::Config(ConfigCommand::Example) => check::print_example(),
        Command::Tenant(command) => tenant::run(&command, environment),
        Command::Application(command) => application::run(&command, environment),
        Command::Key(command) => key::run(&command, environment),
        Command::AccessSession(command) => access_session::run(&command, environment),
        Command::Bin(command) => bin::run(&command, environment),
        Command::Audit(command) => audit::run(&command, environment),
        Command::Status { common: at } => status::run(&at, environment),
        Command::Doctor { common: at } => doctor::run(&at, environment),
        Command::Migrate { common: at } => migrate::run(&at, environment),
        Command::Backup(arguments) => backup::run(&arguments, environment),
        Command::Restore(arguments) => restore::run(&arguments, environment),
        Command::Export(arguments) => export::run(&arguments, environment),
        Command::Import(arguments) => import::run(&arguments, environment),
        Command::Simulator(arguments) => simulator::run(&arguments, environment),
        Command::Completions { shell } => print_completions(shell),
    }
}

fn print_completions(shell: Shell) -> anyhow::Result<()> {
    // Into memory first: the library panics when nobody reads.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "scrip", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}

#[expect(clippy::print_stderr, reason = "the last word of a command that failed")]
fn print_error(error: &anyhow::Error) {
    eprintln!("scrip: {error:#}");
}
