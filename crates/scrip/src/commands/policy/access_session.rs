//! `scrip access-session`: list, revoke.

use clap::Subcommand;
use scrip_operator::actions::access_session::{ListAccessSessions, RevokeAccessSession};
use scrip_server::config::Environment;

use crate::commands::arguments::ActionCommand;

const REVOKE_EXAMPLES: &str = "\
Examples:
  scrip access-session list --tenant Acme
  scrip access-session revoke 3f9c27a1b04e

To end all sessions that an API key authorized, delete the key: scrip key delete KEY_ID";

#[derive(Debug, Subcommand)]
pub(crate) enum AccessSessionCommand {
    /// List active access sessions of one tenant or of all tenants.
    List(ActionCommand<ListAccessSessions>),
    /// Revoke an access session: it ends immediately on every node.
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(ActionCommand<RevokeAccessSession>),
}

pub(crate) fn run(command: &AccessSessionCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        AccessSessionCommand::List(command) => command.run(environment),
        AccessSessionCommand::Revoke(command) => command.run(environment),
    }
}
