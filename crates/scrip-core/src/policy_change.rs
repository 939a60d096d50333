//! Policy changes: decided on a snapshot of the rows, and written if no row changed since. Rows that
//! were altered outside of the vault are never sealed.

mod policy_events;

use std::fmt::Display;

use scrip_seal::Pepper;

use crate::{
    Error, Timestamp, Vault,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras, LoadedPolicy, PolicyEdit},
    events::EventSource,
    idempotency::{ResponseRecorder, response::seal_response},
    policy::{
        ApiKeyRecord, ApiKeyText, Application, EntityId, PolicyPermit, PolicyRecords, PolicyWrite,
    },
    policy_change::policy_events::raise_policy_events,
    types::{
        Operation,
        id::{ApiKeyId, ApplicationId, random_uuid},
    },
};

/// The result of an operation that decides on the current policy.
pub(crate) struct PolicyDecision<T> {
    pub(crate) writes: Vec<PolicyWrite>,
    /// The id of the changed entity, for the audit record.
    pub(crate) entity: String,
    pub(crate) outcome: T,
}

/// A change of one row.
pub(crate) struct RowChange<I> {
    pub(crate) permit: PolicyPermit,
    pub(crate) operation: Operation,
    pub(crate) id: I,
}

/// How often a change is decided again because another node changed the policy of the tenant
/// meanwhile. Changes of one process take turns.
const ATTEMPTS_MAX: usize = 256;
const CONTENDED: &str = "other nodes change the policy of this tenant at the same time";

/// Decides a change on the current policy, and writes the decision if the policy is still the same.
/// Otherwise decides again. The idempotency claim is locked until the change is on disk.
///
/// `decide` may parse, compile and seal: it runs outside of the transaction, and for a large policy
/// outside of the async workers. It may run several times.
pub(crate) async fn change_policy<T: Send + 'static>(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    now: Timestamp,
    recorder: Option<ResponseRecorder<T>>,
    mut decide: impl FnMut(&PolicyRecords) -> Result<PolicyDecision<T>, Error> + Send,
) -> Result<T, Error> {
    let audit = AuditRecord::for_policy(operation, &permit, now);
    let context = ChangeContext { permit: &permit, audit, now, fill_random: vault.fill_random };
    for _ in 0..ATTEMPTS_MAX {
        let LoadedPolicy { records, turn } = vault.store.load_policy(&permit).await??;
        let work = count_policy_work(&records);
        let prepare = || context.prepare(records, &mut decide, recorder.as_ref());
        let prepared = match permit.caller() {
            Some(caller) => caller.work().run_step(work, prepare),
            None => Ok(prepare()),
        };
        let PreparedChange { edit, outcome } = prepared??;
        let written = vault.store.change_policy(permit.clone(), edit).await??;
        drop(turn);
        if written == ChangeOutcome::Done {
            return Ok(outcome);
        }
    }
    Err(Error::Unavailable(CONTENDED.into()))
}

/// Removes a row of the policy, if the current policy has it.
pub(crate) async fn remove_row(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    id: impl Into<EntityId> + Copy + Display + Send,
    is_present: impl Fn(&PolicyRecords) -> bool + Send,
) -> Result<(), Error> {
    change_policy(vault, permit, operation, vault.clock.now(), None, move |records| {
        if !is_present(records) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}

/// The charged work of checking a policy: each row is decoded, and its MAC is computed.
pub(crate) fn count_policy_work(records: &PolicyRecords) -> usize {
    const ROW_WORK: usize = 1024;
    let work = records.rows().map(|it| ROW_WORK.saturating_add(it.sealed_length()));
    work.fold(0, usize::saturating_add)
}

/// The parts of a policy change that stay the same for each attempt.
struct ChangeContext<'a> {
    permit: &'a PolicyPermit,
    audit: AuditRecord,
    now: Timestamp,
    fill_random: fn(&mut [u8]),
}

struct PreparedChange<T> {
    edit: PolicyEdit,
    outcome: T,
}

impl ChangeContext<'_> {
    fn prepare<T>(
        &self,
        mut records: PolicyRecords,
        decide: &mut impl FnMut(&PolicyRecords) -> Result<PolicyDecision<T>, Error>,
        recorder: Option<&ResponseRecorder<T>>,
    ) -> Result<PreparedChange<T>, Error> {
        let (permit, base) = (self.permit, records.seal);
        permit.check(&records)?;
        let PolicyDecision { writes, entity, outcome } = decide(&records)?;
        let source = EventSource::new(permit.tenant(), &self.audit, self.fill_random);
        let deliveries = raise_policy_events(&source, &records, &writes)?;
        for write in &writes {
            records.apply(write);
        }
        records.check_size()?;
        let seal = records.next_seal(&permit.tenant().keys);
        let idempotency = match (recorder, permit.caller()) {
            (Some(recorder), Some(caller)) => {
                let (digests, rendered) = (recorder.claim.digests, (recorder.render)(&outcome));
                Some(seal_response(caller, digests, rendered, permit.requirement(), self.now)?)
            }
            (_, _) => None,
        };
        let extras = CommitExtras { audit: self.audit.clone(), entity, idempotency, deliveries };
        let destroyed_versions = Vec::new();
        Ok(PreparedChange {
            edit: PolicyEdit { base, writes, seal, extras, destroyed_versions },
            outcome,
        })
    }
}

/// Finds an application in the loaded rows.
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
