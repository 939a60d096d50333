//! Applications: create, list, delete.

use anyhow::bail;
use clap::{Args, ValueEnum};
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
    policy::{AccessPolicy, DisplayName, application::origins::ApplicationOrigins},
    types::{ApplicationKind, Permission, Plaintext},
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
pub struct CreateApplication {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: String,
    #[arg(long)]
    name: String,
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    kind: ApplicationType,
    /// Permission for all containers; can be repeated.
    #[arg(long, value_name = "PERMISSION")]
    #[serde(rename = "permissions")]
    permission: Vec<String>,
    /// Access rule as in the API, in JSON; can be repeated.
    #[arg(long, value_name = "JSON")]
    #[serde(rename = "rules")]
    rule: Vec<String>,
    /// Origin of pages that may use the key of a public application, such as `https://shop.example`;
    /// can be repeated. Without it, every page may use the key.
    #[arg(long, value_name = "ORIGIN")]
    #[serde(rename = "origins")]
    origin: Vec<String>,
    /// Every permission of an existing feature that this type can have.
    #[arg(long, conflicts_with_all = ["permission", "rule"])]
    all: bool,
    /// Create no key.
    #[arg(long)]
    no_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApplicationType {
    Private,
    Public,
    Management,
}

impl Action for CreateApplication {
    const SPEC: ActionSpec = ActionSpec::approved_change("application create");

    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        new_application(self)?;
        operator.name_entities(serde_json::to_value(self)?)
    }

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        create(operator, self).await
    }
}

fn new_application(arguments: &CreateApplication) -> anyhow::Result<NewApplication> {
    let kind = match arguments.kind {
        ApplicationType::Private => ApplicationKind::Private,
        ApplicationType::Public => ApplicationKind::Public,
        ApplicationType::Management => ApplicationKind::Management,
    };
    Ok(NewApplication {
        name: DisplayName::parse(&arguments.name).map_err(explain)?,
        kind,
        access: parse_access_policy(arguments, kind)?,
        origins: ApplicationOrigins::parse(&arguments.origin).map_err(explain)?,
        create_key: if arguments.no_key { CreateKey::No } else { CreateKey::Yes },
    })
}

async fn create(
    operator: &Operator,
    arguments: &CreateApplication,
) -> anyhow::Result<CommandOutput> {
    let tenant = operator.find_tenant(&arguments.tenant)?;
    let new = new_application(arguments)?;
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
    arguments: &CreateApplication,
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
pub fn body_as_json(rendered: &RenderedResponse) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&rendered.body)?)
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListApplications {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: Option<String>,
}

impl Action for ListApplications {
    const SPEC: ActionSpec = ActionSpec::view("application list");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let tenants = operator.tenants(self.tenant.as_deref())?;
        let mut applications: Vec<_> = tenants
            .iter()
            .flat_map(|tenant| tenant.applications.values().map(move |it| (tenant, it)))
            .collect();
        applications.sort_by_key(|(_, it)| (it.record.created.at, it.record.id));
        let mut rows = Vec::new();
        for (tenant, application) in applications {
            let mut row =
                body_as_json(&wire::policy::application::render_application(application))?;
            if let Some(members) = row.as_object_mut() {
                members.insert("tenant".to_owned(), tenant.name.as_str().into());
            }
            rows.push(row);
        }
        let columns = [
            Column::new("ID", "/id"),
            Column::new("TYPE", "/type"),
            Column::count("KEYS", "/keys"),
            Column::new("TENANT", "/tenant"),
            Column::new("NAME", "/name"),
            Column::new("ORIGINS", "/origins"),
        ];
        Ok(operator.with_alterations(CommandOutput::list("applications", columns, rows)))
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct DeleteApplication {
    /// Id of the application.
    application: String,
}

impl Action for DeleteApplication {
    const SPEC: ActionSpec = ActionSpec::change("application delete");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let (tenant, application) = operator.find_application(&self.application)?;
        let id = application.record.id;
        let permit = operator.policy_permit(tenant);
        delete_application(&operator.vault, permit, id).await.map_err(explain)?;
        let text = format!("deleted application {id}; its keys stop working within a second");
        Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "deleted": true })))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn application_without_rights_is_rejected_with_the_names_of_the_options() {
        let parse = |options: &[&str]| {
            let words = ["create", "--tenant", "Acme", "--name", "A", "--type", "private"];
            let command = CreateApplication::augment_args(Command::new("create"));
            let matches = command.get_matches_from([&words[..], options].concat());
            let arguments = CreateApplication::from_arg_matches(&matches).unwrap();
            parse_access_policy(&arguments, ApplicationKind::Private).map_err(|it| it.to_string())
        };
        let error = parse(&[]).unwrap_err();
        assert!(error.contains("--permission PERMISSION, --rule JSON or --all"), "{error}");
        for options in [&["--permission", "token:read"][..], &["--all"]] {
            assert!(parse(options).is_ok(), "{options:?}");
        }
    }
}
