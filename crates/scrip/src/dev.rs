//! `scrip dev`: a working vault in one command.

mod announcement;
mod print_webhooks;
mod request_lines;

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    id::TenantId,
    operations::{
        applications::create_application::{CreateKey, NewApplication, create_application},
        tenants::create_tenant::{create_tenant, create_vault_chain},
    },
    policy::{
        AccessPolicy, AccessRule, AccessScope, ApplicationKind, Directory, DisplayName, Permission,
        Permissions, PolicyPermit, Tenant, TenantKind, Transform,
        application::origins::ApplicationOrigins,
        approval::StoredDualControl,
        tenant::{self},
    },
    token::Container,
};
use scrip_demo::{Demo, ShopKeys, authority, provider};
use scrip_seal::{KeySource, Pepper, Secret, VaultKeyRing};
use scrip_server::{
    config::{Environment, FlagValue, Settings},
    files::{atomic_file, head_file},
    storage::{create_folder, explain, unlock::manager::KeyManager},
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::{
    cli::DevArguments,
    commands::runtime,
    dev::{
        announcement::{DevAnnouncement, announce, announce_json, field_script_url, simulator_url},
        request_lines::RequestLines,
    },
    serve::{self, Addresses, server_mode::ServerMode},
};

/// Keys for a first try. Stored in the clear with the data, which is acceptable for a development
/// vault only.
#[derive(Debug, Serialize, Deserialize)]
struct DevKeys {
    tenant_id: String,
    keys: DevApiKeys,
}

#[derive(Debug, Serialize, Deserialize)]
struct DevApiKeys {
    management: String,
    private: String,
    public: String,
}

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
            let source = open_or_create_vault(settings, &app.vault).await?;
            let keys = load_or_create_keys(&app.vault, &*source, &settings.dev_keys_file()).await?;
            manager.open().await?;
            if let Err(error) = head_file::update(&settings.head_file(), &app.vault).await {
                tracing::error!(cause = format!("{error:#}"), "saving the chain heads failed");
            }
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

/// Opens the vault key of an earlier run, or creates a vault.
async fn open_or_create_vault(
    settings: &Settings,
    vault: &Vault,
) -> anyhow::Result<Arc<VaultKeyRing>> {
    let mut records = vault.store.load_directory().await.map_err(explain)?;
    if records.has_lost_keys() {
        bail!(records.missing_keys_text());
    }
    if records.system_keys.is_none() {
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
    Ok(source)
}

/// Loads the keys of earlier runs, or creates new ones.
async fn load_or_create_keys(
    vault: &Vault,
    source: &dyn KeySource,
    file: &Path,
) -> anyhow::Result<DevKeys> {
    create_vault_chain(vault).await.map_err(explain)?;
    if file.exists() {
        let name = file.display();
        let text = fs::read(file).with_context(|| format!("{name} cannot be read"))?;
        // Without the message of the parser, which may quote a key.
        return serde_json::from_slice(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            anyhow::anyhow!(
                "{name} is damaged at line {line}, column {column}; without the file, the next \
                 start creates new keys for the same tokens"
            )
        });
    }
    // An interrupted start may have left the tenant; its tokens stay accessible.
    let directory = Directory::load(&*vault.store, source, None).await.map_err(explain)?;
    if directory.tenants().iter().any(|it| it.kind != TenantKind::Test) {
        bail!(
            "this vault has a production tenant, for which `scrip dev` creates no keys; check \
             SCRIP_STORAGE_URL and the data directory"
        );
    }
    let existing_tenant = directory.tenants().first().map(|it| it.id);
    let id = match existing_tenant {
        Some(id) => id,
        None => {
            let name = DisplayName::parse("Development").map_err(explain)?;
            create_tenant(vault, source, name, TenantKind::Test, tenant::TenantSettings::default())
                .await
                .map_err(explain)?
        }
    };
    let directory = Directory::load(&*vault.store, source, None).await.map_err(explain)?;
    let tenant = directory.tenant(id).context("the new tenant is missing")?;
    let keys = DevKeys {
        tenant_id: id.to_string(),
        keys: create_applications(vault, tenant, directory.pepper()).await?,
    };
    let text = serde_json::to_string_pretty(&keys)?;
    atomic_file::replace(file, &file.with_extension("tmp"), |out| writeln!(out, "{text}"))?;
    Ok(keys)
}

async fn create_applications(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    pepper: &Pepper,
) -> anyhow::Result<DevApiKeys> {
    let create = async |name, kind, access| {
        let name = DisplayName::parse(name).map_err(explain)?;
        let origins = ApplicationOrigins::default();
        let new = NewApplication { name, kind, access, origins, create_key: CreateKey::Yes };
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        let created = create_application(vault, permit, pepper, new, None).await;
        let key = created.map_err(explain)?.api_key.context("the new application has no key")?;
        anyhow::Ok(key.expose().to_owned())
    };
    let management = AccessPolicy {
        permissions: Permission::grantable(ApplicationKind::Management).collect(),
        rules: Vec::new(),
    };
    let full_access = AccessRule {
        description: "Everything, in clear".to_owned(),
        priority: 1,
        scope: AccessScope::Container(Container::root()),
        transform: Transform::Reveal,
        permissions: Permission::grantable(ApplicationKind::Private).collect(),
    };
    let private = AccessPolicy { permissions: Permissions::default(), rules: vec![full_access] };
    let public = AccessPolicy {
        permissions: Permission::grantable(ApplicationKind::Public).collect(),
        rules: Vec::new(),
    };
    Ok(DevApiKeys {
        management: create("Management", ApplicationKind::Management, management).await?,
        private: create("Private", ApplicationKind::Private, private).await?,
        public: create("Public", ApplicationKind::Public, public).await?,
    })
}
