//! Find the application, the id and the last use of a key.

use std::sync::Arc;

use anyhow::bail;
use scrip_core::{
    policy::{
        AccessSessionId, AccessSessionRecord, ApiKeyLookup, ApiKeyRecord, ApiKeyText,
        ApplicationRecord, Tenant,
    },
    recording::key_use::{LastKeyUse, find_last_key_use},
    types::id::ApiKeyId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    action::{Action, ActionSpec},
    error::explain,
    operator::Operator,
    output::{CommandOutput, name_value_list},
    secret_text::SecretText,
};

#[derive(Debug, Serialize, Deserialize)]
pub struct FindKey {
    pub key: SecretText,
}

impl Action for FindKey {
    const SPEC: ActionSpec = ActionSpec::view("key find");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        // A search reads up to millions of records, so one at a time has a processor.
        static SEARCH: Mutex<()> = Mutex::const_new(());
        let _search = SEARCH.lock().await;
        find_key(operator, self.key.expose()).await
    }
}

/// A key with its application and tenant.
struct FoundKey<'a> {
    tenant: &'a Arc<Tenant>,
    application: &'a ApplicationRecord,
    key: &'a ApiKeyRecord,
}

/// Finds the key with this text. No output or error contains the text.
async fn find_key(operator: &Operator, text: &str) -> anyhow::Result<CommandOutput> {
    if text.is_empty() {
        bail!("no key was given; put it into a file for --file, or send it to standard input");
    }
    let directory = &operator.directory;
    if let Some(found) = find_in_tenants(directory.tenants().into_iter(), &directory.digest(text)) {
        return describe_key(operator, &found).await;
    }
    let deleted = directory.pending_deletion().iter();
    if let Some(found) = find_in_tenants(deleted, &directory.digest(text)) {
        let FoundKey { tenant, application, key } = found;
        bail!(
            "key {} of application {} no longer works: tenant {} is deleted. It works again if the \
             tenant is restored; to prevent that, delete the key after: scrip tenant restore {}",
            key.id,
            application.id,
            tenant.id,
            tenant.id
        );
    }
    if let Some(ApiKeyLookup::PolicyAltered) = directory.authenticate(text) {
        bail!("the key is refused: it belongs to {}", operator.altered_policy_message());
    }
    // An imported key may have any form, also that of an id or of a session key, so the form is
    // checked last, as the server does.
    if ApiKeyId::parse(text).is_some() {
        bail!("this is the id of a key, not a key; to see its application run: scrip key list");
    }
    if ApiKeyText::is_session_key(text) {
        return find_access_session(operator, text).await;
    }
    if !ApiKeyText::has_key_form(text) {
        bail!(
            "no API key of this vault has this text, which has not the form of a key (key_…). Give \
             only the key, without a name, quotation marks or other text around it"
        );
    }
    bail!(
        "no API key of this vault has this text: the key was deleted, or it belongs to another \
         vault. It does not work here"
    )
}

fn find_in_tenants<'a>(
    mut tenants: impl Iterator<Item = &'a Arc<Tenant>>,
    digest: &[u8; 32],
) -> Option<FoundKey<'a>> {
    tenants.find_map(|tenant| {
        tenant.applications.values().find_map(|it| {
            let key = it.api_keys.iter().find(|it| it.digest == *digest)?;
            Some(FoundKey { tenant, application: &it.record, key })
        })
    })
}

async fn describe_key(operator: &Operator, found: &FoundKey<'_>) -> anyhow::Result<CommandOutput> {
    let FoundKey { tenant, application, key } = found;
    let last_use = find_last_key_use(&operator.vault, tenant.id, key.id).await.map_err(explain)?;
    // A key cannot be used before it exists.
    let since = last_use.searched_since.map_or(key.created.at, |it| it.max(key.created.at));
    let mut text = name_value_list(&[
        ("tenant", describe(&tenant.id, tenant.name.as_str(), tenant.kind.as_str())),
        (
            "application",
            describe(&application.id, application.name.as_str(), application.kind.as_str()),
        ),
        ("key id", key.id.to_string()),
        ("created", key.created.at.to_string()),
        ("last used", describe_last_use(&last_use, &since)),
    ]);
    if !last_use.reads_are_recorded {
        text += "\nReads and rejected requests are not recorded: audit.reads is off.\n";
    }
    let (create, delete) =
        (format!("scrip key create {}", application.id), format!("scrip key delete {}", key.id));
    text += &format!(
        "\nIf the key leaked, delete it first: {delete}\nand then replace it: {create}\nTo replace \
         a key that did not leak: {create}\nand when clients use the new key: {delete}\n"
    );
    let json = json!({
        "tenant": tenant_json(tenant),
        "application": application_json(application),
        "key": { "id": key.id.to_string(), "created_at": key.created.at.to_string() },
        "last_use": last_use_json(&last_use),
        "searched_since": since.to_string(),
        "reads_are_recorded": last_use.reads_are_recorded,
    });
    Ok(CommandOutput::new(text, json))
}

fn describe(id: &impl ToString, name: &str, kind: &str) -> String {
    format!("{} ({name}, {kind})", id.to_string())
}

fn describe_last_use(last_use: &LastKeyUse, since: &impl ToString) -> String {
    match &last_use.record {
        None => format!("no use recorded since {}", since.to_string()),
        Some((log, it)) => format!(
            "{} from {} ({}, {}, record {}-{})",
            it.at,
            it.address,
            it.operation,
            it.outcome,
            log.as_str(),
            it.sequence
        ),
    }
}

fn last_use_json(last_use: &LastKeyUse) -> Option<Value> {
    last_use.record.as_ref().map(|(log, it)| {
        json!({
            "at": it.at.to_string(),
            "address": it.address,
            "operation": it.operation,
            "outcome": it.outcome,
            "record": format!("{}-{}", log.as_str(), it.sequence),
        })
    })
}

pub(super) fn tenant_json(it: &Tenant) -> Value {
    json!({ "id": it.id.to_string(), "name": it.name.as_str(), "type": it.kind.as_str() })
}

pub(super) fn application_json(it: &ApplicationRecord) -> Value {
    json!({ "id": it.id.to_string(), "name": it.name.as_str(), "type": it.kind.as_str() })
}

/// Describes a session key, which a browser got. Such a key is not an API key and ends by itself.
async fn find_access_session(operator: &Operator, text: &str) -> anyhow::Result<CommandOutput> {
    let id = AccessSessionId(operator.directory.digest(text));
    let found = operator.vault.store.find_access_session(id).await.map_err(explain)?;
    let Some(row) = found else {
        bail!(
            "this is the key of an access session that does not exist: it expired or was revoked, \
             or it belongs to another vault. It does not work here"
        );
    };
    let record = &row.record;
    let Some(tenant) = operator.directory.tenant(record.tenant) else {
        bail!("access session {id} does not work: its tenant is deleted or has an altered policy");
    };
    if !row.has_valid_mac(&tenant.keys) {
        bail!("the row of access session {id} was altered outside the vault; the key is refused");
    }
    if record.expires_at <= operator.vault.clock.latest() {
        bail!("access session {id} expired at {}; its key does not work", record.expires_at);
    }
    if let Some(reason) = find_end_reason(record, tenant) {
        bail!("access session {id} does not work any more: {reason}");
    }
    let key = record.grant.as_ref().map(|it| it.api_key.to_string());
    let text = name_value_list(&[
        ("tenant", describe(&tenant.id, tenant.name.as_str(), tenant.kind.as_str())),
        ("application", record.application.to_string()),
        ("access session", id.to_string()),
        ("authorized by", key.clone().map_or("nothing yet".to_owned(), |it| format!("key {it}"))),
        ("created", record.created_at.to_string()),
        ("ends", record.expires_at.to_string()),
    ]);
    let text = format!("{text}\nTo end the session now run: scrip access-session revoke {id}\n");
    let json = json!({
        "tenant": tenant_json(tenant),
        "access_session": {
            "id": id.to_string(),
            "application_id": record.application.to_string(),
            "authorized_by_key_id": key,
            "created_at": record.created_at.to_string(),
            "expires_at": record.expires_at.to_string(),
        },
    });
    Ok(CommandOutput::new(text, json))
}

/// Returns why the key of an unexpired session gets 401, as `resume_access_session` decides.
fn find_end_reason(record: &AccessSessionRecord, tenant: &Tenant) -> Option<String> {
    let is_deleted = |id| !tenant.applications.contains_key(id);
    if is_deleted(&record.application) {
        let application = record.application;
        return Some(format!("application {application}, which started it, was deleted"));
    }
    let grant = record.grant.as_ref().filter(|_| !record.is_authorizing_key_live(tenant))?;
    Some(match is_deleted(&grant.authorizer) {
        true => format!("application {}, which authorized it, was deleted", grant.authorizer),
        false => format!("key {}, which authorized it, was deleted", grant.api_key),
    })
}
