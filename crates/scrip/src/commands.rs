//! Commands for whoever runs the vault. They work on the store itself, beside a running server or
//! without one; the root key is their authority.

pub(crate) mod audit;
pub(crate) mod bin;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod migrate;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod simulator;
pub(crate) mod status;
pub(crate) mod transfer;

use std::{future::Future, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::{
    Vault,
    id::{ApplicationId, TenantId},
    policy::{Application, Directory, PolicyAlteration, PolicyPermit, Tenant},
};
use scrip_seal::KeySource;
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    process,
    storage::explain,
};

use crate::commands::{
    output::CommandOutput,
    transfer::progress::{Progress, ProgressUnit},
};

/// Where the vault is, and how to speak.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// The file with the settings [default: `SCRIP_CONFIG`, else scrip.toml if there is one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory, whatever the settings say.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Answer with JSON.
    #[arg(long)]
    json: bool,
}

impl CommonArguments {
    pub(crate) fn settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let flags = self.data_dir.clone().map(|it| ("storage.data_dir", it));
        let flags: Vec<_> = flags.into_iter().collect();
        Settings::load_with(self.config.as_deref(), &flags, environment)
    }

    /// The settings, for a command that acts as the user that serves from now on.
    pub(crate) fn confined_settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let settings = self.settings(environment)?;
        process::confine_command(&settings.server)?;
        Ok(settings)
    }

    /// Opens the vault, does one thing, and says what became of it.
    pub(crate) fn with_vault(
        &self,
        environment: &Environment,
        command: &str,
        action: impl AsyncFnOnce(&Operator) -> anyhow::Result<CommandOutput>,
    ) -> anyhow::Result<()> {
        let settings = self.confined_settings(environment)?;
        let output = runtime()?.block_on(async {
            let operator = Operator::open(&settings).await?;
            let output = operator.run_recorded(command, action(&operator)).await;
            // A server does it too; but there may be none.
            if let Err(error) = head_file::update(&settings.head_file(), &operator.vault).await {
                warn(&error);
            }
            output
        })?;
        self.print_output(&output)
    }

    /// How far a step has come, for whoever looks.
    pub(crate) fn progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Bytes, self.json)
    }

    /// The same where what is counted is records.
    pub(crate) fn record_progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Records, self.json)
    }

    pub(crate) fn print_output(&self, output: &CommandOutput) -> anyhow::Result<()> {
        output.print(self.json)
    }
}

/// Records a command that also works without the root key: in the vault's own chain if the key is
/// there. That nothing was recorded although it is, is only a warning.
pub(crate) async fn record_if_key_present(settings: &Settings, command: &str) {
    if settings.key_source().is_err() {
        return;
    }
    let recorded = async {
        let operator = Operator::open(settings).await?;
        operator.vault.record_command(command, "completed").await.map_err(explain)
    };
    if let Err(error) = recorded.await {
        warn(&error.context("the command is not recorded in the audit trail"));
    }
}

/// Records a step of a command that works on the files of the vault, and needs its root key only
/// for this.
///
/// # Errors
/// The root key is missing, or does not open the vault, or the record cannot be written.
pub(crate) async fn record_command(
    settings: &Settings,
    command: &str,
    outcome: &'static str,
) -> anyhow::Result<()> {
    let operator = Operator::open(settings).await;
    let operator = operator.context(
        "this command is recorded in the audit trail, which takes the root key; put it in its \
         place, or say --without-key to go without a record",
    )?;
    operator.vault.record_command(command, outcome).await.map_err(explain)?;
    head_file::update(&settings.head_file(), &operator.vault).await
}

/// What was asked for is done all the same.
#[expect(clippy::print_stderr, reason = "beside the answer, which is on standard output")]
pub(crate) fn warn(error: &anyhow::Error) {
    eprintln!("scrip: warning: {error:#}");
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// An open vault, and everything in it that can be named.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) vault: Vault,
    pub(crate) key_source: Arc<dyn KeySource>,
    pub(crate) directory: Directory,
    os_user: Option<Arc<str>>,
}

impl Operator {
    pub(crate) async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let vault = settings.open_vault_for_command().await?;
        let source = settings.key_source()?;
        let directory = Directory::load(&*vault.store, &*source, None).await.map_err(explain)?;
        vault.audit_trail.set_key(directory.audit_key());
        if let Some(os_user) = &settings.os_user {
            vault.audit_trail.set_os_user(os_user);
        }
        let os_user = settings.os_user.clone();
        Ok(Self { vault, key_source: source, directory, os_user })
    }

    /// Runs a command between two records in the vault's own chain: that it started, and how it
    /// ended. A command that cannot be recorded does not run.
    pub(crate) async fn run_recorded<T>(
        &self,
        command: &str,
        action: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let record = async |outcome| {
            let recorded = self.vault.record_command(command, outcome).await;
            recorded.map_err(explain).context("the command cannot be recorded in the audit trail")
        };
        record("started").await?;
        let done = action.await;
        let ended = record(if done.is_ok() { "completed" } else { "aborted" }).await;
        let done = done?;
        ended.map(|()| done)
    }

    /// The operator's right to act on a tenant, in the name of the system's user.
    pub(crate) fn policy_permit(&self, tenant: &Arc<Tenant>) -> PolicyPermit {
        PolicyPermit::for_operator(Arc::clone(tenant)).with_os_user(self.os_user.clone())
    }

    /// The directory as it is after a change.
    pub(crate) async fn reload(&self) -> anyhow::Result<Directory> {
        let (store, before) = (&*self.vault.store, Some(&self.directory));
        Directory::load(store, &*self.key_source, before).await.map_err(explain)
    }

    /// By id, or by a name that only one has.
    pub(crate) fn find_tenant(&self, text: &str) -> anyhow::Result<&Arc<Tenant>> {
        if let Some(id) = TenantId::parse(text) {
            if let Some(tenant) = self.directory.tenant(id) {
                return Ok(tenant);
            }
            if self.is_altered(id) {
                bail!("the policy of tenant {id} was altered from outside; run: scrip doctor");
            }
            bail!("there is no tenant {id}; run: scrip tenant list");
        }
        let mut named = self.directory.tenants();
        named.retain(|it| it.name.as_str() == text);
        match named.as_slice() {
            [one] => Ok(one),
            [] => bail!("there is no tenant of that name; run: scrip tenant list"),
            _ => bail!("several tenants have that name; say the id instead"),
        }
    }

    /// A deleted tenant whose keys are not destroyed yet, by id, or by a name that only one has.
    pub(crate) fn find_deleted_tenant(&self, text: &str) -> Option<&Arc<Tenant>> {
        let id = TenantId::parse(text);
        let is = |it: &&Arc<Tenant>| Some(it.id) == id || it.name.as_str() == text;
        let mut found = self.directory.pending_deletion().iter().filter(is);
        found.next().filter(|_| found.next().is_none())
    }

    /// An application of any tenant, by its id.
    pub(crate) fn find_application(
        &self,
        text: &str,
    ) -> anyhow::Result<(&Arc<Tenant>, &Application)> {
        let id = ApplicationId::parse(text).context("that is no id of an application")?;
        let found = self.directory.tenants().into_iter().find_map(|tenant| {
            let application = tenant.applications.get(&id)?;
            Some((tenant, application))
        });
        found.with_context(|| format!("there is no application {id}; run: scrip application list"))
    }

    pub(crate) fn is_altered(&self, id: TenantId) -> bool {
        self.directory.alterations().iter().any(|it| it.tenant == Some(id))
    }

    /// One tenant, by its id or name, or all of them.
    pub(crate) fn tenants(&self, text: Option<&str>) -> anyhow::Result<Vec<&Arc<Tenant>>> {
        match text {
            Some(text) => Ok(vec![self.find_tenant(text)?]),
            None => Ok(self.directory.tenants()),
        }
    }
}

/// Prints a warning in addition to the output of the command.
pub(crate) fn describe_alterations(directory: &Directory) -> Vec<String> {
    let say = |it: &PolicyAlteration| match it.tenant {
        Some(id) => format!("tenant {id}: {}", it.description),
        None => it.description.clone(),
    };
    directory.alterations().iter().map(say).collect()
}
