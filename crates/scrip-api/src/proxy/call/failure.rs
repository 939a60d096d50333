//! The errors of calls that the destination did not answer.

use hyper::{StatusCode, http::request::Parts};
use scrip_core::{
    operations::{
        proxy_calls::{record_rejected_use::queue_unsent_call, start_proxy_call::CallDestination},
        record_rejection::RejectedRequest,
    },
    policy::{CallerRequirement, RequestOrigin, rate_limit::RateLimitTarget},
    types::Operation,
};
use scrip_egress::{Delivery, GuardRejection, SendError, SendFailure};

use crate::{
    app::{App, failed_call_log::CallFailureCause},
    metrics::CallFailureReason,
    middleware::{admission::admit_caller, rejection_record::write_rejection},
    proxy::{
        call::{party::CallParty, selection::SelectedProxy},
        error::{CallDelivery, ProxyError},
    },
};

/// A destination that the operator does not allow.
pub(super) fn reject_by_guard(app: &App, rejection: GuardRejection) -> ProxyError {
    app.metrics.proxy_failures.increment(CallFailureReason::Guard);
    ProxyError::new(StatusCode::FORBIDDEN, CallDelivery::NotSent, rejection.to_string())
        .with_logged_cause(CallFailureCause::new(CallFailureReason::Guard, rejection.to_string()))
}

pub(super) fn explain_send_error(app: &App, error: SendError) -> ProxyError {
    let SendError { delivery, failure } = error;
    let delivery = match delivery {
        Delivery::NotSent => CallDelivery::NotSent,
        Delivery::MaybeSent => CallDelivery::MaybeSent,
    };
    let cause = match failure {
        SendFailure::Rejected(rejection) => match rejection.address_reason() {
            Some(reason) => reason.to_owned(),
            None => return reject_by_guard(app, rejection),
        },
        SendFailure::Connect(kind) => format!("{failure}: {kind}"),
        SendFailure::InvalidRequest
        | SendFailure::Overloaded
        | SendFailure::Lookup
        | SendFailure::ConnectTimeout
        | SendFailure::ForwardProxy
        | SendFailure::Tls(_)
        | SendFailure::Timeout
        | SendFailure::Closed
        | SendFailure::Malformed => failure.to_string(),
    };
    let (status, reason) = classify_send_failure(&failure);
    app.metrics.proxy_failures.increment(reason);
    ProxyError::new(status, delivery, failure.to_string())
        .with_logged_cause(CallFailureCause::new(reason, cause))
}

/// The status for the client, and the reason for metrics and for the event of the call.
pub(super) fn classify_send_failure(failure: &SendFailure) -> (StatusCode, CallFailureReason) {
    match failure {
        // As a failed lookup: the caller must not learn which names the inner network has.
        SendFailure::Rejected(rejection) if rejection.address_reason().is_some() => {
            (StatusCode::BAD_GATEWAY, CallFailureReason::Guard)
        }
        SendFailure::Rejected(_) => (StatusCode::FORBIDDEN, CallFailureReason::Guard),
        SendFailure::InvalidRequest => (StatusCode::BAD_REQUEST, CallFailureReason::Malformed),
        SendFailure::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, CallFailureReason::Overloaded),
        SendFailure::Lookup => (StatusCode::BAD_GATEWAY, CallFailureReason::Lookup),
        SendFailure::Connect(_) | SendFailure::ConnectTimeout | SendFailure::ForwardProxy => {
            (StatusCode::BAD_GATEWAY, CallFailureReason::Connect)
        }
        SendFailure::Tls(_) => (StatusCode::BAD_GATEWAY, CallFailureReason::Tls),
        SendFailure::Timeout => (StatusCode::REQUEST_TIMEOUT, CallFailureReason::Timeout),
        SendFailure::Closed => (StatusCode::BAD_GATEWAY, CallFailureReason::Closed),
        SendFailure::Malformed => (StatusCode::BAD_GATEWAY, CallFailureReason::Malformed),
    }
}

/// Records a rejected call. A call that was started has its own records.
pub(super) async fn record_rejected_call(
    app: &App,
    party: &CallParty,
    selected: &SelectedProxy,
    method: &'static str,
    error: &ProxyError,
) {
    let Some(outcome) = error.audit_outcome() else { return };
    let proxy = selected.proxy().map(|it| it.record().id.to_string());
    let Some(caller) = party.caller() else {
        // The destination is not known before the proxy is opened.
        let destination = CallDestination { proxy, host: String::new(), method };
        if let Ok(sender) = party.sender(selected) {
            queue_unsent_call(&app.vault, sender, destination, outcome, &[]);
        }
        return;
    };
    write_rejection(app, caller, rejected_call(&proxy.unwrap_or_default(), outcome)).await;
}

/// Records a rejected call that names no known proxy and no valid destination, if its API key is valid.
/// Otherwise nobody could find who looks for internal addresses.
pub(super) async fn record_unselected_call(
    app: &App,
    head: &Parts,
    origin: RequestOrigin,
    error: &ProxyError,
) {
    let Some(outcome) = error.audit_outcome() else { return };
    let target = RateLimitTarget::Operation(Operation::InvokeProxy);
    // A request above a rate limit has no record on any route.
    if let Ok(caller) = admit_caller(app, &head.headers, origin, target).await {
        write_rejection(app, &caller, rejected_call("", outcome)).await;
    }
}

fn rejected_call<'a>(proxy: &'a str, outcome: &'static str) -> RejectedRequest<'a> {
    RejectedRequest {
        operation: Operation::InvokeProxy,
        requirement: CallerRequirement::AnyKey,
        entity: proxy,
        outcome,
    }
}
