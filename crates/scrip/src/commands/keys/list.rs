//! `scrip keys list`: the unlock methods of the vault.

use anyhow::{Context, bail};
use scrip_core::policy::{DirectoryRecords, EMPTY_VAULT};
use scrip_operator::{
    error::explain,
    output::{CommandOutput, table},
};
use scrip_seal::{AuditKey, KeyHistory};
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ControlAnswer, ControlRequest, try_request},
    unlock::methods::{MethodList, MethodStatus, VaultKeyAge},
};
use serde_json::json;

use crate::commands::{arguments::CommonArguments, runtime};

/// Asks the running server, which knows the last checks. Without a server, reads the rows; only the
/// age of the vault key needs the key.
pub(super) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.socket_settings(environment)?;
    let list = match try_request(&settings.control_address(), &ControlRequest::ListMethods {})? {
        ControlAnswer::Done(list) => list,
        ControlAnswer::Waiting(it) => bail!("request {} waits for an approval", it.id),
        ControlAnswer::NoServer(not_found) => {
            let list = runtime()?.block_on(read_list(&settings));
            list.with_context(|| format!("{not_found}, and the vault cannot be read without it"))?
        }
        ControlAnswer::Unable(reason) => bail!(reason),
    };
    common.print_output(&report(&list))
}

/// Reads the rows without a server.
async fn read_list(settings: &Settings) -> anyhow::Result<MethodList> {
    let vault = settings.open_vault_for_command().await?;
    let records = vault.store.load_directory().await.map_err(explain)?;
    let mut list = MethodList::new(&records.unlocks);
    list.is_empty_vault = records.is_empty_vault();
    let history = load_key_history(settings, &records).await;
    list.key_age = history.map(|it| VaultKeyAge::new(&records.unlocks, it, vault.clock.now()));
    Ok(list)
}

/// What the vault remembers about its key. `None` if no unlock method returns the key.
pub(crate) async fn load_key_history(
    settings: &Settings,
    records: &DirectoryRecords,
) -> Option<KeyHistory> {
    let source = settings.unlock(records).await.ok()?;
    let wrapped = &records.system_keys.as_ref()?.audit_key;
    Some(AuditKey::unwrap(&*source, wrapped).ok()?.history())
}

fn report(list: &MethodList) -> CommandOutput {
    let json = json!(list);
    if list.is_empty_vault {
        return CommandOutput::new(EMPTY_VAULT, json);
    }
    let Some(vault) = &list.vault else {
        let text = "this vault has no unlock methods: the root key is its vault key\nadd one with: \
                    scrip keys adopt";
        return CommandOutput::new(text, json);
    };
    let is_open = list.key_age.is_some();
    let rows: Vec<_> = list.methods.iter().map(|it| row(it, is_open)).collect();
    let names = ["ID", "KIND", "LABEL", "STATE", "KEY VERSION", "CREATED", "LAST SUCCESS"];
    let mut text = format!("vault {vault}, vault key version {}\n", list.key_version);
    if let Some(VaultKeyAge { created_at, days, compromised_at }) = &list.key_age {
        let created_at = created_at.as_deref().unwrap_or("an unknown time");
        text += &format!("vault key from {created_at}, {days} days old\n");
        if let Some(time) = compromised_at {
            text += &format!("backups before {time} are exposed: destroy them\n");
        }
    }
    text.push('\n');
    text += &table(names, &rows);
    if list.methods.iter().any(|it| state_text(it, is_open) == UNKNOWN) {
        text += "\nthe vault is not open; to find out which methods work, run: scrip doctor\n";
    }
    if list.unreadable > 0 {
        text += &format!(
            "\n{} rows cannot be read: they were altered outside the vault\n",
            list.unreadable
        );
    }
    CommandOutput::new(text, json)
}

const UNKNOWN: &str = "unknown";

/// Methods that need people are never checked. A server checks the others while its vault is open.
fn state_text(method: &MethodStatus, is_open: bool) -> &str {
    match (method.state.as_str(), method.is_working) {
        ("active", Some(false)) => "FAILING",
        ("active", _) if !is_open && method.kind != "shamir" => UNKNOWN,
        (state, _) => state,
    }
}

fn row(method: &MethodStatus, is_open: bool) -> [String; 7] {
    let state = state_text(method, is_open);
    [
        method.id.clone(),
        method.kind.clone(),
        method.label.clone(),
        state.to_owned(),
        method.key_version.to_string(),
        method.created_at.clone(),
        method.checked_at.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
