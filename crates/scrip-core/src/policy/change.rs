//! Policy changes: decided inside the transaction on the current rows, then sealed again. Rows that
//! were altered outside of the vault are never sealed.

pub(crate) mod change_record;
mod policy_events;

use std::sync::{Arc, Mutex, PoisonError};

use scrip_seal::Pepper;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    event::EventSource,
    id::{ApiKeyId, ApplicationId, random_uuid},
    idempotency::{ResponseRecorder, response::seal_response},
    policy::{
        ApiKeyRecord, ApiKeyText, Application, PolicyEdit, PolicyPermit, PolicyRecords,
        PolicyWrite, change::policy_events::raise_policy_events,
    },
    store::CommitExtras,
};

/// The result of an operation that decides on the current policy.
pub(crate) struct PolicyDecision<T> {
    pub(crate) writes: Vec<PolicyWrite>,
    /// The id of the changed entity, for the audit record.
    pub(crate) entity: String,
    pub(crate) outcome: T,
}

/// Calls `decide` with the current policy inside the transaction, and writes the decision. The
/// idempotency claim is locked until the change is on disk.
pub(crate) async fn change_policy<T: Send + 'static>(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    now: Timestamp,
    recorder: Option<ResponseRecorder<T>>,
    decide: impl FnOnce(&PolicyRecords) -> Result<PolicyDecision<T>, Error> + Send + 'static,
) -> Result<T, Error> {
    let audit = AuditRecord::for_policy(operation, &permit, now);
    let idempotency_parts = recorder.as_ref().map(|it| (it.claim.digests, Arc::clone(&it.render)));
    let outcome_slot = Arc::new(Mutex::new(None));
    let decision_slot = Arc::clone(&outcome_slot);
    let (change_permit, fill_random) = (permit.clone(), vault.fill_random);
    let decide = move |mut records: PolicyRecords| {
        let keys = &change_permit.tenant().keys;
        change_permit.check(&records)?;
        let PolicyDecision { writes, entity, outcome } = decide(&records)?;
        let source = EventSource::new(change_permit.tenant(), &audit, fill_random);
        let deliveries = raise_policy_events(&source, &records, &writes)?;
        for write in &writes {
            records.apply(write);
        }
        records.check_size()?;
        let seal = records.next_seal(keys);
        let idempotency = match (idempotency_parts, change_permit.caller()) {
            (Some((digest, render)), Some(caller)) => {
                let rendered = render(&outcome);
                Some(seal_response(caller, digest, rendered, change_permit.requirement(), now)?)
            }
            (_, _) => None,
        };
        *decision_slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        Ok(PolicyEdit {
            writes,
            seal,
            extras: CommitExtras { audit, entity, idempotency, deliveries },
            destroyed_versions: Vec::new(),
        })
    };
    vault.store.change_policy(permit, Box::new(decide)).await??;
    drop(recorder);
    let outcome = outcome_slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome
        .ok_or_else(|| Error::Internal("a policy change was committed without a decision".into()))
}

/// Finds an application in the rows that the transaction read.
pub(crate) fn load_application(
    records: &PolicyRecords,
    id: ApplicationId,
) -> Result<Application, Error> {
    let application = records.applications.iter().find(|it| it.record.id == id);
    let record = application.ok_or(Error::NotFound)?.record.clone();
    let rows = records.api_keys.iter().filter(|it| it.record.application == id);
    let mut api_keys: Vec<_> = rows.map(|it| it.record.clone()).collect();
    api_keys.sort_by_key(|it| (it.created.at, it.id));
    Ok(Application { record, api_keys })
}

/// The row of an API key. Only the digest of the key is stored.
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
