//! Claim the right to answer a request with an idempotency key, or repeat the answer it had.

use std::time::Duration;

use crate::{
    Error, FieldError, Vault,
    audit::{EntityType, Operation, Seen},
    idempotency::{
        AskedAnswer, Claim, Claimed, Replay, SentRequest, StoredAnswer,
        answer::{OTHER_REQUEST, open_answer},
    },
    policy::{Caller, guessing_budget::Fingerprinting},
    store::IN_FLIGHT,
    threeds::check_outcome,
};

/// How long an answer is remembered.
pub const ANSWER_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub enum Turn {
    /// The first to ask: do it, and remember the answer.
    Proceed(Claim),
    Replay(Replay),
}

/// A caller whose idempotency keys many clients share brings the request: a stored response is
/// replayed only if the request equals the one it belongs to.
///
/// # Errors
/// The first request is still in flight, the caller lost the right that its answer needed, the card
/// of a 3-D Secure outcome has another number now, the stored response belongs to another request,
/// or that it is given again cannot be recorded.
pub async fn claim_answer(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    idempotency_key: &[u8],
    request: Option<SentRequest<'_>>,
) -> Result<Turn, Error> {
    if idempotency_key.is_empty() || idempotency_key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(FieldError::new("BT-IDEMPOTENCY-KEY", "must have 1 to 256 characters").into());
    }
    let now = vault.clock.now();
    let tenant = caller.tenant();
    // Sessions of one application are strangers to each other.
    let session = caller.session().map(|it| it.0).unwrap_or_default();
    let asker = [caller.application().0.as_bytes().as_slice(), &session].concat();
    let digest = tenant.keys.idempotency(&asker, idempotency_key);
    let since = now.before(ANSWER_RETENTION);
    let asked = AskedAnswer { tenant: tenant.id, digest, now: vault.clock.latest(), since };
    match vault.store.claim_answer(asked).await? {
        Claimed::Claim(mut claim) => {
            claim.digest.request = request.map(|it| it.digest(caller));
            Ok(Turn::Proceed(claim))
        }
        Claimed::Answered(answer) => {
            // A replay tells that the numbers are those of the first request: it is a guess.
            if let Some(body) = request.and_then(|it| it.body)
                && vault.count_compared(caller, body).await? == Fingerprinting::Withheld
            {
                return Err(Error::Unprocessable { reason: OTHER_REQUEST });
            }
            let replay = open_answer(caller, &answer, request.map(|it| it.digest(caller)))?;
            if let Some(session) = replay.outcome_of {
                check_outcome(vault, caller, session).await?;
            }
            let (operation, seen) = replayed(operation, &answer);
            vault.record_seen(caller, operation, seen).await?;
            Ok(Turn::Replay(replay))
        }
        Claimed::InFlight => Err(Error::Conflict { reason: IN_FLIGHT }),
    }
}

/// One record for each token that it shows; one, if it shows none. A key that was used for one
/// operation answers every other, so what it shows need not be what was asked for.
fn replayed(asked: Operation, answer: &StoredAnswer) -> (Operation, Vec<Seen>) {
    let seen = answer.parts.iter().map(|it| Seen::new(it.token.as_str(), "replayed"));
    let seen: Vec<_> = seen.collect();
    match (seen.is_empty(), asked.entity_type()) {
        (true, _) => (asked, vec![Seen::new("", "replayed")]),
        (false, Some(EntityType::Token)) => (asked, seen),
        (false, _) => (Operation::GetToken, seen),
    }
}
