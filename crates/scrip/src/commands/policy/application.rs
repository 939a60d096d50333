//! `scrip application`: create, list, delete.

use clap::Subcommand;
use scrip_operator::actions::application::{
    CreateApplication, DeleteApplication, ListApplications,
};
use scrip_server::config::Environment;

use crate::commands::arguments::{ActionCommand, ApprovedActionCommand};

const CREATE_EXAMPLES: &str = "\
Examples:
  scrip application create --tenant Acme --name Admin --type management --all
  scrip application create --tenant Acme --name Checkout --type public --permission token:create \\
    --origin https://shop.example
  scrip application create --tenant Acme --name Billing --type private --rule \\
    '{\"container\":\"/pci/\",\"transform\":\"reveal\",\"permissions\":[\"token:read\"]}'

The key is displayed once. Permissions without a rule apply to every container and return masked data.";

#[derive(Debug, Subcommand)]
pub(crate) enum ApplicationCommand {
    /// Create an application and its first key.
    #[command(after_help = CREATE_EXAMPLES)]
    Create(ApprovedActionCommand<CreateApplication>),
    /// List the applications of one tenant or of all tenants.
    List(ActionCommand<ListApplications>),
    /// Delete an application: its keys stop working within a second.
    Delete(ActionCommand<DeleteApplication>),
}

pub(crate) fn run(command: &ApplicationCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        ApplicationCommand::Create(command) => command.run(environment),
        ApplicationCommand::List(command) => command.run(environment),
        ApplicationCommand::Delete(command) => command.run(environment),
    }
}
