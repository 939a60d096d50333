//! `scrip webhook`: list, deliveries, replay, enable.

use clap::Subcommand;
use scrip_operator::actions::webhook::{
    EnableWebhook, ListDeliveries, ListWebhooks, ReplayDeliveries,
};
use scrip_server::config::Environment;

use crate::commands::arguments::{ActionCommand, ApprovedActionCommand};

const REPLAY_EXAMPLES: &str = "\
Examples:
  scrip webhook deliveries 7d9e2b41-5c06-4f83-9b1a-2e8f6d3c0a57
  scrip webhook replay 7d9e2b41-5c06-4f83-9b1a-2e8f6d3c0a57 --from 2026-11-01T00:00:00Z

The receiver gets the same events again, with the same ids. A running server sends them.";

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// List the webhooks of one tenant or of all tenants.
    List(ActionCommand<ListWebhooks>),
    /// List the newest deliveries of a webhook, without their events.
    Deliveries(ActionCommand<ListDeliveries>),
    /// Send the events since a time again.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ActionCommand<ReplayDeliveries>),
    /// Enable a webhook that the vault or a client has disabled.
    Enable(ApprovedActionCommand<EnableWebhook>),
}

pub(crate) fn run(command: &WebhookCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        WebhookCommand::List(command) => command.run(environment),
        WebhookCommand::Deliveries(command) => command.run(environment),
        WebhookCommand::Replay(command) => command.run(environment),
        WebhookCommand::Enable(command) => command.run(environment),
    }
}
