//! Update Tenant: its name and settings; and, by the operator, its quotas.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    operations::proxies::update_proxy::check_application_update,
    policy::{
        DisplayName, PolicyPermit, PolicyRecords, PolicyWrite, Quotas, SignedRow, TenantRecord,
        TenantSettings,
    },
    policy_change::{PolicyDecision, change_policy},
    types::Operation,
};

/// Edits the current settings. It may run several times.
pub type EditSettings = Box<dyn Fn(TenantSettings) -> TenantSettings + Send + Sync>;

/// Edits the current quotas, so that two concurrent changes both apply. It may run several times.
pub(crate) type EditQuotas = Box<dyn Fn(Quotas) -> Quotas + Send + Sync>;

/// Errors: the tenant does not exist, or the change allows ephemeral proxies and the caller may not
/// update applications.
pub async fn update_tenant(
    vault: &Vault,
    permit: PolicyPermit,
    name: DisplayName,
    edit: EditSettings,
    recorder: Option<ResponseRecorder<TenantRecord>>,
) -> Result<TenantRecord, Error> {
    let change_permit = permit.clone();
    rewrite_tenant(vault, permit, Operation::UpdateTenant, recorder, move |records, record| {
        let settings = edit(record.settings.clone());
        // Ephemeral proxies send card data to any host, as a redirected proxy does.
        if record.settings.disable_ephemeral_proxy && !settings.disable_ephemeral_proxy {
            check_application_update(&change_permit, records)?;
        }
        (record.name, record.settings) = (name.clone(), settings);
        Ok(())
    })
    .await
}

/// Errors: the tenant does not exist.
pub async fn set_tenant_quotas(
    vault: &Vault,
    permit: PolicyPermit,
    edit: EditQuotas,
) -> Result<TenantRecord, Error> {
    let edit_record = move |_: &PolicyRecords, record: &mut TenantRecord| {
        record.quotas = edit(record.quotas);
        Ok(())
    };
    rewrite_tenant(vault, permit, Operation::SetTenantQuotas, None, edit_record).await
}

/// Changes the row of a tenant, based on the current row.
pub(crate) async fn rewrite_tenant(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    recorder: Option<ResponseRecorder<TenantRecord>>,
    mut edit: impl FnMut(&PolicyRecords, &mut TenantRecord) -> Result<(), Error> + Send,
) -> Result<TenantRecord, Error> {
    let now = vault.clock.now();
    let change_permit = permit.clone();
    change_policy(vault, permit, operation, now, recorder, move |records| {
        let mut record = records.tenant.record.clone();
        edit(records, &mut record)?;
        record.modified = Some(change_permit.change_stamp(now));
        let write = PolicyWrite::put(SignedRow::new(&change_permit.tenant().keys, record.clone()));
        Ok(PolicyDecision { writes: vec![write], entity: record.id.to_string(), outcome: record })
    })
    .await
}
