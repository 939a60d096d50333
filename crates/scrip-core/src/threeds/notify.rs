//! Something that somebody without a key tells of a session.

use scrip_threeds::session::{Effect, Event, Refusal};

use crate::{
    Error, Vault,
    audit::{AuditRecord, Operation},
    id::SessionId,
    policy::{Actor, Directory, Origin},
    store::Changed,
    threeds::{Cause, Held, TRIES_MAX, Writing, find_notified, overtaken},
};

/// The session afterwards and what came of it, or the machine's refusal.
pub(crate) async fn notify(
    vault: &Vault,
    directory: &Directory,
    operation: Operation,
    origin: &Origin,
    id: SessionId,
    event: &Event,
) -> Result<Result<(Held, Vec<Effect>), Refusal>, Error> {
    for _ in 0..TRIES_MAX {
        let (tenant, held) = find_notified(vault, directory, id).await?;
        let now = vault.clock.now();
        let (mut next, effects) = match held.after(event, now) {
            Ok(stepped) => stepped,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if !next.differs(&held, &effects) {
            return Ok(Ok((next, effects)));
        }
        let key = &tenant.audit_key;
        let writing = Writing {
            tenant: &tenant,
            cause: Cause::Outsider(origin),
            audit: AuditRecord::for_request(Actor::Outsider, operation, origin, key, now),
            outcome: "done",
            used: None,
            answer: None,
        };
        if next.write(vault, &effects, writing).await? == Changed::Done {
            return Ok(Ok((next, effects)));
        }
    }
    Err(overtaken())
}
