//! Claims the idempotency key of a proxied call, or finds the answer of an earlier one.

use crate::{
    Error, Vault,
    equality::Comparable,
    idempotency::{
        CallContent, CallDelivery, CallResponse, ClaimOutcome, IdempotencyClaim, IdempotencyLookup,
        KeyNamespace, StoredResponse,
        proxy_call::{CallState, OpenedCall},
    },
    operations::claim_idempotency_key::RESPONSE_RETENTION,
    policy::Caller,
    types::{IN_FLIGHT, Operation},
};

/// The decision on a call with an idempotency key.
#[derive(Debug)]
pub enum CallClaim {
    /// The first call with this key: send it.
    Proceed(IdempotencyClaim),
    Replay(CallResponse),
}

/// A rejected call, and how far the first call with the same key got.
#[derive(Debug)]
pub struct CallRejection {
    pub error: Error,
    pub delivery: CallDelivery,
    /// The status of the answer to the first call. Only for an equal call of a caller with the rights
    /// of the first one: for others, it would be the status of another call.
    pub answered_status: Option<u16>,
}

impl CallRejection {
    fn new(error: Error, delivery: CallDelivery) -> Self {
        Self { error, delivery, answered_status: None }
    }
}

/// Keys of proxied calls are separate from those of other operations.
const KEY_KIND: &[u8] = b"proxy";

const SENT_BEFORE: &str = "the first call with this idempotency key may have been sent, but its \
                           answer is unknown; ask the destination before you use a new key";
const ANSWERED_BEFORE: &str = "the destination answered the first call with this idempotency key, \
                               but the answer is not stored";
const OTHER_CALL: &str =
    "this idempotency key was used with another call; use a new random key for each call";
/// The text for browsers, whatever the first call was.
const USED_BEFORE: &str = "this idempotency key was used before, and the answer to that call is not \
                           available; ask the destination before you use a new key";

/// Claims the key for this call, or finds the stored answer.
///
/// Errors: the first call with the key is in flight, has no stored answer, or was another call; the
/// caller lost the rights of the first call; or the store is unavailable.
pub async fn claim_proxy_call(
    vault: &Vault,
    caller: &Caller,
    idempotency_key: &[u8],
    content: CallContent<'_>,
) -> Result<CallClaim, CallRejection> {
    let reject = |error, delivery| Err(CallRejection::new(error, delivery));
    let namespace = KeyNamespace::of(caller, vault.disclosure);
    let digest = match namespace.digest_key(caller, KEY_KIND, idempotency_key) {
        Ok(digest) => digest,
        Err(error) => return reject(error.into(), CallDelivery::NotSent),
    };
    let content = if namespace.compares_content() { content } else { content.without_data() };
    let lookup = build_lookup(vault, caller, digest);
    match vault.store.claim_idempotency_key(lookup).await {
        Ok(ClaimOutcome::Claimed(mut claim)) => {
            let prepare = || content.prepare_comparison(caller).stored_digest();
            match caller.work().run_step(content.comparison_work(), prepare) {
                Ok(digest) => {
                    claim.digests.request = Some(digest);
                    Ok(CallClaim::Proceed(claim))
                }
                Err(error) => reject(error, end_rejected_claim(vault, caller, claim).await),
            }
        }
        Ok(ClaimOutcome::Completed(stored)) => {
            let repeat = RepeatedCall { namespace, content };
            repeat_call(vault, caller, &stored, repeat).await
        }
        Ok(ClaimOutcome::InFlight) => {
            reject(Error::Conflict { reason: IN_FLIGHT }, CallDelivery::MaybeSent)
        }
        // An earlier call with this key may have been sent.
        Err(error) => reject(error.into(), CallDelivery::MaybeSent),
    }
}

fn build_lookup(vault: &Vault, caller: &Caller, digest: [u8; 32]) -> IdempotencyLookup {
    let since = vault.clock.now().minus(RESPONSE_RETENTION);
    IdempotencyLookup { tenant: caller.tenant().id, digest, now: vault.clock.latest(), since }
}

/// Ends the claim of a call that was rejected before it was started, and finds out whether a call
/// with the same key may have been sent since the claim.
///
/// A claim excludes other calls on this node only. If several nodes share the store, another one can
/// start a call with the key; its record is then in the store. A call that starts after this lookup
/// is not found: its client sends it while it waits for the answer to this one.
pub async fn end_rejected_claim(
    vault: &Vault,
    caller: &Caller,
    claim: IdempotencyClaim,
) -> CallDelivery {
    let lookup = build_lookup(vault, caller, claim.digests.key);
    // The lookup claims the key again.
    drop(claim);
    match vault.store.claim_idempotency_key(lookup).await {
        Ok(ClaimOutcome::Claimed(_)) => CallDelivery::NotSent,
        Ok(ClaimOutcome::Completed(_) | ClaimOutcome::InFlight) | Err(_) => CallDelivery::MaybeSent,
    }
}

/// A call that repeats an idempotency key.
struct RepeatedCall<'a> {
    namespace: KeyNamespace,
    content: CallContent<'a>,
}

async fn repeat_call(
    vault: &Vault,
    caller: &Caller,
    stored: &StoredResponse,
    repeat: RepeatedCall<'_>,
) -> Result<CallClaim, CallRejection> {
    let RepeatedCall { namespace, content } = repeat;
    let now = vault.clock.latest();
    let opened = OpenedCall::open(caller, &vault.epoch_keys, stored, now).await;
    let opened = opened.map_err(|error| CallRejection::new(error, CallDelivery::MaybeSent))?;
    let delivery = opened.state.delivery();
    let reject = |error| CallRejection::new(error, delivery);
    opened.check_rights(caller).map_err(reject)?;
    // A repeated call confirms the data of the first one, so its numbers count as guesses.
    let prepare = || content.prepare_comparison(caller);
    let repeated = caller.work().run_step(content.comparison_work(), prepare).map_err(reject)?;
    let compared = match namespace.compares_content() {
        true => Comparable::Body(&repeated.content),
        false => Comparable::NoBody,
    };
    let comparison = vault.may_compare(caller, compared).await;
    let comparison = comparison.map_err(reject)?;
    let is_equal = comparison.is_some_and(|it| repeated.equals(opened.request, it));
    // Browsers share a key: which call was made before is not for all of them.
    let conflict = |reason| {
        let reason = if caller.is_browser() { USED_BEFORE } else { reason };
        reject(Error::Conflict { reason })
    };
    if !is_equal {
        return Err(conflict(OTHER_CALL));
    }
    let entries = opened.replay_entries(content.destination);
    match opened.state {
        CallState::MaybeSent => Err(conflict(SENT_BEFORE)),
        CallState::Answered { status } => Err(CallRejection {
            answered_status: status.filter(|_| !caller.is_browser()),
            ..conflict(ANSWERED_BEFORE)
        }),
        CallState::Response(response) => {
            let recording = vault.record_reads(caller, Operation::InvokeProxy, entries).await;
            recording.map_err(reject)?;
            Ok(CallClaim::Replay(response))
        }
    }
}
