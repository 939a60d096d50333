//! How a tenant's policy changes: decided inside the transaction, on what is there then, and sealed
//! anew. What somebody else altered is never sealed as if it were ours.

use std::sync::{Arc, Mutex, PoisonError};

use scrip_seal::Pepper;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::{ApiKeyId, ApplicationId, random_uuid},
    idempotency::{Remember, answer::seal_plain_answer},
    policy::{
        ApiKeyRecord, ApiKeyText, Application, Mandate, PolicyEdit, PolicyRecords, PolicyWrite,
    },
    store::Beside,
};

/// What an operation makes of the policy that it finds.
pub(crate) struct Decision<T> {
    pub(crate) writes: Vec<PolicyWrite>,
    /// What was touched.
    pub(crate) entity: String,
    pub(crate) outcome: T,
}

/// The claim in `remember` is held until the change is on disk.
pub(crate) async fn change_policy<T: Send + 'static>(
    vault: &Vault,
    mandate: Mandate,
    operation: Operation,
    now: Timestamp,
    remember: Option<Remember<T>>,
    decide: impl FnOnce(&PolicyRecords) -> Result<Decision<T>, Error> + Send + 'static,
) -> Result<T, Error> {
    let audit = AuditRecord::of(operation, &mandate, now);
    let answers = remember.as_ref().map(|it| (it.claim.digest, Arc::clone(&it.render)));
    let slot = Arc::new(Mutex::new(None));
    let filled = Arc::clone(&slot);
    let asker = mandate.clone();
    let decide = move |mut records: PolicyRecords| {
        let keys = &asker.tenant().keys;
        asker.check(&records)?;
        let Decision { writes, entity, outcome } = decide(&records)?;
        for write in &writes {
            records.apply(write);
        }
        records.check_size()?;
        let seal = records.next_seal(keys);
        let answer = match (answers, asker.caller()) {
            (Some((digest, render)), Some(caller)) => {
                let rendered = render(&outcome);
                Some(seal_plain_answer(caller, digest, rendered, asker.needs(), now)?)
            }
            (_, _) => None,
        };
        *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        Ok(PolicyEdit { writes, seal, written: Beside { audit, entity, answer } })
    };
    vault.store.change_policy(mandate, Box::new(decide)).await??;
    drop(remember);
    let outcome = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.ok_or_else(|| Error::Internal("a change was committed and not decided".into()))
}

/// An application as the transaction finds it.
pub(crate) fn found(records: &PolicyRecords, id: ApplicationId) -> Result<Application, Error> {
    let application = records.applications.iter().find(|it| it.record.id == id);
    let record = application.ok_or(Error::NotFound)?.record.clone();
    let own = records.api_keys.iter().filter(|it| it.record.application == id);
    let mut api_keys: Vec<_> = own.map(|it| it.record.clone()).collect();
    api_keys.sort_by_key(|it| (it.created.at, it.id));
    Ok(Application { record, api_keys })
}

/// The record of a key, of which only the digest is kept.
pub(crate) fn api_key_record(
    vault: &Vault,
    mandate: &Mandate,
    application: ApplicationId,
    key: &ApiKeyText,
    pepper: &Pepper,
    now: Timestamp,
) -> ApiKeyRecord {
    ApiKeyRecord {
        id: ApiKeyId(random_uuid(vault.chance)),
        tenant: mandate.tenant().id,
        application,
        digest: pepper.digest(key.expose()),
        created: mandate.stamp(now),
    }
}
