//! `scrip application`: create, list, delete.

use std::sync::Arc;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use scrip_api::wire::{
    self, ParseError,
    json::JsonFields,
    policy::access::{self, RuleHolder},
};
use scrip_core::{
    idempotency::RenderedResponse,
    operations::applications::{
        create_application::{CreateKey, NewApplication, create_application},
        delete_application::delete_application,
    },
    policy::{AccessPolicy, DisplayName, Tenant, application::origins::ApplicationOrigins},
    types::{ApplicationKind, Permission, Plaintext},
};
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::{Value, json};

use crate::commands::{
    arguments::{ApprovedArguments, CommonArguments},
    operator::Operator,
    output::{CommandOutput, table},
};

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
    Create(CreateApplicationArguments),
    /// List the applications of one tenant or of all tenants.
    List {
        /// Id or name of the tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete an application: its keys stop working within a second.
    Delete {
        /// Id of the application.
        application: String,
        #[command(flatten)]
        common: CommonArguments,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateApplicationArguments {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: String,
    #[arg(long)]
    name: String,
    #[arg(long = "type", value_name = "TYPE")]
    kind: ApplicationType,
    /// Permission for all containers; can be repeated.
    #[arg(long, value_name = "PERMISSION")]
    permission: Vec<String>,
    /// Access rule as in the API, in JSON; can be repeated.
    #[arg(long, value_name = "JSON")]
    rule: Vec<String>,
    /// Origin of pages that may use the key of a public application, such as `https://shop.example`;
    /// can be repeated. Without it, every page may use the key.
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// Every permission of an existing feature that this type can have.
    #[arg(long, conflicts_with_all = ["permission", "rule"])]
    all: bool,
    /// Create no key.
    #[arg(long)]
    no_key: bool,
    #[command(flatten)]
    common: ApprovedArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApplicationType {
    Private,
    Public,
    Management,
}

impl CreateApplicationArguments {
    /// For a second operator.
    fn parameters(&self) -> Value {
        json!({
            "tenant": self.tenant,
            "name": self.name,
            "type": format!("{:?}", self.kind).to_lowercase(),
            "permissions": self.permission,
            "rules": self.rule,
            "origins": self.origin,
            "all": self.all,
            "no_key": self.no_key,
        })
    }
}

pub(crate) fn run(command: &ApplicationCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        ApplicationCommand::Create(arguments) => {
            let (command, parameters) = ("application create", arguments.parameters());
            arguments.common.with_approved_vault(environment, command, &parameters, async |it| {
                create(it, arguments).await
            })
        }
        ApplicationCommand::List { tenant, common } => {
            common
                .with_vault(environment, "application list", async |it| list(it, tenant.as_deref()))
        }
        ApplicationCommand::Delete { application, common } => {
            common.with_vault(environment, "application delete", async |it| {
                delete(it, application).await
            })
        }
    }
}

async fn create(
    operator: &Operator,
    arguments: &CreateApplicationArguments,
) -> anyhow::Result<CommandOutput> {
    let tenant = operator.find_tenant(&arguments.tenant)?;
    let kind = match arguments.kind {
        ApplicationType::Private => ApplicationKind::Private,
        ApplicationType::Public => ApplicationKind::Public,
        ApplicationType::Management => ApplicationKind::Management,
    };
    let new = NewApplication {
        name: DisplayName::parse(&arguments.name).map_err(explain)?,
        kind,
        access: parse_access_policy(arguments, kind)?,
        origins: ApplicationOrigins::parse(&arguments.origin).map_err(explain)?,
        create_key: if arguments.no_key { CreateKey::No } else { CreateKey::Yes },
    };
    let (vault, pepper) = (&operator.vault, operator.directory.pepper());
    let created =
        create_application(vault, operator.policy_permit(tenant), pepper, new, None).await;
    let created = created.map_err(explain)?;
    let mut text = format!("created application {}\n", created.application.record.id);
    for permission in permissions_without_effect(&created.application.record.access) {
        text += &format!("{permission} has no effect: this server does not have the feature\n");
    }
    let mut json = body_as_json(&wire::policy::application::render_created(&created))?;
    if let (Some(key), Some(record)) = (&created.api_key, created.application.api_keys.first()) {
        let (id, key) = (record.id, key.expose());
        text += &format!("created key {id}\n\n  {key}\n\nThe key cannot be displayed again.\n");
        if let Some(object) = json.as_object_mut() {
            object.insert("key_id".to_owned(), id.to_string().into());
        }
    }
    Ok(CommandOutput::new(text, json))
}

/// The granted permissions of features that do not exist.
fn permissions_without_effect(access: &AccessPolicy) -> Vec<&'static str> {
    let granted = Permission::ALL.iter().filter(|it| access.grants(**it));
    granted.filter(|it| it.missing_feature().is_some()).map(|it| it.as_str()).collect()
}

/// Uses the parser of the API, so that both accept the same rules.
fn parse_access_policy(
    arguments: &CreateApplicationArguments,
    kind: ApplicationKind,
) -> anyhow::Result<AccessPolicy> {
    if arguments.all {
        let permissions = Permission::grantable(kind).collect();
        return Ok(AccessPolicy { permissions, rules: Vec::new() });
    }
    if arguments.permission.is_empty() && arguments.rule.is_empty() {
        bail!("the application needs rights: add --permission PERMISSION, --rule JSON or --all");
    }
    let mut rules = Vec::new();
    for rule in &arguments.rule {
        rules.push(wire::json::read(rule.as_bytes()).map_err(explain_parse_error)?.into_exposed());
    }
    let request = json!({ "permissions": arguments.permission, "rules": rules });
    let mut fields = JsonFields::from_body(Plaintext::new(request)).map_err(explain_parse_error)?;
    let access = access::parse(&mut fields, RuleHolder::Application);
    fields.finish().map_err(explain_parse_error)?;
    Ok(access)
}

fn explain_parse_error(error: ParseError) -> anyhow::Error {
    match error {
        ParseError::Failed(error) => explain(error),
        ParseError::Malformed(rule) => anyhow::anyhow!("{rule}"),
    }
}

/// Parses a rendered body as JSON.
pub(crate) fn body_as_json(rendered: &RenderedResponse) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&rendered.body)?)
}

fn list(operator: &Operator, tenant: Option<&str>) -> anyhow::Result<CommandOutput> {
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
            it.record.origins.to_text().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = applications.iter().map(row).collect();
    let alterations = operator.alterations.descriptions();
    let mut text = table(["ID", "TYPE", "KEYS", "TENANT", "NAME", "ORIGINS"], &rows);
    text += &operator.alterations.lines();
    let bodies = applications
        .iter()
        .map(|(_, it)| body_as_json(&wire::policy::application::render_application(it)));
    let bodies: Vec<Value> = bodies.collect::<anyhow::Result<_>>()?;
    Ok(CommandOutput::new(text, json!({ "applications": bodies, "alterations": alterations })))
}

async fn delete(operator: &Operator, id_text: &str) -> anyhow::Result<CommandOutput> {
    let (tenant, application) = operator.find_application(id_text)?;
    let id = application.record.id;
    delete_application(&operator.vault, operator.policy_permit(tenant), id)
        .await
        .map_err(explain)?;
    let text = format!("deleted application {id}; its keys stop working within a second");
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "deleted": true })))
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn application_without_rights_is_rejected_with_the_names_of_the_options() {
        let parse = |options: &[&str]| {
            let words = ["create", "--tenant", "Acme", "--name", "A", "--type", "private"];
            let command = CreateApplicationArguments::augment_args(Command::new("create"));
            let matches = command.get_matches_from([&words[..], options].concat());
            let arguments = CreateApplicationArguments::from_arg_matches(&matches).unwrap();
            parse_access_policy(&arguments, ApplicationKind::Private).map_err(|it| it.to_string())
        };
        let error = parse(&[]).unwrap_err();
        assert!(error.contains("--permission PERMISSION, --rule JSON or --all"), "{error}");
        for options in [&["--permission", "token:read"][..], &["--all"]] {
            assert!(parse(options).is_ok(), "{options:?}");
        }
    }
}
