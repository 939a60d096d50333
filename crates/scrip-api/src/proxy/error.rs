//! Errors of the proxy. A client must know whether the destination got the request.

use std::{borrow::Cow, collections::BTreeMap};

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue},
};
pub use scrip_core::idempotency::CallDelivery;
use scrip_core::{Error, FieldError};
use serde::Serialize;

use crate::{app::failed_call_log::CallFailureCause, problem::Problem, trace_id::TraceId};

/// The status of the destination. A response has this header exactly if the destination answered
/// this call, or the first one of equal calls with the same idempotency key.
pub const DESTINATION_STATUS: HeaderName = HeaderName::from_static("bt-proxy-destination-status");

/// The methods of calls, for the response to another one.
const ALLOWED_METHODS: &str = "POST, GET, PUT, PATCH, DELETE";

/// A failure of a proxied call.
#[derive(Debug)]
pub struct ProxyError {
    failure: CallFailure,
    delivery: CallDelivery,
    destination_status: Option<StatusCode>,
    /// The outcome in the record of a call that only calls of a proxy have. A call that loaded tokens has
    /// records of its own.
    audit_outcome: Option<&'static str>,
    pub(crate) logged_cause: Option<CallFailureCause>,
}

#[derive(Debug)]
enum CallFailure {
    /// A failure that the other routes have too.
    Vault(Box<Problem>),
    Call {
        status: StatusCode,
        detail: Cow<'static, str>,
    },
}

impl From<Problem> for ProxyError {
    /// Most checks run before the request is sent.
    fn from(problem: Problem) -> Self {
        Self::not_answered(CallFailure::Vault(Box::new(problem)), CallDelivery::NotSent)
    }
}

impl From<Error> for ProxyError {
    fn from(error: Error) -> Self {
        Problem::from(error).into()
    }
}

impl From<FieldError> for ProxyError {
    fn from(error: FieldError) -> Self {
        Error::from(error).into()
    }
}

#[derive(Serialize)]
struct ProxyErrorBody<'a> {
    proxy_error: ProxyErrorContent<'a>,
}

#[derive(Serialize)]
struct ProxyErrorContent<'a> {
    errors: BTreeMap<&'a str, Vec<&'a str>>,
    title: &'a str,
    status: u16,
    detail: Cow<'a, str>,
}

impl ProxyError {
    /// A failure that only calls of a proxy have, such as 408 when the destination is too slow.
    pub fn new(
        status: StatusCode,
        delivery: CallDelivery,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::not_answered(CallFailure::Call { status, detail: detail.into() }, delivery)
    }

    fn not_answered(failure: CallFailure, delivery: CallDelivery) -> Self {
        Self {
            failure,
            delivery,
            destination_status: None,
            audit_outcome: None,
            logged_cause: None,
        }
    }

    /// A part of the request that cannot be forwarded. The destination was not called.
    pub fn invalid(field: impl Into<Cow<'static, str>>, rule: &'static str) -> Self {
        FieldError::new(field, rule).into()
    }

    /// The body is too large after its expressions were evaluated.
    pub fn too_large() -> Self {
        Problem::TooLarge.into()
    }

    /// The same failure with another problem, if it has one.
    #[must_use]
    pub(crate) fn map_problem(self, map: impl FnOnce(Problem) -> Problem) -> Self {
        let failure = match self.failure {
            CallFailure::Vault(problem) => CallFailure::Vault(Box::new(map(*problem))),
            failure @ CallFailure::Call { .. } => failure,
        };
        Self { failure, ..self }
    }

    /// The same failure with another text for the client.
    #[must_use]
    pub(crate) fn with_detail(self, status: StatusCode, detail: &'static str) -> Self {
        Self { failure: CallFailure::Call { status, detail: detail.into() }, ..self }
    }

    /// The same failure with a cause for the log, unless it has one.
    #[must_use]
    pub(crate) fn with_logged_cause(self, cause: CallFailureCause) -> Self {
        Self { logged_cause: self.logged_cause.or(Some(cause)), ..self }
    }

    #[must_use]
    pub(crate) fn with_audit_outcome(self, outcome: &'static str) -> Self {
        Self { audit_outcome: Some(outcome), ..self }
    }

    #[must_use]
    pub(crate) fn with_delivery(self, delivery: CallDelivery) -> Self {
        Self { delivery, ..self }
    }

    /// The same failure, with the status that the destination answered to the first call with the
    /// same idempotency key.
    #[must_use]
    pub(crate) fn with_destination_status(self, destination_status: Option<StatusCode>) -> Self {
        Self { destination_status, ..self }
    }

    /// The same failure, after the destination answered with this status. A request cannot be
    /// blamed for it: a failure of the client's request becomes 502.
    #[must_use]
    pub(crate) fn after_answer(self, destination_status: StatusCode) -> Self {
        let failure = match self.failure {
            CallFailure::Vault(problem) if problem.status().is_client_error() => {
                let detail = match problem.errors().and_then(|it| it.into_iter().next()) {
                    Some((field, rules)) => {
                        format!("{field}: {}", rules.first().copied().unwrap_or_default())
                    }
                    None => problem.detail(),
                };
                CallFailure::Call { status: StatusCode::BAD_GATEWAY, detail: detail.into() }
            }
            failure @ (CallFailure::Vault(_) | CallFailure::Call { .. }) => failure,
        };
        let (delivery, destination_status) = (CallDelivery::Answered, Some(destination_status));
        Self { failure, delivery, destination_status, ..self }
    }

    /// The same failure of an answer without its cause, which can depend on data that the caller may
    /// not read.
    #[must_use]
    pub(crate) fn without_cause(self) -> Self {
        let failure = match self.failure {
            CallFailure::Call { status: StatusCode::BAD_GATEWAY, .. } => CallFailure::Call {
                status: StatusCode::BAD_GATEWAY,
                detail: "a transform cannot be applied to the answer".into(),
            },
            failure @ (CallFailure::Vault(_) | CallFailure::Call { .. }) => failure,
        };
        Self { failure, ..self }
    }

    pub fn status(&self) -> StatusCode {
        match &self.failure {
            CallFailure::Vault(problem) => problem.status(),
            CallFailure::Call { status, .. } => *status,
        }
    }

    pub fn delivery(&self) -> CallDelivery {
        self.delivery
    }

    /// The failure in terms of the other routes.
    pub fn problem(&self) -> Option<&Problem> {
        match &self.failure {
            CallFailure::Vault(problem) => Some(problem),
            CallFailure::Call { .. } => None,
        }
    }

    /// The outcome in the audit record of the rejection. `None` for a failure that is not recorded, or has
    /// a record already.
    pub(crate) fn audit_outcome(&self) -> Option<&'static str> {
        match &self.failure {
            CallFailure::Vault(problem) => problem.audit_outcome(),
            CallFailure::Call { status: StatusCode::UNPROCESSABLE_ENTITY, .. } => {
                Some("unprocessable")
            }
            CallFailure::Call { .. } => self.audit_outcome,
        }
    }

    fn render(&self) -> String {
        let status = self.status();
        let (mut errors, detail) = match &self.failure {
            CallFailure::Vault(problem) => {
                (problem.errors().unwrap_or_default(), problem.detail().into())
            }
            CallFailure::Call { detail, .. } => (BTreeMap::new(), Cow::Borrowed(detail.as_ref())),
        };
        // The paths of attributes begin with `body`, `headers` and other names, so that no
        // attribute of a message can imitate this property.
        errors.insert("proxy", vec![self.delivery.as_str()]);
        let title = match status {
            StatusCode::BAD_REQUEST => "Invalid proxy request",
            status => status.canonical_reason().unwrap_or("Error"),
        };
        let status = status.as_u16();
        let body =
            ProxyErrorBody { proxy_error: ProxyErrorContent { errors, title, status, detail } };
        serde_json::to_string(&body).unwrap_or_default()
    }

    /// Builds the response. Logs a failure of the server once.
    pub fn response(&self, trace: &TraceId) -> Response {
        let mut response = Response::new(Body::from(self.render()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let CallFailure::Vault(problem) = &self.failure {
            problem.log(trace);
            problem.add_retry_headers(headers);
        }
        if self.status() == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static(ALLOWED_METHODS));
        }
        if let Some(status) = self.destination_status {
            headers.insert(DESTINATION_STATUS, HeaderValue::from(status.as_u16()));
        }
        response
    }
}

#[cfg(test)]
mod tests;
