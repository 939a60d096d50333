//! `scrip access-session`: list, revoke.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_core::{
    Error,
    operations::access_sessions::{
        list_access_sessions::{LISTED_SESSIONS_MAX, list_access_sessions},
        revoke_access_session::revoke_access_session,
    },
    policy::{AccessSessionId, AccessSessionRecord, Tenant},
};
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::{Value, json};

use crate::commands::{
    arguments::CommonArguments,
    operator::Operator,
    output::{CommandOutput, table},
};

const REVOKE_EXAMPLES: &str = "\
Examples:
  scrip access-session list --tenant Acme
  scrip access-session revoke 3f9c27a1b04e

To end all sessions that an API key authorized, delete the key: scrip key delete KEY_ID";

/// Length of the id in the table; `--json` prints the complete id.
const SHORT_ID_CHARS: usize = 12;
const PREFIX_CHARS_MIN: usize = 8;

#[derive(Debug, Subcommand)]
pub(crate) enum AccessSessionCommand {
    /// List active access sessions of one tenant or of all tenants.
    List {
        /// Id or name of the tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Revoke an access session: it ends immediately on every node.
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke {
        /// Id of the session, or its first characters (at least 8).
        session: String,
        #[command(flatten)]
        common: CommonArguments,
    },
}

pub(crate) fn run(command: &AccessSessionCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        AccessSessionCommand::List { tenant, common } => {
            common.with_vault(environment, "access-session list", async |it| {
                list(it, tenant.as_deref()).await
            })
        }
        AccessSessionCommand::Revoke { session, common } => {
            common.with_vault(environment, "access-session revoke", async |it| {
                revoke(it, session).await
            })
        }
    }
}

type TenantSession<'a> = (&'a Arc<Tenant>, AccessSessionRecord);

async fn list(operator: &Operator, tenant: Option<&str>) -> anyhow::Result<CommandOutput> {
    let mut tenant_sessions: Vec<TenantSession<'_>> = Vec::new();
    let mut is_truncated = false;
    for tenant in operator.tenants(tenant)? {
        let sessions = list_access_sessions(&operator.vault, &operator.policy_permit(tenant)).await;
        let sessions = sessions.map_err(explain)?;
        is_truncated |= sessions.len() >= LISTED_SESSIONS_MAX;
        tenant_sessions.extend(sessions.into_iter().map(|it| (tenant, it)));
    }
    let rows: Vec<_> = tenant_sessions.iter().map(table_row).collect();
    let names = ["ID", "TENANT", "STARTED BY", "AUTHORIZED BY KEY", "ENDS"];
    let mut text = table(names, &rows);
    if is_truncated {
        text += "there are more sessions: the list contains the 1000 of each tenant that expire \
                 last\n";
    }
    let alterations = operator.alterations.descriptions();
    text += &operator.alterations.lines();
    let sessions: Vec<Value> = tenant_sessions.iter().map(session_json).collect();
    let json = json!({
        "access_sessions": sessions, "complete": !is_truncated, "alterations": alterations,
    });
    Ok(CommandOutput::new(text, json))
}

fn table_row((tenant, session): &TenantSession<'_>) -> [String; 5] {
    let key = session.grant.as_ref().map(|it| it.api_key.to_string());
    [
        session.id.to_string().chars().take(SHORT_ID_CHARS).collect(),
        tenant.name.as_str().to_owned(),
        session.application.to_string(),
        key.unwrap_or_else(|| "-".to_owned()),
        session.expires_at.to_string(),
    ]
}

fn session_json((tenant, session): &TenantSession<'_>) -> Value {
    let authorized = session.grant.as_ref().map(|it| {
        let access: Value = serde_json::from_str(&it.access.to_text()).unwrap_or_default();
        json!({
            "application_id": it.authorizer.to_string(),
            "key_id": it.api_key.to_string(),
            "at": it.at.to_string(),
            "permissions": access.get("permissions"),
            "rules": access.get("rules"),
        })
    });
    json!({
        "id": session.id.to_string(),
        "tenant_id": tenant.id.to_string(),
        "application_id": session.application.to_string(),
        "created_at": session.created_at.to_string(),
        "expires_at": session.expires_at.to_string(),
        "authorized": authorized,
    })
}

async fn revoke(operator: &Operator, id_or_prefix: &str) -> anyhow::Result<CommandOutput> {
    let is_hex = id_or_prefix.bytes().all(|it| it.is_ascii_hexdigit());
    if !is_hex || id_or_prefix.len() < PREFIX_CHARS_MIN {
        bail!(
            "the id of an access session consists of hexadecimal digits; give at least 8 of them"
        );
    }
    let prefix = id_or_prefix.to_ascii_lowercase();
    let missing = || {
        let message =
            format!("access session {prefix} does not exist; run: scrip access-session list");
        operator.missing_message(&message)
    };
    let (tenants, vault) = (operator.directory.tenants(), &operator.vault);
    let candidates: Vec<(&Arc<Tenant>, AccessSessionId)> = match AccessSessionId::parse(&prefix) {
        // Includes sessions that are not in the list.
        Some(id) => tenants.into_iter().map(|it| (it, id)).collect(),
        None => vec![find_by_prefix(operator, &prefix).await?.with_context(missing)?],
    };
    for (tenant, id) in candidates {
        match revoke_access_session(vault, operator.policy_permit(tenant), id).await {
            Ok(()) => {
                let text = format!("revoked access session {id}");
                return Ok(CommandOutput::new(
                    text,
                    json!({ "id": id.to_string(), "revoked": true }),
                ));
            }
            Err(Error::NotFound) => (),
            Err(error) => return Err(explain(error)),
        }
    }
    bail!(missing())
}

/// Finds the only listed session with this prefix.
async fn find_by_prefix<'a>(
    operator: &'a Operator,
    prefix: &str,
) -> anyhow::Result<Option<(&'a Arc<Tenant>, AccessSessionId)>> {
    let mut matches = Vec::new();
    for tenant in operator.directory.tenants() {
        let sessions = list_access_sessions(&operator.vault, &operator.policy_permit(tenant)).await;
        let ids = sessions.map_err(explain)?.into_iter().map(|it| it.id);
        matches.extend(ids.filter(|it| it.to_string().starts_with(prefix)).map(|it| (tenant, it)));
    }
    if matches.len() > 1 {
        bail!("several access sessions start with {prefix}; give more of the id");
    }
    Ok(matches.pop())
}
