//! `scrip application`: create, list, delete.

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use scrip_api::wire::{
    self, ParseError,
    fields::Fields,
    policy::access::{self, Holder},
};
use scrip_core::{
    idempotency::Rendered,
    operations::applications::{
        create_application::{CreateKey, NewApplication, create_application},
        delete_application::delete_application,
    },
    policy::{AccessPolicy, ApplicationKind, Name, Permission, Tenant},
    token::Plain,
};
use scrip_server::{config::Environment, storage::explain};
use serde_json::{Value, json};

use crate::commands::{
    Operator, Where,
    output::{Said, table},
};

const CREATE_EXAMPLES: &str = "\
Examples:
  scrip application create --tenant Acme --name Admin --type management --all
  scrip application create --tenant Acme --name Checkout --type public --permission token:create
  scrip application create --tenant Acme --name Billing --type private --rule \\
    '{\"container\":\"/pci/\",\"transform\":\"reveal\",\"permissions\":[\"token:read\",\"token:use\"]}'

The key is shown once. Permissions without a rule reach every container, and show masks.";

#[derive(Debug, Subcommand)]
pub(crate) enum ApplicationCommand {
    /// Create an application and its first key.
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArguments),
    /// List applications, of one tenant or of all.
    List {
        /// Id or name of a tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        at: Where,
    },
    /// Delete an application: its keys stop working within a second.
    Delete {
        /// Its id.
        application: String,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: String,
    #[arg(long)]
    name: String,
    #[arg(long = "type", value_name = "TYPE")]
    kind: Kind,
    /// A permission, everywhere; can be repeated.
    #[arg(long, value_name = "PERMISSION")]
    permission: Vec<String>,
    /// A rule as the interface writes it, in JSON; can be repeated.
    #[arg(long, value_name = "JSON")]
    rule: Vec<String>,
    /// Every permission that this type can have.
    #[arg(long, conflicts_with_all = ["permission", "rule"])]
    all: bool,
    /// Make no key yet.
    #[arg(long)]
    no_key: bool,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Private,
    Public,
    Management,
}

pub(crate) fn run(command: &ApplicationCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        ApplicationCommand::Create(arguments) => {
            arguments.at.with_vault(environment, "application create", async |it| {
                create(it, arguments).await
            })
        }
        ApplicationCommand::List { tenant, at } => {
            at.with_vault(environment, "application list", async |it| list(it, tenant.as_deref()))
        }
        ApplicationCommand::Delete { application, at } => {
            at.with_vault(environment, "application delete", async |it| {
                delete(it, application).await
            })
        }
    }
}

async fn create(operator: &Operator, arguments: &CreateArguments) -> anyhow::Result<Said> {
    let tenant = operator.tenant(&arguments.tenant)?;
    let kind = match arguments.kind {
        Kind::Private => ApplicationKind::Private,
        Kind::Public => ApplicationKind::Public,
        Kind::Management => ApplicationKind::Management,
    };
    let new = NewApplication {
        name: Name::parse(&arguments.name).map_err(explain)?,
        kind,
        access: rights(arguments, kind)?,
        create_key: if arguments.no_key { CreateKey::No } else { CreateKey::Yes },
    };
    let (vault, pepper) = (&operator.vault, operator.directory.pepper());
    let created = create_application(vault, operator.mandate(tenant), pepper, new, None).await;
    let created = created.map_err(explain)?;
    let mut text = format!("created application {}\n", created.application.record.id);
    if let Some(key) = &created.api_key {
        text += &format!("\n  {}\n\nThe key is not shown again.\n", key.expose());
    }
    Ok(Said::new(text, parsed(&wire::policy::application::created(&created))?))
}

/// By the parser that requests go through, so that both understand the same.
fn rights(arguments: &CreateArguments, kind: ApplicationKind) -> anyhow::Result<AccessPolicy> {
    if arguments.all {
        let held = Permission::ALL.iter().copied().filter(|it| it.kinds().contains(&kind));
        return Ok(AccessPolicy { permissions: held.collect(), rules: Vec::new() });
    }
    let mut rules = Vec::new();
    for rule in &arguments.rule {
        rules.push(wire::json::read(rule.as_bytes()).map_err(spoken)?.into_exposed());
    }
    let asked = json!({ "permissions": arguments.permission, "rules": rules });
    let mut fields = Fields::of(Plain::new(asked)).map_err(spoken)?;
    let access = access::parse(&mut fields, Holder::Application);
    fields.finish().map_err(spoken)?;
    Ok(access)
}

fn spoken(error: ParseError) -> anyhow::Error {
    match error {
        ParseError::Failed(error) => explain(error),
        ParseError::Malformed(rule) => anyhow::anyhow!("{rule}"),
    }
}

/// A rendered body, once more as a value.
pub(crate) fn parsed(rendered: &Rendered) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&rendered.body)?)
}

fn list(operator: &Operator, tenant: Option<&str>) -> anyhow::Result<Said> {
    let tenants = operator.tenants(tenant)?;
    let mut applications: Vec<_> =
        tenants.iter().flat_map(|it| it.applications.values().map(move |app| (it, app))).collect();
    applications.sort_by_key(|(_, it)| (it.record.created.at, it.record.id));
    let row = |(tenant, it): &(&&Arc<Tenant>, &scrip_core::policy::Application)| {
        [
            it.record.id.to_string(),
            it.record.kind.as_str().to_owned(),
            it.api_keys.len().to_string(),
            tenant.name.as_str().to_owned(),
            it.record.name.as_str().to_owned(),
        ]
    };
    let rows: Vec<_> = applications.iter().map(row).collect();
    let text = table(["ID", "TYPE", "KEYS", "TENANT", "NAME"], &rows);
    let bodies = applications.iter().map(|(_, it)| parsed(&wire::policy::application::found(it)));
    let bodies: Vec<Value> = bodies.collect::<anyhow::Result<_>>()?;
    Ok(Said::new(text, json!({ "applications": bodies })))
}

async fn delete(operator: &Operator, application: &str) -> anyhow::Result<Said> {
    let (tenant, found) = operator.application(application)?;
    let id = found.record.id;
    delete_application(&operator.vault, operator.mandate(tenant), id).await.map_err(explain)?;
    let text = format!("deleted application {id}; its keys stop working within a second");
    Ok(Said::new(text, json!({ "id": id.to_string(), "deleted": true })))
}
