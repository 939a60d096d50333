//! The operator of an action: an open vault with its directory, and the operating-system user.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    policy::{Application, Directory, PolicyPermit, Tenant},
    store::open_directory,
    types::id::{ApplicationId, TenantId},
};
use scrip_seal::KeySource;
use serde_json::{Map, Value};

use crate::{alterations::AlteredPolicies, error::explain, output::CommandOutput};

/// An open vault with its directory, for actions.
#[derive(Debug)]
pub struct Operator {
    /// Its records name the operating-system user.
    pub vault: Vault,
    pub key_source: Arc<dyn KeySource>,
    pub directory: Arc<Directory>,
    pub alterations: AlteredPolicies,
    /// The file with the chain heads.
    pub head_file: PathBuf,
    os_user: Option<Arc<str>>,
}

/// An open vault, before its directory was checked for altered rows.
#[derive(Debug)]
pub struct OpenedVault {
    pub vault: Vault,
    pub key_source: Arc<dyn KeySource>,
    pub directory: Arc<Directory>,
    pub head_file: PathBuf,
}

impl Operator {
    /// Errors: the deleted tenants cannot be read.
    pub async fn new(opened: OpenedVault, os_user: Option<Arc<str>>) -> anyhow::Result<Self> {
        let OpenedVault { vault, key_source, directory, head_file } = opened;
        let alterations = AlteredPolicies::load(&vault, &directory).await?;
        Ok(Self { vault, key_source, directory, alterations, head_file, os_user })
    }

    /// Returns the permit of the operator for a tenant, with the operating-system user.
    pub fn policy_permit(&self, tenant: &Arc<Tenant>) -> PolicyPermit {
        PolicyPermit::for_operator(Arc::clone(tenant)).with_os_user(self.os_user.clone())
    }

    /// Adds the altered rows, which every list names below its table: tenants with an altered policy are
    /// not in the table.
    pub fn with_alterations(&self, output: CommandOutput) -> CommandOutput {
        let (texts, lines) = (self.alterations.descriptions(), self.alterations.lines());
        output.with("alterations", texts, &lines)
    }

    /// Loads the directory after a change.
    pub async fn reload(&self) -> anyhow::Result<Directory> {
        let (store, current) = (&*self.vault.store, Some(&*self.directory));
        open_directory(store, &*self.key_source, current).await.map_err(explain)
    }

    /// Finds a tenant by id, or by a unique name.
    pub fn find_tenant(&self, text: &str) -> anyhow::Result<&Arc<Tenant>> {
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
    pub fn find_deleted_tenant(&self, text: &str) -> Option<&Arc<Tenant>> {
        let id = TenantId::parse(text);
        let is_match = |it: &&Arc<Tenant>| Some(it.id) == id || it.name.as_str() == text;
        let mut tenants = self.directory.pending_deletion().iter().filter(is_match);
        tenants.next().filter(|_| tenants.next().is_none())
    }

    /// Finds an application of any tenant by id.
    pub fn find_application(&self, text: &str) -> anyhow::Result<(&Arc<Tenant>, &Application)> {
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

    /// Adds ids and names of the tenant and the application that an input names. A tenant can change its
    /// name after the approval, and another tenant can take it.
    /// Errors: an entity does not exist.
    pub fn name_entities(&self, mut input: Value) -> anyhow::Result<Value> {
        let Some(members) = input.as_object_mut() else { return Ok(input) };
        let text_of = |members: &Map<String, Value>, name: &str| {
            members.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        if let Some(text) = text_of(members, "application") {
            let (tenant, application) = self.find_application(&text)?;
            let name = application.record.name.as_str();
            members.insert("application_name".to_owned(), name.into());
            members.insert("tenant".to_owned(), tenant.id.to_string().into());
        }
        if let Some(text) = text_of(members, "tenant") {
            let (id, name) = self.identify_tenant(&text)?;
            members.insert("tenant".to_owned(), id.to_string().into());
            members.insert("tenant_name".to_owned(), name.into());
        }
        Ok(input)
    }

    /// The id and the name of a tenant, which may be deleted or have an altered policy.
    fn identify_tenant(&self, text: &str) -> anyhow::Result<(TenantId, Option<&str>)> {
        if let Some(id) = TenantId::parse(text).filter(|it| self.alterations.contains(*it)) {
            // Its name is not trusted.
            return Ok((id, None));
        }
        let found = self.find_tenant(text);
        let tenant = found.or_else(|error| self.find_deleted_tenant(text).ok_or(error))?;
        Ok((tenant.id, Some(tenant.name.as_str())))
    }

    /// Extends the message about a missing row: rows of a tenant with an altered policy are not
    /// loaded, so the row may be one of them.
    pub fn missing_message(&self, message: &str) -> String {
        match self.alterations.is_empty() {
            true => message.to_owned(),
            false => format!("{message}, or it belongs to {}", self.altered_policy_message()),
        }
    }

    /// Names the altered rows and the command that repairs them.
    pub fn altered_policy_message(&self) -> String {
        let message = self.alterations.message(None);
        format!("a tenant with a policy that was altered outside the vault: {message}")
    }

    /// Returns one tenant by id or name, or all tenants.
    pub fn tenants(&self, text: Option<&str>) -> anyhow::Result<Vec<&Arc<Tenant>>> {
        match text {
            Some(text) => Ok(vec![self.find_tenant(text)?]),
            None => Ok(self.directory.tenants()),
        }
    }
}
