//! Claims an idempotency key for a request, or replays the stored response.

use std::time::Duration;

use crate::{
    Error, Vault,
    equality::Comparable,
    idempotency::{
        ClaimOutcome, IdempotencyClaim, IdempotencyLookup, KeyNamespace, Replay, RequestContent,
        StoredResponse,
        request_digest::RepeatedRequest,
        response::replay::{KEY_REUSED, open_response},
    },
    policy::Caller,
    read_log::ReadLogEntry,
    threeds_session::check_replayed_outcome,
    types::{EntityType, IN_FLIGHT, Operation},
};

/// The time for which a response is stored.
pub const RESPONSE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The decision on a request with an idempotency key.
#[derive(Debug)]
pub enum ClaimDecision {
    /// The first request with this key: execute it and store the response.
    Proceed(IdempotencyClaim),
    Replay(Replay),
}

/// Claims the key for this request, or replays the response of an earlier one.
///
/// A stored response is replayed only if the request equals the first one. Without a body in
/// `request`, this means the same method and path. Pass the body of a caller with an API key that
/// many clients share. Of a request of hosted fields, only method and path are compared.
/// Errors: the first request is still in flight, the caller lost the permission of the first
/// request, the card of a 3-D Secure outcome now has another number, the stored response belongs to
/// another request, or the replay cannot be recorded.
pub async fn claim_idempotency_key(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    idempotency_key: &[u8],
    request: RequestContent<'_>,
) -> Result<ClaimDecision, Error> {
    let namespace = KeyNamespace::of(caller, vault.disclosure);
    let digest = namespace.digest_key(caller, &[], idempotency_key)?;
    let body = request.body.filter(|_| namespace.compares_content());
    let request = RequestContent { body, ..request };
    let since = vault.clock.now().minus(RESPONSE_RETENTION);
    let tenant = caller.tenant().id;
    let lookup = IdempotencyLookup { tenant, digest, now: vault.clock.latest(), since };
    match vault.store.claim_idempotency_key(lookup).await? {
        ClaimOutcome::Claimed(mut claim) => {
            claim.digests.request = Some(request.digest(caller).to_stored());
            Ok(ClaimDecision::Proceed(claim))
        }
        ClaimOutcome::Completed(response) => {
            // A replay confirms that the numbers are those of the first request, so it counts as a
            // guess.
            let body = request.body.map_or(Comparable::NoBody, Comparable::Body);
            let comparison = vault.may_compare(caller, body).await?;
            let comparison = comparison.ok_or(Error::Unprocessable { reason: KEY_REUSED })?;
            let repeated = RepeatedRequest { digest: request.digest(caller), comparison };
            let replay = open_response(caller, &response, repeated)?;
            if let Some(session) = replay.outcome_session {
                check_replayed_outcome(vault, caller, session).await?;
            }
            let (operation, entries) = replay_log_entries(operation, &response);
            vault.record_reads(caller, operation, entries).await?;
            Ok(ClaimDecision::Replay(replay))
        }
        ClaimOutcome::InFlight => Err(Error::Conflict { reason: IN_FLIGHT }),
    }
}

/// The read-log entries of a replay: one for each token in the response; a single one if there is
/// no token. An idempotency key is shared by all operations, so a replay may show another entity
/// than the request names.
fn replay_log_entries(
    operation: Operation,
    response: &StoredResponse,
) -> (Operation, Vec<ReadLogEntry>) {
    let entries =
        response.token_data.iter().map(|it| ReadLogEntry::new(it.token.as_str(), "replayed"));
    let entries: Vec<_> = entries.collect();
    match (entries.is_empty(), operation.entity_type()) {
        (true, _) => (operation, vec![ReadLogEntry::new("", "replayed")]),
        (false, Some(EntityType::Token)) => (operation, entries),
        (false, _) => (Operation::GetToken, entries),
    }
}
