//! Update Application: its name and its rights, replaced whole. Its type stays.

use crate::{
    Error, Vault,
    audit::Operation,
    id::ApplicationId,
    idempotency::Remember,
    policy::{
        AccessPolicy, Application, Mandate, Name, PolicyWrite, Signed,
        change::{Decision, change_policy, found},
    },
};

/// # Errors
/// There is no such application, or the request breaks a rule.
pub async fn update_application(
    vault: &Vault,
    mandate: Mandate,
    id: ApplicationId,
    name: Name,
    access: AccessPolicy,
    remember: Option<Remember<Application>>,
) -> Result<Application, Error> {
    let now = vault.clock.now();
    let asker = mandate.clone();
    let operation = Operation::UpdateApplication;
    change_policy(vault, mandate, operation, now, remember, move |records| {
        let mut outcome = found(records, id)?;
        access.check(outcome.record.kind).map_err(Error::Invalid)?;
        outcome.record.name = name;
        outcome.record.access = access;
        outcome.record.modified = Some(asker.stamp(now));
        let signed = Signed::new(&asker.tenant().keys, outcome.record.clone());
        let writes = vec![PolicyWrite::PutApplication(signed)];
        Ok(Decision { writes, entity: id.to_string(), outcome })
    })
    .await
}
