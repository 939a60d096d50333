//! Sends a call: the record before the first byte leaves, the exchange, and the outcome.

use bytes::Bytes;
use hyper::{Request, Response, StatusCode};
use scrip_core::{
    error::Error,
    idempotency::IdempotencyClaim,
    operations::proxy_calls::{
        finish_proxy_call::{CallOutcome, abandon_proxy_call, finish_proxy_call},
        start_proxy_call::{StartedCall, start_proxy_call},
    },
};
use scrip_egress::{Delivery, EgressBody};
use tokio::time::Instant;

use crate::{
    app::App,
    metrics::{CallFailureReason, CallResult},
    proxy::{
        call::{
            ReceivedCall, failure::explain_send_error, plan::CallPlan, unsent_tokens::UnsentTokens,
        },
        error::{CallDelivery, ProxyError},
    },
};

/// A call between its two records. If it is dropped, because its client disconnected, its outcome is
/// recorded as unknown.
pub(super) struct SentCall<'a> {
    app: &'a App,
    started: Option<StartedCall>,
}

impl SentCall<'_> {
    /// Records the outcome. A failure is logged: the client gets its answer.
    pub(super) async fn finish(mut self, outcome: CallOutcome) {
        let Some(started) = self.started.take() else { return };
        self.app.metrics.proxy_calls.increment(match &outcome {
            CallOutcome::NotSent => CallResult::NotSent,
            CallOutcome::MaybeSent => CallResult::MaybeSent,
            CallOutcome::Answered { .. } => CallResult::Answered,
        });
        if let Err(error) = finish_proxy_call(&self.app.vault, started, outcome).await {
            self.app.metrics.proxy_failures.increment(CallFailureReason::Record);
            tracing::error!(
                cause = error.cause_text(),
                "the outcome of a proxied call with an idempotency key cannot be stored; a \
                 repetition is rejected"
            );
        }
    }

    /// The destination answered, and the answer is not stored.
    pub(super) async fn finish_without_response(self, status: StatusCode) {
        self.finish(CallOutcome::Answered { status: status.as_u16(), response: None }).await;
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            self.app.metrics.proxy_calls.increment(CallResult::MaybeSent);
            abandon_proxy_call(&self.app.vault, &started);
        }
    }
}

/// Records and sends the call, and returns when the head of the answer is received.
///
/// # Errors
/// The call cannot be recorded, or the destination does not answer.
pub(super) async fn send<'a>(
    app: &'a App,
    call: &ReceivedCall,
    plan: &CallPlan,
    request: Request<Bytes>,
    deadline: Instant,
    tokens: UnsentTokens<'_>,
    claim: Option<IdempotencyClaim>,
) -> Result<(SentCall<'a>, Response<EgressBody>), ProxyError> {
    let has_claim = claim.is_some();
    let sender = call.party.sender(&call.selected)?;
    let started =
        start_proxy_call(&app.vault, sender, tokens.destination(), tokens.used(), claim).await;
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            app.metrics.proxy_failures.increment(CallFailureReason::Record);
            // If the store is unavailable, a second record would fail too.
            let is_recordable = matches!(error, Error::Conflict { .. });
            let error = start_error(error, has_claim);
            return Err(if is_recordable { tokens.reject_openly(error).await } else { error });
        }
    };
    tokens.start();
    let sent = SentCall { app, started: Some(started) };
    let client = app.proxy_egress.client()?;
    let started_at = (app.ticks)();
    let result =
        client.send(&plan.destination, plan.scope, plan.tls.as_ref(), request, deadline).await;
    match result {
        Ok(response) => {
            let duration = (app.ticks)().saturating_sub(started_at).as_micros();
            app.metrics.proxy_answer_micros.record(duration.try_into().unwrap_or(u64::MAX));
            Ok((sent, response))
        }
        Err(error) => {
            let outcome = match error.delivery {
                Delivery::NotSent => CallOutcome::NotSent,
                Delivery::MaybeSent => CallOutcome::MaybeSent,
            };
            sent.finish(outcome).await;
            Err(explain_send_error(app, error))
        }
    }
}

/// With an idempotency key, another server may have sent a call with the same key, or the record may
/// have been written although the store reported an error.
fn start_error(error: Error, has_claim: bool) -> ProxyError {
    let delivery = if has_claim { CallDelivery::MaybeSent } else { CallDelivery::NotSent };
    ProxyError::from(error).with_delivery(delivery)
}
