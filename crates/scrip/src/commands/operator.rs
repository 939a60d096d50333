//! The operator of a command: an open vault with its directory, and audit records of the command.

use std::{future::Future, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    policy::{Application, Directory, DirectoryRecords, PolicyPermit, Tenant},
    store::open_directory,
    types::id::{ApplicationId, TenantId},
};
use scrip_seal::KeySource;
use scrip_server::{config::Settings, operator_error::explain};

use crate::commands::{
    alterations::AlteredPolicies,
    output::warn,
    record_failure::{explain_record_failure, explain_unrecorded, warn_about_outcome},
};

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
    pub(super) async fn load(settings: &Settings, vault: Vault) -> anyhow::Result<Self> {
        let records = vault.store.load_directory().await.map_err(explain)?;
        let ring = settings.unlock(&records).await?;
        Self::open_with(settings, vault, records, ring).await
    }

    /// As [`Operator::load`], with the rows and the keys that the caller has loaded.
    pub(super) async fn open_with(
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
        open_directory(store, &*self.key_source, current).await.map_err(explain)
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
