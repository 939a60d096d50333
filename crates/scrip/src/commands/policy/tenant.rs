//! `scrip tenant`: create, list, show, delete, restore, and quotas.

use clap::Subcommand;
use scrip_operator::actions::tenant::{
    CreateTenant, DeleteTenant, ListTenants, RestoreTenant, SetTenantQuotas, ShowTenant,
    ShowTenantQuotas,
};
use scrip_server::config::Environment;

use crate::commands::arguments::{ActionCommand, ApprovedActionCommand};

const CREATE_EXAMPLES: &str = "\
Examples:
  scrip tenant create Acme --type production
  scrip tenant create Acme-Test --type test

The type cannot change later. Production is for real cards. Test is for development: lower rate
limits, the simulator for 3-D Secure, no grace period when the tenant is deleted.

Then create an application that can manage the tenant over HTTP:
  scrip application create --tenant Acme --name Admin --type management --all";

const QUOTA_EXAMPLES: &str = "\
Examples:
  scrip tenant quota set Acme log_retention=30d tokenize_limit=100
  scrip tenant quota set Acme rate_limit=200%

Durations are written as 90s, 15m, 24h, 30d. A running server applies a change within a second.";

#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// Create a tenant with its own encryption keys.
    #[command(
        after_help = CREATE_EXAMPLES,
        override_usage = "scrip tenant create <NAME> --type <production|test> [OPTIONS]"
    )]
    Create(ActionCommand<CreateTenant>),
    /// List all tenants.
    List(ActionCommand<ListTenants>),
    /// Show a tenant: settings, quotas and applications.
    Show(ActionCommand<ShowTenant>),
    /// Delete a tenant: its API keys stop working, and its encryption keys are destroyed after
    /// `deletion_grace`.
    Delete(ApprovedActionCommand<DeleteTenant>),
    /// Restore a deleted tenant before the end of `deletion_grace`: its API keys work again.
    Restore(ApprovedActionCommand<RestoreTenant>),
    /// Manage quotas: limits and retention of a tenant.
    #[command(subcommand)]
    Quota(QuotaCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show the quotas of a tenant.
    Show(ActionCommand<ShowTenantQuotas>),
    /// Set quotas of a tenant.
    #[command(after_help = QUOTA_EXAMPLES)]
    Set(ApprovedActionCommand<SetTenantQuotas>),
}

pub(crate) fn run(command: &TenantCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        TenantCommand::Create(command) => {
            command.action.check()?;
            command.run(environment)
        }
        TenantCommand::List(command) => command.run(environment),
        TenantCommand::Show(command) => command.run(environment),
        TenantCommand::Delete(command) => command.run(environment),
        TenantCommand::Restore(command) => command.run(environment),
        TenantCommand::Quota(QuotaCommand::Show(command)) => command.run(environment),
        TenantCommand::Quota(QuotaCommand::Set(command)) => command.run(environment),
    }
}
