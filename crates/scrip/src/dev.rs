//! `scrip dev`: a working vault in one command.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, bail};
use scrip_api::app::App;
use scrip_core::{
    Vault,
    operations::{
        applications::create_application::{CreateKey, NewApplication, create_application},
        tenants::create_tenant::{create_tenant, create_vault_chain, initialize_vault_keys},
    },
    policy::{
        AccessPolicy, AccessRule, AccessScope, ApplicationKind, Directory, DisplayName, Permission,
        Permissions, PolicyPermit, Tenant, TenantKind, Transform,
        tenant::{self},
    },
    token::Container,
};
use scrip_demo::{Demo, authority};
use scrip_seal::{KeySource, Pepper, Secret};
use scrip_server::{
    config::{Environment, FlagValue, Settings, Switch},
    files::{atomic_file, head_file},
    storage::{create_folder, explain},
};
use serde::{Deserialize, Serialize};

use crate::{
    cli::DevArguments,
    commands::runtime,
    serve::{self, Addresses, SimulatorMode},
};

/// What a newcomer needs. Kept in clear beside the data, which only a dev vault may do.
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

/// The same server as `serve`, with a vault that is made on the way.
pub(crate) fn run(arguments: &DevArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = Settings::without_file(&setting_flags(arguments, environment), environment)?;
    create_folder(&settings.storage.data_dir)?;
    runtime()?.block_on(settings.create_store())?;
    let json = arguments.json;
    serve::start(
        settings,
        SimulatorMode::InProcess,
        async |settings: &Settings, app: &App, addresses: &Addresses| {
            // After the lock that the store takes: two first starts at once must not make two keys.
            settings.create_root_key()?;
            let source = settings.key_source()?;
            let folder = &settings.storage.data_dir;
            let keys =
                load_or_create_keys(&app.vault, &*source, &folder.join("dev-keys.json")).await?;
            let directory =
                Directory::load(&*app.vault.store, &*source, None).await.map_err(explain)?;
            app.start_clock(&directory).await.map_err(explain)?;
            app.unseal(directory, source);
            if let Err(error) = head_file::update(&settings.head_file(), &app.vault).await {
                tracing::error!(cause = format!("{error:#}"), "the heads of the logs are not kept");
            }
            let shop = open_demo(settings, addresses, &keys);
            let demo = shop.is_some().then(|| format!("{}/demo", addresses.url));
            let found = DevAnnouncement {
                addresses,
                demo,
                simulator: simulator_url(settings),
                keys: &keys,
            };
            if json {
                announce_json(&found)?
            } else {
                announce(settings, &found)?
            }
            Ok(shop)
        },
    )
}

/// The demo checkout, with the keys of this vault. Its backend asks nobody for a key, so
/// there is none where others than this machine can reach it.
fn open_demo(settings: &Settings, addresses: &Addresses, dev_keys: &DevKeys) -> Option<Demo> {
    let url = &addresses.url;
    if !settings.server.listen.ip().is_loopback() {
        return None;
    }
    let DevApiKeys { public, private, .. } = &dev_keys.keys;
    let private_key = Secret::new(private.as_bytes().to_vec());
    let public_url = settings.threeds_plan(url).settings.public_url;
    let known_as = [url, &public_url].into_iter().filter_map(|it| authority(it)).collect();
    Some(Demo { public_key: public.clone(), private_key, own_authorities: known_as })
}

/// What is said on the command line, and what is not worth its trouble here.
fn setting_flags(arguments: &DevArguments, environment: &Environment) -> Vec<FlagValue> {
    let mut flags = vec![("server.lock_memory", "off".to_owned()), ("server.user", String::new())];
    // It makes its own tenant and keys, so nobody else serves its vault.
    flags.push(("storage.only_node", "true".to_owned()));
    flags.extend(arguments.data_dir.clone().map(|it| ("storage.data_dir", it)));
    flags.extend(arguments.listen.map(|it| ("server.listen", it.to_string())));
    flags.extend(arguments.rate_limits.clone().map(|it| ("limits.mode", it)));
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

/// The keys of the earlier runs, or new ones.
async fn load_or_create_keys(
    vault: &Vault,
    source: &dyn KeySource,
    file: &Path,
) -> anyhow::Result<DevKeys> {
    initialize_vault_keys(vault, source).await.map_err(explain)?;
    create_vault_chain(vault).await.map_err(explain)?;
    if file.exists() {
        let text = fs::read_to_string(file)?;
        return serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", file.display()));
    }
    // A start that was cut short may have left the tenant; its tokens stay reachable.
    let directory = Directory::load(&*vault.store, source, None).await.map_err(explain)?;
    if directory.tenants().iter().any(|it| it.kind != TenantKind::Test) {
        bail!(
            "this vault has a tenant of production, where `scrip dev` makes no keys; is \
             SCRIP_STORAGE_URL or the data directory meant for something else?"
        );
    }
    let known = directory.tenants().first().map(|it| it.id);
    let id = match known {
        Some(id) => id,
        None => {
            let name = DisplayName::parse("Development").map_err(explain)?;
            create_tenant(vault, source, name, TenantKind::Test, tenant::TenantSettings::default())
                .await
                .map_err(explain)?
        }
    };
    let directory = Directory::load(&*vault.store, source, None).await.map_err(explain)?;
    let tenant = directory.tenant(id).context("the new tenant is not there")?;
    let keys = DevKeys {
        tenant_id: id.to_string(),
        keys: create_applications(vault, tenant, directory.pepper()).await?,
    };
    let text = serde_json::to_string_pretty(&keys)?;
    atomic_file::replace(file, &file.with_extension("draft"), |out| writeln!(out, "{text}"))?;
    Ok(keys)
}

async fn create_applications(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    pepper: &Pepper,
) -> anyhow::Result<DevApiKeys> {
    let create = async |name, kind, access| {
        let name = DisplayName::parse(name).map_err(explain)?;
        let new = NewApplication { name, kind, access, create_key: CreateKey::Yes };
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        let created = create_application(vault, permit, pepper, new, None).await;
        let key = created.map_err(explain)?.api_key.context("the new application has no key")?;
        anyhow::Ok(key.expose().to_owned())
    };
    let held_by =
        |kind| Permission::ALL.iter().copied().filter(move |it| it.kinds().contains(&kind));
    let management = AccessPolicy {
        parse_permissions: held_by(ApplicationKind::Management).collect(),
        rules: Vec::new(),
    };
    let everything = AccessRule {
        description: "Everything, in clear".to_owned(),
        priority: 1,
        scope: AccessScope::Container(Container::root()),
        transform: Transform::Reveal,
        parse_permissions: held_by(ApplicationKind::Private).collect(),
    };
    let private =
        AccessPolicy { parse_permissions: Permissions::default(), rules: vec![everything] };
    let public = AccessPolicy {
        parse_permissions: held_by(ApplicationKind::Public).collect(),
        rules: Vec::new(),
    };
    Ok(DevApiKeys {
        management: create("Management", ApplicationKind::Management, management).await?,
        private: create("Private", ApplicationKind::Private, private).await?,
        public: create("Public", ApplicationKind::Public, public).await?,
    })
}

/// What is told when everything listens.
struct DevAnnouncement<'a> {
    addresses: &'a Addresses,
    demo: Option<String>,
    simulator: Option<String>,
    keys: &'a DevKeys,
}

fn simulator_url(settings: &Settings) -> Option<String> {
    let url = settings.threeds.simulator_url.as_ref();
    url.map(|it| format!("http://{}", it.with_path(String::new()).authority))
}

fn announce_json(announcement: &DevAnnouncement<'_>) -> anyhow::Result<()> {
    let DevAnnouncement { addresses, demo, simulator, keys: DevKeys { tenant_id, keys } } =
        announcement;
    let mut out = io::stdout().lock();
    let Addresses { url, metrics, .. } = addresses;
    let line = serde_json::json!({
        "url": url, "metrics": metrics, "demo": demo, "simulator": simulator,
        "tenant_id": tenant_id, "keys": keys,
    });
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn announce(settings: &Settings, announcement: &DevAnnouncement<'_>) -> anyhow::Result<()> {
    let limits = match settings.limits.mode {
        Switch::On => "as for every test tenant; --rate-limits off for none",
        Switch::Off => "off",
    };
    let DevAnnouncement { addresses, demo, simulator, keys: DevKeys { tenant_id, keys } } =
        announcement;
    let Addresses { url, metrics, .. } = addresses;
    let demo = demo.as_ref().map_or_else(
        || "No demo: a shop that anybody could use is opened on a loopback address only".to_owned(),
        |it| format!("Open {it} in a browser: a shop to pay in"),
    );
    let mut out = io::stdout().lock();
    write!(
        out,
        "
  Scrip is ready at {url}
  data in {data}, tenant {tenant_id}
  rate limits {limits}
  metrics at {metrics}
  3-D Secure by the simulator at {simulator}

  {demo}

  management  {management}
  private     {private}
  public      {public}

  Your first token:

  curl {url}/tokens -H 'BT-API-KEY: {private}' -H 'Content-Type: application/json' \\
    -d '{{\"type\":\"card\",\"data\":{{\"number\":\"4242424242424242\",\"expiration_month\":12,\"expiration_year\":2030}}}}'

",
        data = settings.storage.data_dir.display(),
        simulator = simulator.as_deref().unwrap_or("no address"),
        metrics = metrics.as_deref().unwrap_or("no address"),
        management = keys.management,
        private = keys.private,
        public = keys.public,
    )?;
    Ok(out.flush()?)
}
