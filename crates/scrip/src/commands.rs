//! Commands for the operator. They work on the store directly, with or without a running server,
//! and are authorized by the root key.

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

use std::{future::Future, io, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::{
    Vault,
    error::Error,
    id::{ApplicationId, TenantId},
    policy::{Application, Directory, PolicyAlteration, PolicyPermit, Tenant},
    store::StoreCondition,
};
use scrip_seal::KeySource;
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    process,
    storage::explain,
};

use crate::commands::{
    output::{CommandOutput, print_message},
    transfer::progress::{Progress, ProgressUnit},
};

/// Arguments of all commands: location of the vault, and output format.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// Settings file [default: `SCRIP_CONFIG`, else scrip.toml if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the vault; overrides the settings.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CommonArguments {
    pub(crate) fn settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let flags = self.data_dir.clone().map(|it| ("storage.data_dir", it));
        let flags: Vec<_> = flags.into_iter().collect();
        Settings::load_with(self.config.as_deref(), &flags, environment)
    }

    /// Loads the settings, and switches to the user of the server.
    pub(crate) fn confined_settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let settings = self.settings(environment)?;
        process::confine_command(&settings.server)?;
        Ok(settings)
    }

    /// Opens the vault, runs one action with audit records, and prints its output.
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
            // A server saves the heads too, but may not be running.
            if let Err(error) = head_file::update(&settings.head_file(), &operator.vault).await {
                warn(&error);
            }
            output
        })?;
        self.print_output(&output)
    }

    /// Progress of a step in bytes.
    pub(crate) fn progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Bytes, self.json)
    }

    /// Progress of a step in records.
    pub(crate) fn record_progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Records, self.json)
    }

    pub(crate) fn print_output(&self, output: &CommandOutput) -> anyhow::Result<()> {
        output.print(self.json)
    }
}

/// Records a command that also works without the root key. Without a root key there is no record;
/// if recording fails with a root key, a warning is printed. Returns the altered policy rows, which
/// only the root key finds.
pub(crate) async fn record_if_key_present(settings: &Settings, command: &str) -> Vec<String> {
    if settings.key_source().is_err() {
        return Vec::new();
    }
    let record = async {
        let operator = Operator::open(settings).await?;
        operator.vault.record_command(command, "completed").await.map_err(explain)?;
        Ok(describe_alterations(&operator.directory))
    };
    record.await.unwrap_or_else(|error: anyhow::Error| {
        warn(&error.context("the command is not recorded in the audit log"));
        Vec::new()
    })
}

/// Records a step of a command that works on the files of the vault and needs the root key only for
/// the record.
///
/// # Errors
/// The root key is missing or does not open the vault, or the record cannot be written.
pub(crate) async fn record_command(
    settings: &Settings,
    command: &str,
    outcome: &'static str,
) -> anyhow::Result<()> {
    let vault = settings.open_vault_for_command().await?;
    let operator = Operator::load(settings, vault).await;
    let operator = operator.context(
        "this command is recorded in the audit log, which requires the root key; provide the root \
         key, or use --without-root-key to run without a record",
    )?;
    let recorded = operator.vault.record_command(command, outcome).await;
    let alternative = "; or use --without-root-key to run without a record";
    recorded.map_err(|error| explain_unrecorded(&operator.vault, error, alternative))?;
    let saved = head_file::update(&settings.head_file(), &operator.vault).await;
    saved.map_err(|error| match is_storage_full(&error) {
        true => error.context(format!(
            "the disk of the head file is full, so the record cannot be secured. Free some \
             space{alternative}"
        )),
        false => error,
    })
}

fn is_storage_full(error: &anyhow::Error) -> bool {
    let find_kind = |it: &(dyn std::error::Error + 'static)| {
        it.downcast_ref::<io::Error>().map(io::Error::kind)
    };
    error.chain().filter_map(find_kind).any(|it| it == io::ErrorKind::StorageFull)
}

/// Explains why a command could not be recorded. A full disk is named without the error of the
/// commit, because the operator can only free space or use the alternative.
fn explain_unrecorded(vault: &Vault, error: Error, alternative: &str) -> anyhow::Error {
    match vault.store.condition() {
        StoreCondition::DiskFull => anyhow::anyhow!(
            "the disk of the vault is full, so this command cannot be recorded in the audit log. \
             Free some space{alternative}"
        ),
        StoreCondition::Up | StoreCondition::CommitFailed | StoreCondition::Unreachable => {
            explain(error).context("the command cannot be recorded in the audit log")
        }
    }
}

/// Prints a warning; the command itself succeeded.
pub(crate) fn warn(error: &anyhow::Error) {
    print_message(&format!("warning: {error:#}"));
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// An open vault with its directory, for commands.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) vault: Vault,
    pub(crate) key_source: Arc<dyn KeySource>,
    pub(crate) directory: Directory,
    pub(crate) head_file: PathBuf,
    os_user: Option<Arc<str>>,
}

impl Operator {
    pub(crate) async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let vault = settings.open_vault_for_command().await?;
        Self::load(settings, vault).await
    }

    /// Loads the directory of an open vault, which needs the root key.
    async fn load(settings: &Settings, vault: Vault) -> anyhow::Result<Self> {
        let source = settings.key_source()?;
        let directory = Directory::load(&*vault.store, &*source, None).await.map_err(explain)?;
        vault.audit_trail.set_key(directory.audit_key());
        if let Some(os_user) = &settings.os_user {
            vault.audit_trail.set_os_user(os_user);
        }
        let os_user = settings.os_user.clone();
        let head_file = settings.head_file();
        Ok(Self { vault, key_source: source, directory, head_file, os_user })
    }

    /// Runs a command between two audit records in the chain of the vault: its start and its
    /// outcome. A command that cannot be recorded does not run.
    pub(crate) async fn run_recorded<T>(
        &self,
        command: &str,
        action: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let record = async |outcome| {
            let recorded = self.vault.record_command(command, outcome).await;
            recorded.map_err(|error| explain_unrecorded(&self.vault, error, ""))
        };
        record("started").await?;
        let result = action.await;
        let recorded = record(if result.is_ok() { "completed" } else { "aborted" }).await;
        let result = result?;
        recorded.map(|()| result)
    }

    /// Returns the permit of the operator for a tenant, with the operating-system user.
    pub(crate) fn policy_permit(&self, tenant: &Arc<Tenant>) -> PolicyPermit {
        PolicyPermit::for_operator(Arc::clone(tenant)).with_os_user(self.os_user.clone())
    }

    /// Loads the directory after a change.
    pub(crate) async fn reload(&self) -> anyhow::Result<Directory> {
        let (store, current) = (&*self.vault.store, Some(&self.directory));
        Directory::load(store, &*self.key_source, current).await.map_err(explain)
    }

    /// Finds a tenant by id, or by a unique name.
    pub(crate) fn find_tenant(&self, text: &str) -> anyhow::Result<&Arc<Tenant>> {
        if let Some(id) = TenantId::parse(text) {
            if let Some(tenant) = self.directory.tenant(id) {
                return Ok(tenant);
            }
            if self.is_altered(id) {
                let alterations = self.directory.alterations().iter();
                let alterations = alterations.filter(|it| it.tenant == Some(id));
                let alterations: Vec<_> = alterations.map(|it| it.description.as_str()).collect();
                bail!(
                    "the policy of tenant {id} was altered outside the vault: {}. {REPAIR_HINT}",
                    alterations.join("; ")
                );
            }
            bail!("tenant {id} does not exist; run: scrip tenant list");
        }
        let mut tenants = self.directory.tenants();
        tenants.retain(|it| it.name.as_str() == text);
        match tenants.as_slice() {
            [tenant] => Ok(tenant),
            [] => bail!(self.missing_message("no tenant has this name; run: scrip tenant list")),
            _ => bail!("several tenants have this name; use the id"),
        }
    }

    /// Finds a deleted tenant with keys that are not yet destroyed, by id or by a unique name.
    pub(crate) fn find_deleted_tenant(&self, text: &str) -> Option<&Arc<Tenant>> {
        let id = TenantId::parse(text);
        let is_match = |it: &&Arc<Tenant>| Some(it.id) == id || it.name.as_str() == text;
        let mut tenants = self.directory.pending_deletion().iter().filter(is_match);
        tenants.next().filter(|_| tenants.next().is_none())
    }

    /// Finds an application of any tenant by id.
    pub(crate) fn find_application(
        &self,
        text: &str,
    ) -> anyhow::Result<(&Arc<Tenant>, &Application)> {
        let id = ApplicationId::parse(text).context("this is not the id of an application")?;
        let owner_and_application = self.directory.tenants().into_iter().find_map(|tenant| {
            let application = tenant.applications.get(&id)?;
            Some((tenant, application))
        });
        owner_and_application.with_context(|| {
            let message = format!("application {id} does not exist; run: scrip application list");
            self.missing_message(&message)
        })
    }

    /// Extends the message about a missing row: rows of a tenant with an altered policy are not
    /// loaded, so the row may be one of them.
    pub(crate) fn missing_message(&self, message: &str) -> String {
        match self.directory.alterations().is_empty() {
            true => message.to_owned(),
            false => format!("{message}, or it belongs to {}", self.altered_policy_message()),
        }
    }

    /// Names the altered rows and the command that repairs them.
    pub(crate) fn altered_policy_message(&self) -> String {
        let alterations = describe_alterations(&self.directory).join("; ");
        format!(
            "a tenant with a policy that was altered outside the vault: {alterations}. {REPAIR_HINT}"
        )
    }

    pub(crate) fn is_altered(&self, id: TenantId) -> bool {
        self.directory.alterations().iter().any(|it| it.tenant == Some(id))
    }

    /// Returns one tenant by id or name, or all tenants.
    pub(crate) fn tenants(&self, text: Option<&str>) -> anyhow::Result<Vec<&Arc<Tenant>>> {
        match text {
            Some(text) => Ok(vec![self.find_tenant(text)?]),
            None => Ok(self.directory.tenants()),
        }
    }
}

/// How to repair an altered policy.
pub(crate) const REPAIR_HINT: &str =
    "To put it back run: scrip policy restore --from BACKUP --tenant TENANT_ID";

/// Returns the lines that every list prints below its table: tenants with an altered policy are not
/// in the table.
pub(crate) fn alteration_lines(alterations: &[String]) -> String {
    let describe = |it: &String| format!("altered outside the vault and rejected: {it}\n");
    let mut lines: String = alterations.iter().map(describe).collect();
    if !alterations.is_empty() {
        lines += &format!("{REPAIR_HINT}\n");
    }
    lines
}

/// Returns one line per altered policy row.
pub(crate) fn describe_alterations(directory: &Directory) -> Vec<String> {
    let describe = |it: &PolicyAlteration| match it.tenant {
        Some(id) => format!("tenant {id}: {}", it.description),
        None => it.description.clone(),
    };
    directory.alterations().iter().map(describe).collect()
}
