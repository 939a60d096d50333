//! The command line.

#[cfg(test)]
mod command_table;
#[cfg(test)]
mod wait_option;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use scrip_server::config::{
    Environment, Settings,
    check::{self, OutputFormat},
    is_setting_problem,
};

use crate::{
    commands::{
        approve::{self, Decision, DecisionArguments},
        arguments::CommonArguments,
        audit::{self, AuditCommand},
        bin::{self, BinCommand},
        doctor, init,
        keys::{self, KeysCommand, unseal},
        migrate,
        output::{print_message, print_output},
        policy::{
            access_session::{self, AccessSessionCommand},
            application::{self, ApplicationCommand},
            key::{self, KeyCommand},
            proxy::{self, ProxyCommand},
            restore::{self as policy_restore, PolicyCommand},
            tenant::{self, TenantCommand},
            webhook::{self, WebhookCommand},
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
    dev::{self, arguments::DevArguments},
    serve::{self, Announcement},
};

const EXAMPLES: &str = "\
Try it out:
  scrip dev

Set up a server:
  scrip config example > scrip.toml    Print every setting with its description
  scrip config check                   Check the settings and print them
  scrip init                           Create a data directory, a root key and a vault
  scrip migrate                        Migrate PostgreSQL after an update
  scrip tenant create Acme --type production
  scrip application create --tenant Acme --name Admin --type management --all
  scrip serve                          Run the server until SIGTERM

Operate a running server:
  scrip status                         Print counts, sizes and the running server
  scrip doctor                         Check for problems
  scrip audit verify                   Verify the audit logs
  scrip backup FILE                    Write a backup to one file

Move a stopped vault to another engine:
  scrip export FILE                    Write the encrypted vault to a file
  scrip import FILE                    Read it into empty storage

Environment variables override settings: SCRIP_SERVER_LISTEN=127.0.0.1:8080 scrip serve";

/// A self-hosted vault for card and personal data.
#[derive(Debug, Parser)]
#[command(name = "scrip", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a development vault: embedded storage, no other services, keys printed.
    Dev(DevArguments),
    /// Run the server.
    Serve(ServeArguments),
    /// Create a data directory, a root key and an empty vault; existing ones are not changed.
    #[command(after_help = INIT_EXAMPLES)]
    Init(InitArguments),
    /// Check and print settings.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Manage tenants: create, list, show, delete, restore, quotas.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Manage applications: create, list, delete.
    #[command(subcommand)]
    Application(ApplicationCommand),
    /// Manage API keys: create, list, find, delete, import.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage unlock methods and encryption keys: list, add, remove, rotate.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Manage the hosts of proxies: add, remove, list.
    #[command(subcommand)]
    Proxy(ProxyCommand),
    /// Manage webhooks and their deliveries: list, deliveries, replay, enable.
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Put an altered policy back from a backup.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Manage access sessions of browsers: list, revoke.
    #[command(subcommand)]
    AccessSession(AccessSessionCommand),
    /// Manage BIN data: import, status, remove.
    #[command(subcommand)]
    Bin(BinCommand),
    /// Verify the audit logs.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// List the requests that wait for a second operator.
    #[command(after_help = approve::EXAMPLES)]
    Approvals {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Approve a request of another operator.
    #[command(after_help = approve::EXAMPLES)]
    Approve(DecisionArguments),
    /// Reject a request of an operator, or withdraw an own one.
    #[command(after_help = approve::EXAMPLES)]
    Reject(DecisionArguments),
    /// Enter one share of the vault key, to unseal the vault of a running server.
    #[command(after_help = unseal::EXAMPLES)]
    Unseal {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Print counts, sizes and the running server.
    Status {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Check this installation for problems and print how to fix them.
    Doctor {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Create the PostgreSQL schema or migrate it to the version of this program.
    #[command(after_help = migrate::EXAMPLES)]
    Migrate {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Write a backup of the vault to one file, also while a server runs; or verify a backup.
    Backup(BackupArguments),
    /// Restore a vault from a backup into an empty data directory.
    Restore(RestoreArguments),
    /// Export a stopped vault to a file that another engine can import.
    Export(ExportArguments),
    /// Import an exported vault into empty storage.
    Import(ImportArguments),
    /// Run a simulator of directory servers and an issuer, to test 3-D Secure.
    Simulator(SimulatorArguments),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completions { shell: Shell },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  scrip serve
  scrip serve --config /etc/scrip/scrip.toml

Until an unlock method opens the vault, every request except /healthz is rejected with 503.
On SIGTERM and SIGINT, requests in flight can finish. SIGHUP reloads the certificate.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
struct ServeArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Data directory of the vault; overrides the settings.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Print one line of JSON on standard output when listening.
    #[arg(long)]
    json: bool,
}

const INIT_EXAMPLES: &str = "\
Examples:
  scrip init
  scrip init --data-dir /var/lib/scrip

An existing root key is never overwritten. SCRIP_ROOT_KEY replaces the root key file.";

#[derive(Debug, Args)]
struct InitArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// The data directory, whatever the settings say.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

/// Location of the settings, for every command that needs them.
#[derive(Debug, Args)]
struct ConfigArgument {
    /// Settings file [default: `SCRIP_CONFIG`, else scrip.toml if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print problems of the settings, or the effective settings and their sources.
    Check {
        #[command(flatten)]
        config: ConfigArgument,
        /// Print one line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print an example file with every setting, its description and default.
    Example,
}

const COMPLETION_EXAMPLES: &str = "\
Examples:
  scrip completions bash > /etc/bash_completion.d/scrip
  scrip completions zsh > ~/.zfunc/_scrip";

pub(crate) fn run() -> ExitCode {
    let (command, environment) = (Cli::parse().command, Environment::read());
    let reports_variables = command.reports_unknown_variables();
    let print_warnings =
        || environment.warnings().iter().for_each(|it| print_message(&format!("warning: {it}")));
    if !reports_variables {
        print_warnings();
    }
    match dispatch(command, &environment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With invalid settings, a command ends before it reports anything itself.
            if reports_variables && is_setting_problem(&error) {
                print_warnings();
            }
            print_message(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

impl Command {
    /// Whether the command itself reports unknown variables: servers in the log, and `doctor`
    /// in its report.
    fn reports_unknown_variables(&self) -> bool {
        matches!(self, Self::Dev(_) | Self::Serve(_) | Self::Doctor { .. })
    }
}

fn dispatch(command: Command, environment: &Environment) -> anyhow::Result<()> {
    match command {
        Command::Dev(arguments) => dev::run(&arguments, environment),
        Command::Serve(ServeArguments { config, data_dir, json }) => {
            let announcement = if json { Announcement::Json } else { Announcement::None };
            let flags: Vec<_> = data_dir.map(|it| ("storage.data_dir", it)).into_iter().collect();
            let settings = Settings::load_with(config.config.as_deref(), &flags, environment)?;
            serve::serve(settings, announcement)
        }
        Command::Init(InitArguments { config, data_dir }) => {
            init::run(config.config.as_deref(), data_dir, environment)
        }
        Command::Config(ConfigCommand::Check { config, json }) => {
            let saying = if json { OutputFormat::Json } else { OutputFormat::Text };
            let report = check::check_settings(config.config.as_deref(), saying, environment);
            print_output(&report.output)?;
            report.result
        }
        Command::Config(ConfigCommand::Example) => print_output(&check::example()),
        Command::Tenant(command) => tenant::run(&command, environment),
        Command::Application(command) => application::run(&command, environment),
        Command::Key(command) => key::run(&command, environment),
        Command::Keys(command) => keys::run(&command, environment),
        Command::Proxy(command) => proxy::run(&command, environment),
        Command::Webhook(command) => webhook::run(&command, environment),
        Command::Policy(command) => policy_restore::run(&command, environment),
        Command::AccessSession(command) => access_session::run(&command, environment),
        Command::Bin(command) => bin::run(&command, environment),
        Command::Audit(command) => audit::run(&command, environment),
        Command::Unseal { common } => unseal::run(&common, environment),
        Command::Approvals { common } => approve::list(&common, environment),
        Command::Approve(arguments) => approve::decide(&arguments, Decision::Approve, environment),
        Command::Reject(arguments) => approve::decide(&arguments, Decision::Reject, environment),
        Command::Status { common } => status::run(&common, environment),
        Command::Doctor { common } => doctor::run(&common, environment),
        Command::Migrate { common } => migrate::run(&common, environment),
        Command::Backup(arguments) => backup::run(&arguments, environment),
        Command::Restore(arguments) => restore::run(&arguments, environment),
        Command::Export(arguments) => export::run(&arguments, environment),
        Command::Import(arguments) => import::run(&arguments, environment),
        Command::Simulator(arguments) => simulator::run(&arguments, environment),
        Command::Completions { shell } => print_completions(shell),
    }
}

fn print_completions(shell: Shell) -> anyhow::Result<()> {
    // Into memory first: the library panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "scrip", &mut script);
    print_output(&String::from_utf8_lossy(&script))
}
