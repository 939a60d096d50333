//! Commands for the operator. They work on the store directly, with or without a running server,
//! and are authorized by the root key.

pub(crate) mod alterations;
pub(crate) mod approval;
pub(crate) mod audit;
pub(crate) mod bin;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod migrate;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod simulator;
pub(crate) mod status;
pub(crate) mod transfer;

use std::{future::Future, io, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::{
    Vault,
    error::Error,
    id::{ApplicationId, TenantId},
    policy::{Application, Directory, DirectoryRecords, PolicyPermit, Tenant},
    store::{StoreCondition, StoreError},
};
use scrip_seal::KeySource;
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    process,
    storage::explain,
};
use serde_json::Value;

use crate::commands::{
    alterations::AlteredPolicies,
    approval::{Approved, parse_wait},
    output::{CommandOutput, print_message},
    transfer::progress::{Progress, ProgressUnit, WithoutTerminal},
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
    /// How long to wait for the approval of a second operator, such as 30s, 10m or 1h.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_wait)]
    wait: Duration,
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

    /// Loads the settings for a command that only uses a socket of the server.
    pub(crate) fn socket_settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let settings = self.settings(environment)?;
        process::confine_socket_command(&settings.server)?;
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
        self.run_with_vault(&settings, command, action, None)
    }

    /// As [`CommonArguments::with_vault`], for an action that needs a second operator under dual
    /// control. The parameters are shown to that operator.
    pub(crate) fn with_approved_vault(
        &self,
        environment: &Environment,
        command: &str,
        parameters: &Value,
        action: impl AsyncFnOnce(&Operator) -> anyhow::Result<CommandOutput>,
    ) -> anyhow::Result<()> {
        let settings = self.confined_settings(environment)?;
        let approved = approval::require(&settings, self, command, parameters)?;
        self.run_with_vault(&settings, command, action, Some(approved))
    }

    fn run_with_vault(
        &self,
        settings: &Settings,
        command: &str,
        action: impl AsyncFnOnce(&Operator) -> anyhow::Result<CommandOutput>,
        approved: Option<Approved>,
    ) -> anyhow::Result<()> {
        let output = runtime()?.block_on(async {
            let operator = Operator::open(settings).await?;
            if let Some(approved) = approved {
                approved.check_state(&operator).await?;
            }
            let output = operator.run_recorded(command, action(&operator)).await;
            // A server saves the heads too, but may not be running.
            if let Err(error) = head_file::update(&settings.head_file(), &operator.vault).await {
                warn(&error);
            }
            output
        })?;
        self.print_output(&output)
    }

    /// Progress of a step in bytes, of a command that writes a file or a vault.
    pub(crate) fn progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Bytes, self.without_terminal())
    }

    /// Progress of a step in records, of a command that writes a file or a vault.
    pub(crate) fn record_progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Records, self.without_terminal())
    }

    fn without_terminal(&self) -> WithoutTerminal {
        match self.json {
            true => WithoutTerminal::Hidden,
            false => WithoutTerminal::Lines,
        }
    }

    pub(crate) fn print_output(&self, output: &CommandOutput) -> anyhow::Result<()> {
        output.print(self.json)
    }
}

/// Records a command that also works without the root key. Without a root key there is no record;
/// if recording fails with a root key, a warning is printed. Returns the altered policy rows, which
/// only the root key finds.
pub(crate) async fn record_if_key_present(settings: &Settings, command: &str) -> AlteredPolicies {
    let record = async {
        let vault = settings.open_vault_for_command().await?;
        let records = vault.store.load_directory().await.map_err(explain)?;
        let ring = match settings.unlock(&records).await {
            Ok(ring) => ring,
            Err(problem) if problem.is_wrong_key => return Err(problem.into()),
            Err(_) => return Ok(AlteredPolicies::default()),
        };
        let operator = Operator::open_with(settings, vault, records, ring).await?;
        let recorded = operator.vault.record_command(command, "completed").await;
        recorded.map_err(|error| explain_record_failure(&operator.vault, error))?;
        Ok(operator.alterations)
    };
    record.await.unwrap_or_else(|error: anyhow::Error| {
        warn(&error.context("the command is not recorded in the audit log"));
        AlteredPolicies::default()
    })
}

/// Records the start of a command that works on the files of the vault and needs the root key only
/// for its records.
///
/// # Errors
/// The root key is missing or does not open the vault, or the record cannot be written. The command
/// must not run then.
pub(crate) async fn record_start(settings: &Settings, command: &str) -> anyhow::Result<()> {
    let vault = settings.open_vault_for_command().await?;
    let operator = Operator::load(settings, vault).await;
    let operator = operator.context(
        "this command is recorded in the audit log, which requires the root key; provide the root \
         key, or use --without-root-key to run without a record",
    )?;
    let recorded = operator.vault.record_command(command, "started").await;
    let alternative = "; or use --without-root-key to run without a record";
    recorded.map_err(|error| explain_unrecorded(&operator.vault, error, alternative))?;
    let saved = head_file::update(&settings.head_file(), &operator.vault).await;
    saved.map_err(|error| match is_storage_full(&error) {
        true => error.context(format!(
            "the disk of the head file is full, so the record cannot be secured, and the command \
             was not run. Free some space{alternative}"
        )),
        false => error.context(format!(
            "the record cannot be secured, and the command was not run. Correct the \
             cause{alternative}"
        )),
    })
}

/// Records the completion of a command, and saves the chain heads. The result of the command exists
/// already, so a failure is only a warning.
pub(crate) async fn record_completion(settings: &Settings, command: &str) {
    let record = async {
        let operator = Operator::open(settings).await?;
        let recorded = operator.vault.record_command(command, "completed").await;
        recorded.map_err(|error| explain_record_failure(&operator.vault, error))?;
        anyhow::Ok(operator.vault)
    };
    match record.await {
        Err(error) => warn_about_outcome(error),
        Ok(vault) => {
            if let Err(error) = head_file::update(&settings.head_file(), &vault).await {
                warn(&error);
            }
        }
    }
}

fn is_storage_full(error: &anyhow::Error) -> bool {
    let find_kind = |it: &(dyn std::error::Error + 'static)| {
        it.downcast_ref::<io::Error>().map(io::Error::kind)
    };
    error.chain().filter_map(find_kind).any(|it| it == io::ErrorKind::StorageFull)
}

/// Explains why a command could not be recorded and did not run. A full disk is named without the
/// error of the commit, because the operator can only free space or use the alternative.
fn explain_unrecorded(vault: &Vault, error: Error, alternative: &str) -> anyhow::Error {
    match vault.store.condition() {
        StoreCondition::DiskFull => anyhow::anyhow!(
            "the disk of the vault is full, so this command cannot be recorded in the audit log \
             and was not run. Free some space{alternative}"
        ),
        StoreCondition::Up | StoreCondition::CommitFailed | StoreCondition::Unreachable => {
            explain_record_failure(vault, error)
                .context("the command cannot be recorded in the audit log and was not run")
        }
    }
}

/// Returns the cause of a record that was not written.
pub(crate) fn explain_record_failure(vault: &Vault, error: Error) -> anyhow::Error {
    if vault.store.condition() == StoreCondition::DiskFull {
        return anyhow::anyhow!("the disk of the vault is full");
    }
    // A command has no queue of its own, so it waited for a transaction of another process.
    if let Error::Unavailable(cause) = &error
        && matches!(cause.downcast_ref(), Some(StoreError::Busy))
    {
        return anyhow::anyhow!(
            "an earlier commit got no response in time. PostgreSQL waits for a standby that is \
             away, or a server is overloaded: see the log of the server"
        );
    }
    explain(error)
}

/// Warns that the change of a command was made, but its outcome is not recorded.
fn warn_about_outcome(error: anyhow::Error) {
    let message = "the command was run, but its outcome is not recorded in the audit log";
    warn(&error.context(message));
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
    pub(crate) alterations: AlteredPolicies,
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
        let records = vault.store.load_directory().await.map_err(explain)?;
        let ring = settings.unlock(&records).await?;
        Self::open_with(settings, vault, records, ring).await
    }

    async fn open_with(
        settings: &Settings,
        vault: Vault,
        records: DirectoryRecords,
        source: Arc<dyn KeySource>,
    ) -> anyhow::Result<Self> {
        let directory = Directory::open(records, &*source, None).map_err(explain)?;
        vault.audit_trail.set_key(directory.audit_key());
        if let Some(os_user) = &settings.os_user {
            vault.audit_trail.set_os_user(os_user);
        }
        let alterations = AlteredPolicies::load(&vault, &directory).await?;
        let os_user = settings.os_user.clone();
        let head_file = settings.head_file();
        Ok(Self { vault, key_source: source, directory, alterations, head_file, os_user })
    }

    /// Runs a command between two audit records in the chain of the vault: its start and its
    /// outcome. A command without the first record does not run. A missing second record is a
    /// warning, because the change was made, and its result must not be lost.
    pub(crate) async fn run_recorded<T>(
        &self,
        command: &str,
        action: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let started = self.vault.record_command(command, "started").await;
        started.map_err(|error| explain_unrecorded(&self.vault, error, ""))?;
        let result = action.await;
        let outcome = if result.is_ok() { "completed" } else { "aborted" };
        if let Err(error) = self.vault.record_command(command, outcome).await {
            let cause = explain_record_failure(&self.vault, error);
            match &result {
                Ok(_) => warn_about_outcome(cause),
                Err(_) => warn(
                    &cause.context("the failure of this command is not recorded in the audit log"),
                ),
            }
        }
        result
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
            if self.alterations.contains(id) {
                let message = self.alterations.message(Some(id));
                bail!("this policy was altered outside the vault: {message}");
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
        match self.alterations.is_empty() {
            true => message.to_owned(),
            false => format!("{message}, or it belongs to {}", self.altered_policy_message()),
        }
    }

    /// Names the altered rows and the command that repairs them.
    pub(crate) fn altered_policy_message(&self) -> String {
        let message = self.alterations.message(None);
        format!("a tenant with a policy that was altered outside the vault: {message}")
    }

    /// Returns one tenant by id or name, or all tenants.
    pub(crate) fn tenants(&self, text: Option<&str>) -> anyhow::Result<Vec<&Arc<Tenant>>> {
        match text {
            Some(text) => Ok(vec![self.find_tenant(text)?]),
            None => Ok(self.directory.tenants()),
        }
    }
}
