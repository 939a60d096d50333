//! Sends a call: the record before the first byte leaves, the exchange, and the outcome.

use std::{sync::Arc, time::Duration};

use hyper::{HeaderMap, Response, StatusCode};
use scrip_core::{
    Error,
    events::payload::proxy::{DestinationAnswer, InvocationErrors, InvokedProxy, ProxyInvocation},
    idempotency::IdempotencyClaim,
    operations::proxy_calls::{
        finish_proxy_call::{CallOutcome, abandon_proxy_call, finish_proxy_call},
        record_rejected_use::queue_unsent_call,
        start_proxy_call::{StartedCall, start_proxy_call},
    },
    policy::Proxy,
};
use scrip_egress::{Delivery, Destination, EgressBody};
use tokio::time::Instant;

use crate::{
    app::App,
    metrics::{CallFailureReason, CallResult, label::Label},
    proxy::{
        call::{
            failure::{classify_send_failure, explain_send_error},
            plan::CallPlan,
            received_call::ReceivedCall,
            unsent_tokens::UnsentTokens,
        },
        error::{CallDelivery, ProxyError},
        outgoing::OutgoingMessage,
    },
};

/// A call between its two records. If it is dropped, because its client disconnected, its outcome is
/// recorded as unknown.
pub(super) struct SentCall<'a> {
    app: &'a App,
    started: Option<StartedCall>,
    /// The reading of the monotonic clock at the start.
    started_at: Duration,
}

/// A call that is ready to be sent.
pub(super) struct PreparedCall {
    pub(super) request: OutgoingMessage,
    /// The tokens that transforms of the request created.
    pub(super) created_tokens: Vec<String>,
    pub(super) deadline: Instant,
}

/// The end of a call: the status that its client gets, and why the call failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallEnd {
    pub(super) status: StatusCode,
    pub(super) failure: Option<CallFailureReason>,
}

impl SentCall<'_> {
    fn elapsed(&self) -> Duration {
        (self.app.ticks)().saturating_sub(self.started_at)
    }

    /// The record of the outcome names these tokens.
    pub(super) fn add_created_tokens(&mut self, ids: &[String]) {
        if let Some(started) = &mut self.started {
            started.add_created_tokens(ids);
        }
    }

    /// The answer, for the event of the call.
    fn describe_answer(&mut self, answer: &Response<EgressBody>, elapsed: Duration) {
        if let Some(invocation) = self.started.as_mut().and_then(StartedCall::invocation_mut) {
            let (status, header_names) = (answer.status().as_u16(), list_names(answer.headers()));
            invocation.answer = Some(DestinationAnswer { status, elapsed, header_names });
        }
    }

    /// Records the outcome. A failure is logged: the client gets its answer.
    pub(super) async fn finish(mut self, outcome: CallOutcome, end: CallEnd) {
        let elapsed = self.elapsed();
        let Some(mut started) = self.started.take() else { return };
        if let Some(invocation) = started.invocation_mut() {
            (invocation.status, invocation.elapsed) = (Some(end.status.as_u16()), elapsed);
            invocation.errors = describe_failure(end.failure);
        }
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
    pub(super) async fn finish_without_response(self, status: StatusCode, end: CallEnd) {
        let outcome = CallOutcome::Answered { status: status.as_u16(), response: None };
        self.finish(outcome, end).await;
    }
}

/// The error in the event of a call that ended before its client got a response.
const CLIENT_GONE: &str = "client_gone";

fn describe_failure(failure: Option<CallFailureReason>) -> InvocationErrors {
    // Who reads the event must not learn whether a name exists in the inner network.
    let is_guard = |it: &CallFailureReason| *it == CallFailureReason::Guard;
    let text = failure.map(|it| if is_guard(&it) { CallFailureReason::Lookup } else { it });
    let text = text.map(CallFailureReason::as_str);
    let response_transform = text.filter(|_| failure == Some(CallFailureReason::Transform));
    InvocationErrors { call: text, response_transform }
}

fn list_names(headers: &HeaderMap) -> Vec<String> {
    headers.keys().map(|it| it.as_str().to_owned()).collect()
}

/// The call, for its event.
fn describe_call(
    call: &ReceivedCall,
    plan: &CallPlan,
    request: &OutgoingMessage,
) -> ProxyInvocation {
    let describe_proxy =
        |it: &Arc<Proxy>| InvokedProxy { id: it.record().id, name: it.record().name.clone() };
    ProxyInvocation {
        proxy: call.selected.proxy().map(describe_proxy),
        method: call.method_name(),
        url: render_url(&plan.destination),
        header_names: request.header_names().map(|it| it.as_str().to_owned()).collect(),
        answer: None,
        status: None,
        elapsed: Duration::ZERO,
        errors: InvocationErrors::default(),
    }
}

/// The URL without its query.
fn render_url(destination: &Destination) -> String {
    let is_https = destination.is_https();
    let (scheme, default_port) = if is_https { ("https", 443) } else { ("http", 80) };
    let path = destination.path_and_query().split('?').next().unwrap_or_default();
    match destination.port() {
        port if port == default_port => format!("{scheme}://{}{path}", destination.host()),
        port => format!("{scheme}://{}:{port}{path}", destination.host()),
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        let elapsed = self.elapsed();
        if let Some(mut started) = self.started.take() {
            if let Some(invocation) = started.invocation_mut() {
                invocation.elapsed = elapsed;
                invocation.errors.call = Some(CLIENT_GONE);
            }
            self.app.metrics.proxy_calls.increment(CallResult::MaybeSent);
            abandon_proxy_call(&self.app.vault, &started);
        }
    }
}

/// Records and sends the call, and returns when the head of the answer is received.
/// Errors: the call cannot be recorded, or the destination does not answer.
pub(super) async fn send<'a>(
    app: &'a App,
    call: &ReceivedCall,
    plan: &CallPlan,
    prepared: PreparedCall,
    tokens: UnsentTokens<'_>,
    claim: Option<IdempotencyClaim>,
) -> Result<(SentCall<'a>, Response<EgressBody>), ProxyError> {
    let PreparedCall { request, created_tokens, deadline } = prepared;
    let has_claim = claim.is_some();
    let sender = call.party.sender(&call.selected)?;
    let started_at = (app.ticks)();
    let (destination, used) = (tokens.destination(), &tokens.used);
    let describe = || describe_call(call, plan, &request);
    let started = start_proxy_call(&app.vault, sender, destination, used, claim, describe).await;
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            app.metrics.proxy_failures.increment(CallFailureReason::Record);
            if !created_tokens.is_empty() {
                let (outcome, destination) = (CallDelivery::NotSent.as_str(), tokens.destination());
                queue_unsent_call(&app.vault, sender, destination, outcome, &created_tokens);
            }
            // If the store is unavailable, a second record would fail too.
            let is_recordable = matches!(error, Error::Conflict { .. });
            let error = start_error(error, has_claim);
            return Err(if is_recordable { tokens.reject_openly(error).await } else { error });
        }
    };
    tokens.start();
    let mut sent = SentCall { app, started: Some(started), started_at };
    sent.add_created_tokens(&created_tokens);
    let client = app.egress.proxied_calls.client.get()?;
    let sent_at = (app.ticks)();
    let (method, tls) = (call.method.clone(), plan.tls.as_ref());
    let result = request.send(client, method, &plan.destination, plan.scope, tls, deadline).await;
    match result {
        Ok(response) => {
            let elapsed = (app.ticks)().saturating_sub(sent_at);
            let micros = elapsed.as_micros().try_into().unwrap_or(u64::MAX);
            app.metrics.proxy_answer_micros.record(micros);
            sent.describe_answer(&response, elapsed);
            Ok((sent, response))
        }
        Err(error) => {
            let outcome = match error.delivery {
                Delivery::NotSent => CallOutcome::NotSent,
                Delivery::MaybeSent => CallOutcome::MaybeSent,
            };
            let (status, reason) = classify_send_failure(&error.failure);
            sent.finish(outcome, CallEnd { status, failure: Some(reason) }).await;
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
