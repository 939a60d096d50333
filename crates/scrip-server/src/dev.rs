//! `scrip dev`: a working vault in one command.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    access::{AccessPolicy, AccessRule, Reach},
    application::Name,
    caller::Mandate,
    container::Container,
    directory::Directory,
    error::Error,
    operations::{
        create_application::{CreateKey, NewApplication, create_application},
        create_tenant::{create_tenant, found_vault},
    },
    permission::{ApplicationKind, Permission, Permissions, Transform},
    tenant::{Settings, Tenant, TenantKind},
};
use scrip_seal::{EpochKeys, KeySource, Pepper};
use scrip_store::SqliteStore;
use serde::{Deserialize, Serialize};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    app::App,
    cli::DevArguments,
    clock::SystemClock,
    config::Environment,
    serve::serve,
    telemetry::{self, LogForm},
};

/// How long the keys of one epoch seal card verification codes.
const EPOCH: Duration = Duration::from_secs(15 * 60);

/// What a newcomer needs. Kept in clear beside the data, which only a dev vault may do.
#[derive(Debug, Serialize, Deserialize)]
struct DevKeys {
    tenant_id: String,
    keys: Keys,
}

#[derive(Debug, Serialize, Deserialize)]
struct Keys {
    management: String,
    private: String,
    public: String,
}

pub(crate) fn run(arguments: &DevArguments, environment: &Environment) -> anyhow::Result<()> {
    let form = if io::stderr().is_terminal() { LogForm::Text } else { LogForm::Json };
    telemetry::start(form, environment.log.as_deref())?;
    if !arguments.listen.ip().is_loopback() && !arguments.plain_http {
        bail!(
            "{} is not a loopback address; keys and cards would travel in clear. \
               Say --plain-http if that is meant",
            arguments.listen
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(start(arguments, environment))
}

async fn start(arguments: &DevArguments, environment: &Environment) -> anyhow::Result<()> {
    let folder = &arguments.data_dir;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let store = SqliteStore::open(&folder.join("scrip.db")).map_err(Error::from);
    let store =
        store.map_err(explain).with_context(|| format!("{} cannot be opened", folder.display()))?;
    // After the lock that the store takes: two first starts at once must not make two keys.
    let source = environment.key_source(&folder.join("root.key"))?;
    let vault = Vault {
        store: Arc::new(store),
        epochs: Arc::new(EpochKeys::in_memory(EPOCH)),
        clock: Arc::new(SystemClock),
        chance: scrip_seal::fill_random,
    };
    let keys = keys(&vault, &*source, &folder.join("dev-keys.json")).await?;
    let directory = Directory::load(&*vault.store, &*source, None).await.map_err(explain)?;

    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let url = format!("http://{}", listener.local_addr()?);
    announce(arguments, &url, &keys)?;
    let stop = stop_signal()?;
    serve(Arc::new(App::new(vault, directory, source.into())), listener, stop).await;
    Ok(())
}

/// The cause of a failed start is for the operator, who is reading.
fn explain(error: Error) -> anyhow::Error {
    if let Error::Unavailable(cause) | Error::Internal(cause) = error {
        return anyhow::anyhow!("{cause}");
    }
    error.into()
}

/// The keys of the earlier runs, or new ones.
async fn keys(vault: &Vault, source: &dyn KeySource, file: &Path) -> anyhow::Result<DevKeys> {
    found_vault(vault, source).await.map_err(explain)?;
    if file.exists() {
        let text = fs::read_to_string(file)?;
        return serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", file.display()));
    }
    // A start that was cut short may have left the tenant; its tokens stay reachable.
    let directory = Directory::load(&*vault.store, source, None).await.map_err(explain)?;
    let known = directory.tenants().first().map(|it| it.id);
    let id = match known {
        Some(id) => id,
        None => {
            let name = Name::parse("Development").map_err(|it| explain(it.into()))?;
            create_tenant(vault, source, name, TenantKind::Test, Settings::default())
                .await
                .map_err(explain)?
        }
    };
    let directory = Directory::load(&*vault.store, source, None).await.map_err(explain)?;
    let tenant = directory.tenant(id).context("the new tenant is not there")?;
    let keys = DevKeys {
        tenant_id: id.to_string(),
        keys: applications(vault, tenant, directory.pepper()).await?,
    };
    write_private(file, &serde_json::to_string_pretty(&keys)?)?;
    Ok(keys)
}

async fn applications(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    pepper: &Pepper,
) -> anyhow::Result<Keys> {
    let create = async |name, kind, access| {
        let name = Name::parse(name).map_err(|it| explain(it.into()))?;
        let new = NewApplication { name, kind, access, create_key: CreateKey::Yes };
        let mandate = Mandate::of_operator(Arc::clone(tenant));
        let created = create_application(vault, mandate, pepper, new, None).await;
        let key = created.map_err(explain)?.api_key.context("the new application has no key")?;
        anyhow::Ok(key.expose().to_owned())
    };
    let held_by =
        |kind| Permission::ALL.iter().copied().filter(move |it| it.kinds().contains(&kind));
    let management = AccessPolicy {
        permissions: held_by(ApplicationKind::Management).collect(),
        rules: Vec::new(),
    };
    let everything = AccessRule {
        description: "Everything, in clear".to_owned(),
        priority: 1,
        reach: Reach::Container(Container::root()),
        transform: Transform::Reveal,
        permissions: held_by(ApplicationKind::Private).collect(),
    };
    let private = AccessPolicy { permissions: Permissions::default(), rules: vec![everything] };
    let public =
        AccessPolicy { permissions: held_by(ApplicationKind::Public).collect(), rules: Vec::new() };
    Ok(Keys {
        management: create("Management", ApplicationKind::Management, management).await?,
        private: create("Private", ApplicationKind::Private, private).await?,
        public: create("Public", ApplicationKind::Public, public).await?,
    })
}

/// Whole or not at all, and for its owner only.
fn write_private(file: &Path, text: &str) -> anyhow::Result<()> {
    let draft: PathBuf = file.with_extension("draft");
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(out, "{text}")?;
    out.sync_all()?;
    fs::rename(&draft, file)?;
    Ok(())
}

fn announce(arguments: &DevArguments, url: &str, known: &DevKeys) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let DevKeys { tenant_id, keys } = known;
    if arguments.json {
        let line = serde_json::json!({ "url": url, "tenant_id": tenant_id, "keys": keys });
        writeln!(out, "{line}")?;
    } else {
        write!(
            out,
            "
  Scrip is ready at {url}
  data in {data}, tenant {tenant_id}

  management  {management}
  private     {private}
  public      {public}

  Your first token:

  curl {url}/tokens -H 'BT-API-KEY: {private}' -H 'Content-Type: application/json' \\
    -d '{{\"type\":\"card\",\"data\":{{\"number\":\"4242424242424242\",\"expiration_month\":12,\"expiration_year\":2030}}}}'

",
            data = arguments.data_dir.display(),
            management = keys.management,
            private = keys.private,
            public = keys.public,
        )?;
    }
    out.flush()?;
    Ok(())
}

fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        tracing::info!("stopping");
    })
}
