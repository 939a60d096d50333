//! Update Tenant: its name and its settings; and, by the operator, its quotas.

use crate::{
    Error, Vault,
    audit::Operation,
    idempotency::Remember,
    policy::{
        Mandate, Name, PolicyWrite, Quotas, Settings, Signed, TenantRecord,
        change::{Decision, change_policy},
    },
};

/// What is to become of the settings that are there.
pub type EditSettings = Box<dyn FnOnce(Settings) -> Settings + Send>;

/// And of its quotas: on those that are there then, so that two changes at once both count.
pub type EditQuotas = Box<dyn FnOnce(Quotas) -> Quotas + Send>;

/// # Errors
/// The tenant is gone.
pub async fn update_tenant(
    vault: &Vault,
    mandate: Mandate,
    name: Name,
    edit: EditSettings,
    remember: Option<Remember<TenantRecord>>,
) -> Result<TenantRecord, Error> {
    rewrite_tenant(vault, mandate, Operation::UpdateTenant, remember, move |record| {
        record.name = name;
        record.settings = edit(record.settings.clone());
    })
    .await
}

/// # Errors
/// The tenant is gone.
pub async fn set_tenant_quotas(
    vault: &Vault,
    mandate: Mandate,
    edit: EditQuotas,
) -> Result<TenantRecord, Error> {
    let edit = move |record: &mut TenantRecord| record.quotas = edit(record.quotas);
    rewrite_tenant(vault, mandate, Operation::SetTenantQuotas, None, edit).await
}

/// Changes a tenant's own row by what is decided on the row as it is then.
pub(crate) async fn rewrite_tenant(
    vault: &Vault,
    mandate: Mandate,
    operation: Operation,
    remember: Option<Remember<TenantRecord>>,
    edit: impl FnOnce(&mut TenantRecord) + Send + 'static,
) -> Result<TenantRecord, Error> {
    let now = vault.clock.now();
    let asker = mandate.clone();
    change_policy(vault, mandate, operation, now, remember, move |records| {
        let mut record = records.tenant.record.clone();
        edit(&mut record);
        record.modified = Some(asker.stamp(now));
        let write = PolicyWrite::PutTenant(Signed::new(&asker.tenant().keys, record.clone()));
        Ok(Decision { writes: vec![write], entity: record.id.to_string(), outcome: record })
    })
    .await
}
