//! `scrip proxy host`: add, remove, list.

use clap::Subcommand;
use scrip_operator::actions::proxy_host::{AddProxyHost, ListProxyHosts, RemoveProxyHost};
use scrip_server::config::Environment;

use crate::commands::arguments::{ActionCommand, ApprovedActionCommand};

const ADD_EXAMPLES: &str = "\
Examples:
  scrip proxy host add pay.shop.example 0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90

Requests to this host go to the proxy without its key. The DNS name and the certificate of the host are
yours to set up. With require_auth false, everyone who can reach the host can call the proxy.";

#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Manage the hosts that select a proxy: add, remove, list.
    #[command(subcommand)]
    Host(HostCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Let a host select a proxy. It replaces an earlier host of the proxy.
    #[command(after_help = ADD_EXAMPLES)]
    Add(ApprovedActionCommand<AddProxyHost>),
    /// Remove a host: within a second it selects no proxy.
    Remove(ActionCommand<RemoveProxyHost>),
    /// List the hosts of the proxies of one tenant or of all tenants.
    List(ActionCommand<ListProxyHosts>),
}

pub(crate) fn run(command: &ProxyCommand, environment: &Environment) -> anyhow::Result<()> {
    let ProxyCommand::Host(command) = command;
    match command {
        HostCommand::Add(command) => command.run(environment),
        HostCommand::Remove(command) => command.run(environment),
        HostCommand::List(command) => command.run(environment),
    }
}
