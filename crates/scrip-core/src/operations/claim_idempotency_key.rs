//! Claim the right to answer a request with an idempotency key, or repeat the answer it had.

use std::time::Duration;

use crate::{
    Error, FieldError, Vault,
    audit::{EntityType, Operation, ReadLogEntry},
    idempotency::{
        ClaimOutcome, IdempotencyClaim, IdempotencyLookup, Replay, RequestContent, StoredResponse,
        response::{KEY_REUSED, open_response},
    },
    policy::{Caller, guessing_budget::FingerprintDisclosure},
    store::IN_FLIGHT,
    threeds::check_replayed_outcome,
};

/// How long an answer is remembered.
pub const RESPONSE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub enum ClaimDecision {
    /// The first to ask: do it, and remember the answer.
    Proceed(IdempotencyClaim),
    Replay(Replay),
}

/// A caller whose idempotency keys many clients share brings the request: a stored response is
/// replayed only if the request equals the one it belongs to.
///
/// # Errors
/// The first request is still in flight, the caller lost the right that its answer needed, the card
/// of a 3-D Secure outcome has another number now, the stored response belongs to another request,
/// or that it is given again cannot be recorded.
pub async fn claim_idempotency_key(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    idempotency_key: &[u8],
    request: Option<RequestContent<'_>>,
) -> Result<ClaimDecision, Error> {
    if idempotency_key.is_empty() || idempotency_key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(FieldError::new("BT-IDEMPOTENCY-KEY", "must have 1 to 256 characters").into());
    }
    let now = vault.clock.now();
    let tenant = caller.tenant();
    // Sessions of one application are strangers to each other.
    let session = caller.access_session().map(|it| it.0).unwrap_or_default();
    let key_scope = [caller.application().0.as_bytes().as_slice(), &session].concat();
    let digest = tenant.keys.idempotency_digest(&key_scope, idempotency_key);
    let since = now.minus(RESPONSE_RETENTION);
    let lookup = IdempotencyLookup { tenant: tenant.id, digest, now: vault.clock.latest(), since };
    match vault.store.claim_idempotency_key(lookup).await? {
        ClaimOutcome::Claimed(mut claim) => {
            claim.digests.request = request.map(|it| it.digest(caller));
            Ok(ClaimDecision::Proceed(claim))
        }
        ClaimOutcome::Completed(response) => {
            // A replay tells that the numbers are those of the first request: it is a guess.
            if let Some(body) = request.and_then(|it| it.body)
                && vault.count_request_numbers(caller, body).await?
                    == FingerprintDisclosure::Withheld
            {
                return Err(Error::Unprocessable { reason: KEY_REUSED });
            }
            let replay = open_response(caller, &response, request.map(|it| it.digest(caller)))?;
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

/// One record for each token that it shows; one, if it shows none. A key that was used for one
/// operation answers every other, so what it shows need not be what was asked for.
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
