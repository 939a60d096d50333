//! The API keys of `scrip dev`, and the tenant and applications that they belong to.

use std::{fs, io::Write, path::Path, sync::Arc};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    operations::{
        applications::create_application::{CreateKey, NewApplication, create_application},
        tenants::create_tenant::{create_tenant, create_vault_chain},
    },
    policy::{
        AccessPolicy, AccessRule, AccessScope, DisplayName, PolicyPermit, Tenant,
        application::origins::ApplicationOrigins, tenant,
    },
    store::open_directory,
    types::{ApplicationKind, Container, Permission, Permissions, TenantKind, Transform},
};
use scrip_operator::error::explain;
use scrip_seal::{KeySource, Pepper};
use scrip_server::files::atomic_file;
use serde::{Deserialize, Serialize};

/// Keys for a first try. Stored in the clear with the data, which is acceptable for a development
/// vault only.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DevKeys {
    pub(super) tenant_id: String,
    pub(super) keys: DevApiKeys,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DevApiKeys {
    pub(super) management: String,
    pub(super) private: String,
    pub(super) public: String,
}

/// Loads the keys of earlier runs, or creates new ones.
pub(super) async fn load_or_create_keys(
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
    let directory = open_directory(&*vault.store, source, None).await.map_err(explain)?;
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
    let directory = open_directory(&*vault.store, source, None).await.map_err(explain)?;
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
