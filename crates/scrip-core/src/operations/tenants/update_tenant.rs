//! Update Tenant: its name and its settings; and, by the operator, its quotas.

use crate::{
    Error, Vault,
    audit::Operation,
    idempotency::ResponseRecorder,
    policy::{
        DisplayName, PolicyPermit, PolicyWrite, Quotas, SignedRow, TenantRecord, TenantSettings,
        change::{PolicyDecision, change_policy},
    },
};

/// What is to become of the settings that are there.
pub type EditSettings = Box<dyn FnOnce(TenantSettings) -> TenantSettings + Send>;

/// And of its quotas: on those that are there then, so that two changes at once both count.
pub type EditQuotas = Box<dyn FnOnce(Quotas) -> Quotas + Send>;

/// # Errors
/// The tenant is gone.
pub async fn update_tenant(
    vault: &Vault,
    permit: PolicyPermit,
    name: DisplayName,
    edit: EditSettings,
    recorder: Option<ResponseRecorder<TenantRecord>>,
) -> Result<TenantRecord, Error> {
    rewrite_tenant(vault, permit, Operation::UpdateTenant, recorder, move |record| {
        record.name = name;
        record.settings = edit(record.settings.clone());
    })
    .await
}

/// # Errors
/// The tenant is gone.
pub async fn set_tenant_quotas(
    vault: &Vault,
    permit: PolicyPermit,
    edit: EditQuotas,
) -> Result<TenantRecord, Error> {
    let edit = move |record: &mut TenantRecord| record.quotas = edit(record.quotas);
    rewrite_tenant(vault, permit, Operation::SetTenantQuotas, None, edit).await
}

/// Changes a tenant's own row by what is decided on the row as it is then.
pub(crate) async fn rewrite_tenant(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    recorder: Option<ResponseRecorder<TenantRecord>>,
    edit: impl FnOnce(&mut TenantRecord) + Send + 'static,
) -> Result<TenantRecord, Error> {
    let now = vault.clock.now();
    let change_permit = permit.clone();
    change_policy(vault, permit, operation, now, recorder, move |records| {
        let mut record = records.tenant.record.clone();
        edit(&mut record);
        record.modified = Some(change_permit.change_stamp(now));
        let write =
            PolicyWrite::PutTenant(SignedRow::new(&change_permit.tenant().keys, record.clone()));
        Ok(PolicyDecision { writes: vec![write], entity: record.id.to_string(), outcome: record })
    })
    .await
}
