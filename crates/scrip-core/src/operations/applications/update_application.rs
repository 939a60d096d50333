//! Update Application: replaces its name, its rights and its origins. The kind does not change.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    policy::{
        AccessPolicy, Application, DisplayName, PolicyPermit, PolicyWrite, SignedRow,
        application::origins::ApplicationOrigins,
    },
    policy_change::{PolicyDecision, change_policy, load_application},
    types::{Operation, id::ApplicationId},
};

/// The attributes of an application after an update.
#[derive(Debug, Clone)]
pub struct ApplicationUpdate {
    pub name: DisplayName,
    pub access: AccessPolicy,
    /// `None` keeps the origins: clients that do not know them must not clear them.
    pub origins: Option<ApplicationOrigins>,
}

/// Errors: there is no such application, or the request is invalid.
pub async fn update_application(
    vault: &Vault,
    permit: PolicyPermit,
    id: ApplicationId,
    update: ApplicationUpdate,
    recorder: Option<ResponseRecorder<Application>>,
) -> Result<Application, Error> {
    let now = vault.clock.now();
    let change_permit = permit.clone();
    let operation = Operation::UpdateApplication;
    change_policy(vault, permit, operation, now, recorder, move |records| {
        let mut outcome = load_application(records, id)?;
        let ApplicationUpdate { name, access, origins } = update.clone();
        access.check(outcome.record.kind).map_err(Error::Invalid)?;
        outcome.record.name = name;
        outcome.record.access = access;
        if let Some(origins) = origins {
            outcome.record.set_origins(origins)?;
        }
        outcome.record.modified = Some(change_permit.change_stamp(now));
        let signed_row = SignedRow::new(&change_permit.tenant().keys, outcome.record.clone());
        let writes = vec![PolicyWrite::put(signed_row)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome })
    })
    .await
}
