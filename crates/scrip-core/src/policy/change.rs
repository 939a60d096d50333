//! How a tenant's policy changes: decided inside the transaction, on what is there then, and sealed
//! anew. What somebody else altered is never sealed as if it were ours.

use std::sync::{Arc, Mutex, PoisonError};

use scrip_seal::Pepper;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::{ApiKeyId, ApplicationId, random_uuid},
    idempotency::{ResponseRecorder, response::seal_response},
    policy::{
        ApiKeyRecord, ApiKeyText, Application, PolicyEdit, PolicyPermit, PolicyRecords, PolicyWrite,
    },
    store::CommitExtras,
};

/// What an operation makes of the policy that it finds.
pub(crate) struct PolicyDecision<T> {
    pub(crate) writes: Vec<PolicyWrite>,
    /// What was touched.
    pub(crate) entity: String,
    pub(crate) outcome: T,
}

/// The claim in `remember` is held until the change is on disk.
pub(crate) async fn change_policy<T: Send + 'static>(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    now: Timestamp,
    recorder: Option<ResponseRecorder<T>>,
    decide: impl FnOnce(&PolicyRecords) -> Result<PolicyDecision<T>, Error> + Send + 'static,
) -> Result<T, Error> {
    let audit = AuditRecord::for_policy(operation, &permit, now);
    let recording = recorder.as_ref().map(|it| (it.claim.digests, Arc::clone(&it.render)));
    let slot = Arc::new(Mutex::new(None));
    let filled = Arc::clone(&slot);
    let change_permit = permit.clone();
    let decide = move |mut records: PolicyRecords| {
        let keys = &change_permit.tenant().keys;
        change_permit.check(&records)?;
        let PolicyDecision { writes, entity, outcome } = decide(&records)?;
        for write in &writes {
            records.apply(write);
        }
        records.check_size()?;
        let seal = records.next_seal(keys);
        let idempotency = match (recording, change_permit.caller()) {
            (Some((digest, render)), Some(caller)) => {
                let rendered = render(&outcome);
                Some(seal_response(caller, digest, rendered, change_permit.requirement(), now)?)
            }
            (_, _) => None,
        };
        *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        Ok(PolicyEdit { writes, seal, extras: CommitExtras { audit, entity, idempotency } })
    };
    vault.store.change_policy(permit, Box::new(decide)).await??;
    drop(recorder);
    let outcome = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.ok_or_else(|| Error::Internal("a change was committed and not decided".into()))
}

/// An application as the transaction finds it.
pub(crate) fn load_application(
    records: &PolicyRecords,
    id: ApplicationId,
) -> Result<Application, Error> {
    let application = records.applications.iter().find(|it| it.record.id == id);
    let record = application.ok_or(Error::NotFound)?.record.clone();
    let own = records.api_keys.iter().filter(|it| it.record.application == id);
    let mut api_keys: Vec<_> = own.map(|it| it.record.clone()).collect();
    api_keys.sort_by_key(|it| (it.created.at, it.id));
    Ok(Application { record, api_keys })
}

/// The record of a key, of which only the digest is kept.
pub(crate) fn new_api_key_record(
    vault: &Vault,
    permit: &PolicyPermit,
    application: ApplicationId,
    key: &ApiKeyText,
    pepper: &Pepper,
    now: Timestamp,
) -> ApiKeyRecord {
    ApiKeyRecord {
        id: ApiKeyId(random_uuid(vault.fill_random)),
        tenant: permit.tenant().id,
        application,
        digest: pepper.api_key_digest(key.expose()),
        created: permit.change_stamp(now),
    }
}
