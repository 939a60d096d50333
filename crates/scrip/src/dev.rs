//! `scrip dev`: a working vault in one command.

mod announcement;
pub(crate) mod arguments;
mod dev_keys;
mod print_webhooks;
mod request_lines;

use std::{
    io::{self, IsTerminal},
    sync::Arc,
};

use anyhow::{Context, bail};
use scrip_core::{Vault, approval::StoredDualControl, policy::Directory, types::id::TenantId};
use scrip_demo::{Demo, ShopKeys, authority, provider};
use scrip_operator::error::explain;
use scrip_seal::{Secret, VaultKeyRing};
use scrip_server::{
    config::{Environment, FlagValue, Settings},
    files::{create_folder, head_file},
    unlock::manager::KeyManager,
};
use tokio::net::TcpListener;

use crate::{
    commands::runtime,
    dev::{
        announcement::{DevAnnouncement, announce, announce_json, field_script_url, simulator_url},
        arguments::DevArguments,
        dev_keys::{DevApiKeys, DevKeys, load_or_create_keys},
        request_lines::RequestLines,
    },
    serve::{self, Addresses, server_mode::ServerMode},
};

/// Runs the same server as `serve`, and creates the vault if necessary.
pub(crate) fn run(arguments: &DevArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = Settings::without_file(&setting_flags(arguments, environment), environment)?;
    create_folder(&settings.storage.data_dir)?;
    if settings.storage.url.is_some() {
        runtime()?.block_on(settings.create_store())?;
    } else {
        // The server creates the schema when it opens the file.
        settings.create_database_file()?;
    }
    let (json, prints_webhooks) = (arguments.json, arguments.print_webhooks);
    let prints_requests = !json && !arguments.quiet;
    let request_log = prints_requests.then(RequestLines::start).transpose()?;
    serve::start(
        settings,
        ServerMode::Development(request_log),
        async |settings: &Settings, manager: &KeyManager, addresses: &Addresses| {
            let app = &*manager.app;
            // After taking the lock of the store: two concurrent first starts must not create two
            // keys.
            let (source, vault_before) = open_or_create_vault(settings, &app.vault).await?;
            let keys = load_or_create_keys(&app.vault, &*source, &settings.dev_keys_file()).await?;
            manager.open().await?;
            save_heads(settings, &app.vault, vault_before).await;
            let tenant =
                TenantId::parse(&keys.tenant_id).context("the id of the tenant is invalid")?;
            print_webhooks::remove_webhooks(app, tenant).await?;
            let receiver = match prints_webhooks {
                true => Some(print_webhooks::start(app, tenant, json).await?),
                false => None,
            };
            let demo_shop = open_demo(settings, addresses, &keys).await?;
            let demo = demo_shop.is_some().then(|| format!("{}/demo", addresses.url));
            let announcement = DevAnnouncement {
                addresses,
                demo,
                provider: demo_shop.as_ref().map(|it| it.provider.url.as_str()),
                simulator: simulator_url(settings),
                receiver,
                fields: field_script_url(settings, addresses),
                keys: &keys,
            };
            if json {
                announce_json(&announcement)?
            } else {
                announce(settings, &announcement)?
            }
            Ok(demo_shop)
        },
    )
}

/// Creates the demo shop with the keys of this vault, and the provider that it charges. The backend
/// of the shop requires no key, so the shop is served on a loopback address only.
async fn open_demo(
    settings: &Settings,
    addresses: &Addresses,
    dev_keys: &DevKeys,
) -> anyhow::Result<Option<Demo>> {
    let url = &addresses.url;
    if !settings.server.listen.ip().is_loopback() {
        return Ok(None);
    }
    let DevApiKeys { public, private, management } = &dev_keys.keys;
    let secret = |it: &str| Secret::new(it.as_bytes().to_vec());
    let keys = ShopKeys {
        public: public.clone(),
        private: secret(private),
        management: secret(management),
    };
    let public_url = settings.directory_servers_settings(url).threeds.public_url;
    let own_authorities = [url, &public_url].into_iter().filter_map(|it| authority(it)).collect();
    // Any free port: several of these may run on one machine.
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.context("binding the listener of the demo provider failed")?;
    Ok(Some(Demo::new(keys, own_authorities, provider::start(listener)?)))
}

/// Settings from the command line, and defaults for development.
fn setting_flags(arguments: &DevArguments, environment: &Environment) -> Vec<FlagValue> {
    let mut flags = vec![("server.lock_memory", "off".to_owned()), ("server.user", String::new())];
    // A development vault creates its own tenant and keys, so there is no other node.
    flags.push(("storage.single_node", "true".to_owned()));
    // A developer tries proxies with a server on the same machine.
    if !environment.sets("proxy.loopback_http") {
        flags.push(("proxy.loopback_http", "true".to_owned()));
    }
    // The announcement is the first text on a terminal. A log file or collector gets all lines.
    if !environment.sets("log.filter") && !arguments.json && io::stderr().is_terminal() {
        flags.push(("log.filter", "warn".to_owned()));
    }
    flags.extend(arguments.data_dir.clone().map(|it| ("storage.data_dir", it)));
    flags.extend(arguments.listen.map(|it| ("server.listen", it.to_string())));
    // A first program that sends many requests must not fail because of a limit.
    let limits = arguments.rate_limits.clone();
    let default_limits = || (!environment.sets("limits.mode")).then(|| "off".to_owned());
    flags.extend(limits.or_else(default_limits).map(|it| ("limits.mode", it)));
    if arguments.plain_http {
        flags.push(("server.plain_http", "true".to_owned()));
    }
    if !environment.sets("threeds.public_url") {
        flags.push(("threeds.public_url", "listen".to_owned()));
    }
    // Any free port: several of these may run on one machine.
    if !environment.sets("metrics.listen") {
        flags.push(("metrics.listen", "127.0.0.1:0".to_owned()));
    }
    flags
}

/// Whether the vault existed before this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VaultBefore {
    Existing,
    Missing,
}

/// Opens the vault key of an earlier run, or creates a vault.
async fn open_or_create_vault(
    settings: &Settings,
    vault: &Vault,
) -> anyhow::Result<(Arc<VaultKeyRing>, VaultBefore)> {
    let mut records = vault.store.load_directory().await.map_err(explain)?;
    if records.has_lost_keys() {
        bail!(records.missing_keys_text());
    }
    let vault_before = match records.system_keys.is_some() {
        true => VaultBefore::Existing,
        false => VaultBefore::Missing,
    };
    if vault_before == VaultBefore::Missing {
        settings.create_root_key()?;
        settings.create_vault_keys(vault).await?;
        records = vault.store.load_directory().await.map_err(explain)?;
    }
    let approvals = vault.store.load_approvals().await.map_err(explain)?;
    if settings.keys.dual_control || approvals.dual_control != StoredDualControl::Missing {
        bail!(
            "`scrip dev` creates keys without an approval, so it serves no vault with dual control"
        );
    }
    let source = settings.unlock(&records).await?;
    let directory = Directory::open(records, &*source, None).map_err(explain)?;
    vault.audit_trail.set_key(directory.audit_key());
    Ok((source, vault_before))
}

/// Saves the chain heads at once, because the process may be killed before its next update.
async fn save_heads(settings: &Settings, vault: &Vault, vault_before: VaultBefore) {
    match head_file::update_by_command(&settings.head_file(), vault).await {
        Ok(Some(missing_file)) if vault_before == VaultBefore::Existing => {
            tracing::warn!("{missing_file}");
        }
        Ok(_) => (),
        Err(error) => {
            tracing::error!(cause = format!("{error:#}"), "saving the chain heads failed");
        }
    }
}
