//! Hosts that select a proxy: add, remove, list.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::{
    Error, FieldError,
    operations::proxies::set_proxy_host::{add_proxy_host, remove_proxy_host},
    policy::{Tenant, destination::HostName, proxy::ProxyRecord},
    types::id::ProxyId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec},
    error::explain,
    operator::Operator,
    output::{Column, CommandOutput},
};

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct AddProxyHost {
    /// DNS name, such as pay.shop.example.
    host: String,
    /// Id of the proxy.
    proxy: String,
}

impl Action for AddProxyHost {
    const SPEC: ActionSpec = ActionSpec::approved_change("proxy host add");

    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        parse_host(&self.host)?;
        let (tenant, proxy) = find_proxy(operator, &self.proxy)?;
        operator.name_entities(json!({
            "host": self.host, "proxy": self.proxy, "proxy_name": proxy.name.as_str(),
            "tenant": tenant.id.to_string(),
        }))
    }

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        add(operator, &self.host, &self.proxy).await
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct RemoveProxyHost {
    /// DNS name, such as pay.shop.example.
    host: String,
}

impl Action for RemoveProxyHost {
    const SPEC: ActionSpec = ActionSpec::change("proxy host remove");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        remove(operator, &self.host).await
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

fn find_proxy<'a>(operator: &'a Operator, text: &str) -> anyhow::Result<TenantProxy<'a>> {
    let id = ProxyId::parse(text).context("this is not the id of a proxy")?;
    let found = proxies(operator.directory.tenants()).into_iter().find(|(_, it)| it.id == id);
    found.with_context(|| operator.missing_message(&format!("proxy {id} does not exist")))
}

async fn add(operator: &Operator, host: &str, proxy: &str) -> anyhow::Result<CommandOutput> {
    let host = parse_host(host)?;
    let (tenant, record) = find_proxy(operator, proxy)?;
    let id = record.id;
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

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListProxyHosts {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: Option<String>,
}

impl Action for ListProxyHosts {
    const SPEC: ActionSpec = ActionSpec::view("proxy host list");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let mut hosts: Vec<_> = proxies(operator.tenants(self.tenant.as_deref())?)
            .into_iter()
            .filter_map(|(tenant, proxy)| Some((proxy.host.as_ref()?, tenant, proxy)))
            .collect();
        hosts.sort_by_key(|(host, _, _)| *host);
        let row = |(host, tenant, proxy): &(&HostName, &Arc<Tenant>, &Arc<ProxyRecord>)| {
            json!({
                "host": host.as_str(), "proxy_id": proxy.id.to_string(),
                "name": proxy.name.as_str(), "tenant_id": tenant.id.to_string(),
                "tenant": tenant.name.as_str(),
            })
        };
        let columns = [
            Column::new("HOST", "/host"),
            Column::new("PROXY", "/proxy_id"),
            Column::new("TENANT", "/tenant"),
            Column::new("NAME", "/name"),
        ];
        let rows = hosts.iter().map(row).collect();
        Ok(operator.with_alterations(CommandOutput::list("hosts", columns, rows)))
    }
}
