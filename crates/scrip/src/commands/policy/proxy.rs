//! `scrip proxy host`: add, remove, list.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_core::{
    Error, FieldError,
    operations::proxies::set_proxy_host::{add_proxy_host, remove_proxy_host},
    policy::{Tenant, destination::HostName, proxy::ProxyRecord},
    types::id::ProxyId,
};
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::json;

use crate::commands::{
    arguments::{ApprovedArguments, CommonArguments},
    operator::Operator,
    output::{CommandOutput, table},
};

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
    Add {
        /// DNS name, such as pay.shop.example.
        host: String,
        /// Id of the proxy.
        proxy: String,
        #[command(flatten)]
        common: ApprovedArguments,
    },
    /// Remove a host: within a second it selects no proxy.
    Remove {
        /// DNS name, such as pay.shop.example.
        host: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the hosts of the proxies of one tenant or of all tenants.
    List {
        /// Id or name of the tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        common: CommonArguments,
    },
}

pub(crate) fn run(command: &ProxyCommand, environment: &Environment) -> anyhow::Result<()> {
    let ProxyCommand::Host(command) = command;
    match command {
        HostCommand::Add { host, proxy, common } => {
            let parameters = json!({ "host": host, "proxy": proxy });
            common.with_approved_vault(environment, "proxy host add", &parameters, async |it| {
                add(it, host, proxy).await
            })
        }
        HostCommand::Remove { host, common } => {
            common.with_vault(environment, "proxy host remove", async |it| remove(it, host).await)
        }
        HostCommand::List { tenant, common } => {
            common
                .with_vault(environment, "proxy host list", async |it| list(it, tenant.as_deref()))
        }
    }
}

type TenantProxy<'a> = (&'a Arc<Tenant>, &'a Arc<ProxyRecord>);

fn proxies<'a>(tenants: Vec<&'a Arc<Tenant>>) -> Vec<TenantProxy<'a>> {
    tenants.into_iter().flat_map(|it| it.proxies.values().map(move |proxy| (it, proxy))).collect()
}

fn parse_host(text: &str) -> anyhow::Result<HostName> {
    HostName::parse(text)
        .map_err(|FieldError { problem, .. }| anyhow::anyhow!("the host {problem}"))
}

async fn add(operator: &Operator, host: &str, proxy: &str) -> anyhow::Result<CommandOutput> {
    let host = parse_host(host)?;
    let id = ProxyId::parse(proxy).context("this is not the id of a proxy")?;
    let found = proxies(operator.directory.tenants()).into_iter().find(|(_, it)| it.id == id);
    let (tenant, record) =
        found.with_context(|| operator.missing_message(&format!("proxy {id} does not exist")))?;
    let permit = operator.policy_permit(tenant);
    let added = add_proxy_host(&operator.vault, permit, id, host.clone()).await;
    if let Err(Error::Conflict { .. }) = added {
        bail!("another proxy has the host {}; run: scrip proxy host list", host.as_str());
    }
    added.map_err(explain)?;
    let mut text = format!("{} selects proxy {id} ({})\n", host.as_str(), record.name.as_str());
    if !record.require_auth {
        text +=
            "warning: the proxy needs no API key, so everyone who can reach the host can call it\n";
    }
    Ok(CommandOutput::new(text, json!({ "host": host.as_str(), "proxy_id": id.to_string() })))
}

async fn remove(operator: &Operator, host: &str) -> anyhow::Result<CommandOutput> {
    let host = parse_host(host)?;
    let mut proxies = proxies(operator.directory.tenants()).into_iter();
    let Some((tenant, record)) = proxies.find(|(_, it)| it.host.as_ref() == Some(&host)) else {
        let message =
            format!("no proxy has the host {}; run: scrip proxy host list", host.as_str());
        bail!(operator.missing_message(&message))
    };
    let permit = operator.policy_permit(tenant);
    remove_proxy_host(&operator.vault, permit, record.id, host.clone()).await.map_err(explain)?;
    let text = format!("removed the host {} of proxy {}", host.as_str(), record.id);
    let json = json!({ "host": host.as_str(), "proxy_id": record.id.to_string(), "removed": true });
    Ok(CommandOutput::new(text, json))
}

fn list(operator: &Operator, tenant: Option<&str>) -> anyhow::Result<CommandOutput> {
    let mut hosts: Vec<_> = proxies(operator.tenants(tenant)?)
        .into_iter()
        .filter_map(|(tenant, proxy)| Some((proxy.host.as_ref()?, tenant, proxy)))
        .collect();
    hosts.sort_by_key(|(host, _, _)| *host);
    let row = |(host, tenant, proxy): &(&HostName, &Arc<Tenant>, &Arc<ProxyRecord>)| {
        [
            host.as_str().to_owned(),
            proxy.id.to_string(),
            tenant.name.as_str().to_owned(),
            proxy.name.as_str().to_owned(),
        ]
    };
    let rows: Vec<_> = hosts.iter().map(row).collect();
    let alterations = operator.alterations.descriptions();
    let mut text = table(["HOST", "PROXY", "TENANT", "NAME"], &rows);
    text += &operator.alterations.lines();
    let body = |(host, tenant, proxy): &(&HostName, &Arc<Tenant>, &Arc<ProxyRecord>)| {
        json!({
            "host": host.as_str(), "proxy_id": proxy.id.to_string(), "name": proxy.name.as_str(),
            "tenant_id": tenant.id.to_string(),
        })
    };
    let bodies: Vec<_> = hosts.iter().map(body).collect();
    Ok(CommandOutput::new(text, json!({ "hosts": bodies, "alterations": alterations })))
}
