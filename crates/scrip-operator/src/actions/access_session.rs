//! Access sessions of browsers: list, revoke.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::{
    Error,
    operations::access_sessions::{
        list_access_sessions::{LISTED_SESSIONS_MAX, list_access_sessions},
        revoke_access_session::revoke_access_session,
    },
    policy::{AccessSessionId, AccessSessionRecord, Tenant},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec},
    error::explain,
    operator::Operator,
    output::{Column, CommandOutput},
};

/// Length of the id in the table; `--json` prints the complete id.
const SHORT_ID_CHARS: usize = 12;
const PREFIX_CHARS_MIN: usize = 8;

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListAccessSessions {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: Option<String>,
}

impl Action for ListAccessSessions {
    const SPEC: ActionSpec = ActionSpec::view("access-session list");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let mut rows = Vec::new();
        let mut is_truncated = false;
        for tenant in operator.tenants(self.tenant.as_deref())? {
            let permit = operator.policy_permit(tenant);
            let sessions = list_access_sessions(&operator.vault, &permit).await;
            let sessions = sessions.map_err(explain)?;
            is_truncated |= sessions.len() >= LISTED_SESSIONS_MAX;
            rows.extend(sessions.iter().map(|it| session_json(tenant, it)));
        }
        let columns = [
            Column::start("ID", "/id", SHORT_ID_CHARS),
            Column::new("TENANT", "/tenant"),
            Column::new("STARTED BY", "/application_id"),
            Column::new("AUTHORIZED BY KEY", "/authorized/key_id"),
            Column::new("ENDS", "/expires_at"),
        ];
        let notice = match is_truncated {
            true => {
                "there are more sessions: the list contains the 1000 of each tenant that expire \
                 last\n"
            }
            false => "",
        };
        let output = CommandOutput::list("access_sessions", columns, rows);
        Ok(operator.with_alterations(output.with("complete", !is_truncated, notice)))
    }
}

fn session_json(tenant: &Tenant, session: &AccessSessionRecord) -> Value {
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
        "tenant": tenant.name.as_str(),
        "application_id": session.application.to_string(),
        "created_at": session.created_at.to_string(),
        "expires_at": session.expires_at.to_string(),
        "authorized": authorized,
    })
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct RevokeAccessSession {
    /// Id of the session, or its first characters (at least 8).
    session: String,
}

impl Action for RevokeAccessSession {
    const SPEC: ActionSpec = ActionSpec::change("access-session revoke");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        revoke(operator, &self.session).await
    }
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
