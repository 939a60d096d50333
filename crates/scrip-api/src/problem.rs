//! Renders every failure as `application/problem+json`.

pub(crate) mod not_ready;
pub mod reason;

use std::{collections::BTreeMap, time::Duration};

use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};
use scrip_core::{
    Error, FieldError,
    types::{FailureReason, MissingFeature, ServiceFailure, error::RateLimitExceeded},
};
use scrip_threeds::message::FailureKind;
use serde::Serialize;

use crate::{
    app::readiness::NotReadyReason, deprecation::DeprecatedFeature, problem::reason::ProblemReason,
    trace_id::TraceId, wire::ParseError,
};

/// Every failure that a client can receive.
#[derive(Debug)]
pub enum Problem {
    NoRoute,
    /// The host of the request does not have the path, or does not accept the request.
    FieldHost(FieldHostRule),
    /// The path belongs to a feature that this server does not have.
    MissingFeature(MissingFeature),
    MethodNotAllowed,
    /// The request has no valid API key.
    Unauthorized(InvalidApiKey),
    /// No card scheme trusts the client certificate any more.
    UntrustedCertificate,
    /// The request for metrics has no valid metrics key.
    MissingMetricsKey,
    /// A security-relevant header was sent more than once, or is not text.
    BadHeader(&'static str),
    UnsupportedMediaType(&'static str),
    /// The operation was removed or is switched off.
    Gone(&'static DeprecatedFeature),
    TooLarge,
    /// The route requires a `Content-Length` header.
    LengthRequired,
    /// The `Host` header of a request to the operator listener is not an allowed name.
    Misdirected,
    BodyTimeout,
    /// Not JSON, or JSON that is not accepted. The text states the rule and the position.
    Malformed(String),
    /// The vault is sealed, its storage fails, or the directory in memory is too old to be trusted.
    /// The cause is logged once per outage, not for each request.
    NotReady(NotReadyReason),
    /// The policy of the key's tenant was altered outside of the vault. Already logged.
    TenantPolicyAltered,
    /// The shared counters are unavailable, and the outage policy is to reject. Already logged.
    RateLimiterUnavailable,
    /// The write queue is full, or no worker is free.
    Overloaded,
    /// The memory for bodies is used up, or the share of the client's network.
    NoBodyMemory,
    /// The memory for large responses is used up, or the share of the client's network.
    NoResponseMemory,
    Failed(Error),
}

/// Why a request has no valid API key. Only the text of the key decides between malformed and
/// unknown, so that a response does not tell a deleted or expired key from a key that never existed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidApiKey {
    Missing,
    Malformed,
    Unknown,
}

impl InvalidApiKey {
    fn detail(self) -> &'static str {
        match self {
            Self::Missing => "the BT-API-KEY header is missing or empty; send an API key in it",
            Self::Malformed => {
                "the text in the BT-API-KEY header does not have the form of an API key, such as \
                 key_test_us_pvt_ with at least 20 letters and digits; check that it is complete"
            }
            Self::Unknown => {
                "the key in the BT-API-KEY header is unknown: it belongs to another server, or was \
                 deleted, or has expired, or was created less than a second ago"
            }
        }
    }
}

/// Rules about the host of the hosted fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldHostRule {
    /// No setting names an origin for the fields.
    NoOrigin,
    /// The fields are served on another host.
    OtherHost,
    /// On the host of the fields, the API has the path `/api`.
    ApiIsBelowApiPath,
    /// Pages of the API are not served in the origin of the fields.
    PageOfApi,
    /// The answer of a proxied call would become a page or a script in the origin of the fields.
    NotFetch,
}

impl FieldHostRule {
    fn status(self) -> StatusCode {
        match self {
            Self::NoOrigin | Self::OtherHost | Self::ApiIsBelowApiPath | Self::PageOfApi => {
                StatusCode::NOT_FOUND
            }
            Self::NotFetch => StatusCode::FORBIDDEN,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::NoOrigin => {
                "Not found. This server does not serve hosted fields: its operator has to set \
                 elements.origin."
            }
            Self::OtherHost => {
                "Not found. Hosted fields are served on the host of elements.origin only."
            }
            Self::ApiIsBelowApiPath => {
                "Not found. This host serves hosted fields; the API of this host is below /api."
            }
            Self::PageOfApi => {
                "Not found. This host serves hosted fields; use the host of the API for its pages \
                 and for notifications."
            }
            Self::NotFetch => {
                "on the host of the hosted fields, a proxied call needs the header Sec-Fetch-Dest: \
                 empty, which browsers send with fetch(); call /proxy on the host of the API"
            }
        }
    }
}

impl From<ParseError> for Problem {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Malformed(rule) => Self::Malformed(rule),
            ParseError::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    instance: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<BTreeMap<&'a str, Vec<&'a str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ServiceBody<'a>>,
}

/// The service that failed. A sibling of the problem attributes: clients read both from the top
/// level.
#[derive(Serialize)]
struct ServiceBody<'a> {
    /// An HTTP status code, as text.
    service_status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    error_source: &'static str,
    message: &'static str,
    detail: &'a str,
}

const SERVICE_TITLE: &str = "3DS Service Error";

/// The browser SDK compares these exact texts to detect that the card is the reason.
const CARD_NOT_SUPPORTED: (&str, &str) = (
    "The card was not supported by any card schemes",
    "Cardholder Account Number is not in a range belonging to Issuer.",
);

impl Problem {
    pub(crate) fn status(&self) -> StatusCode {
        self.classify().0
    }

    /// The outcome in the audit record of a rejected, authenticated request. `None` for failures of
    /// the server and for rejections that are counted elsewhere.
    pub(crate) fn audit_outcome(&self) -> Option<&'static str> {
        self.classify().1
    }

    /// The status, and the outcome in the audit record.
    fn classify(&self) -> (StatusCode, Option<&'static str>) {
        match self {
            Self::NoRoute | Self::MissingFeature(_) => (StatusCode::NOT_FOUND, None),
            Self::FieldHost(rule) => (rule.status(), None),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, None),
            Self::Unauthorized(_) | Self::UntrustedCertificate | Self::MissingMetricsKey => {
                (StatusCode::UNAUTHORIZED, None)
            }
            Self::BadHeader(_) | Self::Malformed(_) | Self::Failed(Error::Invalid(_)) => {
                (StatusCode::BAD_REQUEST, Some("invalid"))
            }
            Self::UnsupportedMediaType(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Some("invalid")),
            Self::Gone(_) => (StatusCode::GONE, Some("gone")),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Some("invalid")),
            Self::LengthRequired => (StatusCode::LENGTH_REQUIRED, Some("invalid")),
            Self::Misdirected => (StatusCode::MISDIRECTED_REQUEST, None),
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, None),
            Self::NotReady(_)
            | Self::TenantPolicyAltered
            | Self::RateLimiterUnavailable
            | Self::Overloaded
            | Self::NoBodyMemory
            | Self::NoResponseMemory
            | Self::Failed(Error::Unavailable(_)) => (StatusCode::SERVICE_UNAVAILABLE, None),
            Self::Failed(Error::Forbidden(_)) => (StatusCode::FORBIDDEN, Some("forbidden")),
            Self::Failed(Error::NotFound | Error::NotFoundBecause { .. }) => {
                (StatusCode::NOT_FOUND, Some("not_found"))
            }
            Self::Failed(Error::Service(_)) => {
                (StatusCode::FAILED_DEPENDENCY, Some("service_failed"))
            }
            Self::Failed(Error::Conflict { .. }) => (StatusCode::CONFLICT, Some("conflict")),
            Self::Failed(Error::Unprocessable { .. }) => {
                (StatusCode::UNPROCESSABLE_ENTITY, Some("unprocessable"))
            }
            Self::Failed(Error::RateLimited(_)) => (StatusCode::TOO_MANY_REQUESTS, None),
            Self::Failed(Error::BudgetExhausted { .. }) => {
                (StatusCode::TOO_MANY_REQUESTS, Some("budget_exhausted"))
            }
            Self::Failed(Error::Internal(_)) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        }
    }

    pub fn detail(&self) -> String {
        match self {
            Self::NoRoute => "Not found.".to_owned(),
            Self::FieldHost(rule) => rule.detail().to_owned(),
            Self::MethodNotAllowed => "this path does not support this method".to_owned(),
            Self::MissingFeature(feature) => {
                format!("Not found. This server does not have the feature: {}.", feature.as_str())
            }
            Self::Unauthorized(reason) => reason.detail().to_owned(),
            Self::UntrustedCertificate => {
                "no card scheme of this server trusts the client certificate".to_owned()
            }
            Self::MissingMetricsKey => {
                "the Authorization header has no valid bearer key for metrics".to_owned()
            }
            Self::BadHeader(name) => format!("the {name} header must be sent once, as plain text"),
            Self::UnsupportedMediaType(expected) => format!("the content type must be {expected}"),
            Self::Gone(it) => it.gone_detail(),
            Self::TooLarge => "the body is larger than this server accepts".to_owned(),
            Self::LengthRequired => "the Content-Length header is required".to_owned(),
            Self::Misdirected => {
                "the host name is not in metrics.hosts; add the name or use the IP address"
                    .to_owned()
            }
            Self::BodyTimeout => "the body did not arrive in time".to_owned(),
            Self::Malformed(rule) => rule.clone(),
            Self::NotReady(reason) => reason.detail().to_owned(),
            Self::TenantPolicyAltered => {
                "the policy of this tenant failed verification; contact the operator".to_owned()
            }
            Self::RateLimiterUnavailable => {
                "the rate limiter is unavailable; try again shortly".to_owned()
            }
            Self::Overloaded => "the server is overloaded; try again shortly".to_owned(),
            Self::NoBodyMemory => {
                "the memory for request bodies is used up; try again shortly".to_owned()
            }
            Self::NoResponseMemory => {
                "the memory for unread responses is used up; try again shortly".to_owned()
            }
            Self::Failed(error) => error.to_string(),
        }
    }

    /// A temporary failure (503) can be retried after a second.
    fn retry_after(&self) -> Option<Duration> {
        if let Self::Failed(Error::RateLimited(excess)) = self {
            return Some(excess.retry_after);
        }
        (self.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(Duration::from_secs(1))
    }

    fn service_failure(&self) -> Option<&ServiceFailure> {
        if let Self::Failed(Error::Service(failure)) = self { Some(failure) } else { None }
    }

    fn title(&self, status: StatusCode) -> &'static str {
        let reason_phrase = status.canonical_reason().unwrap_or("Error");
        self.service_failure().map_or(reason_phrase, |_| SERVICE_TITLE)
    }

    pub(crate) fn errors(&self) -> Option<BTreeMap<&str, Vec<&str>>> {
        if let Self::Failed(Error::Invalid(errors)) = self {
            return Some(group_by_field(errors));
        }
        let failure =
            self.service_failure().filter(|it| it.reason == FailureReason::CardNotSupported);
        failure.map(|_| BTreeMap::from([(CARD_NOT_SUPPORTED.0, vec![CARD_NOT_SUPPORTED.1])]))
    }

    /// The reason for a log.
    pub(crate) fn reason(&self) -> ProblemReason {
        // The errors of a failed service are texts for the browser SDK, not attributes.
        if let Some(ServiceFailure { message, detail, .. }) = self.service_failure() {
            let separator = if detail.is_empty() { "" } else { ": " };
            return ProblemReason::from_detail(format!("{message}{separator}{detail}"));
        }
        match self.errors() {
            Some(errors) => ProblemReason::from_attributes(&errors),
            None => ProblemReason::from_detail(self.detail()),
        }
    }

    /// Logs a failure of the server, or of a 3DS service.
    pub(crate) fn log(&self, trace: &TraceId) {
        let status = self.status();
        if let Self::Failed(Error::Unavailable(cause) | Error::Internal(cause)) = self {
            tracing::error!(trace = &*trace.0, status = status.as_u16(), %cause, "request failed");
        }
        // A card without 3-D Secure is no failure of a service.
        let failure = self.service_failure();
        let failure = failure.filter(|it| it.reason != FailureReason::CardNotSupported);
        if let Some(ServiceFailure { message, kind, detail, .. }) = failure {
            let service_status = service_status(*kind);
            tracing::warn!(
                trace = &*trace.0,
                cause = message,
                service_status,
                detail,
                "3DS service failed"
            );
        }
    }

    /// Adds the headers that tell when to try again.
    pub(crate) fn add_retry_headers(&self, headers: &mut HeaderMap) {
        if let Some(retry_after) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
        }
        if let Self::Failed(Error::RateLimited(excess)) = self {
            headers.extend(rate_limit_headers(excess));
        }
    }

    /// Builds the response. Logs a failure of the server, or of a 3DS service, once.
    pub fn response(&self, trace: &TraceId) -> Response {
        self.log(trace);
        let status = self.status();
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.title(status),
            status: status.as_u16(),
            detail: self.detail(),
            instance: &trace.0,
            errors: self.errors(),
            error: self.service_failure().map(service_body),
        };
        let body = serde_json::to_string(&body).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        self.add_retry_headers(headers);
        self.reason().add_to(&mut response);
        response
    }
}

/// Maps the failure of a directory server or an access control server to an HTTP status.
fn service_status(kind: FailureKind) -> u16 {
    match kind {
        FailureKind::RequestInvalid => 400,
        FailureKind::AccessDenied => 403,
        FailureKind::NotFound => 404,
        FailureKind::ServerFault => 500,
        FailureKind::ResponseInvalid => 502,
        FailureKind::Unavailable => 503,
        FailureKind::TimedOut => 504,
    }
}

fn service_body(failure: &ServiceFailure) -> ServiceBody<'_> {
    ServiceBody {
        service_status: service_status(failure.kind).to_string(),
        session_id: failure.session.map(|it| it.to_string()),
        error_source: failure.source.name(),
        message: failure.message,
        detail: &failure.detail,
    }
}

/// Rounds up, so that a client that waits this long has waited long enough.
fn whole_seconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

fn rate_limit_headers(excess: &RateLimitExceeded) -> [(HeaderName, HeaderValue); 4] {
    let retry_at_ms = u64::try_from(excess.retry_at.unix_ms).unwrap_or_default();
    let header = |name, value: u64| (HeaderName::from_static(name), HeaderValue::from(value));
    [
        header("ratelimit-limit", excess.requests.into()),
        header("ratelimit-remaining", 0),
        header("ratelimit-reset", whole_seconds(excess.retry_after)),
        header("x-ratelimit-reset", retry_at_ms.div_ceil(1000)),
    ]
}

/// Bounds the response: it must not become many times as large as the request.
const FIELD_ERRORS_MAX: usize = 50;

fn group_by_field(errors: &[FieldError]) -> BTreeMap<&str, Vec<&str>> {
    let mut fields = BTreeMap::<&str, Vec<&str>>::new();
    for error in errors.iter().take(FIELD_ERRORS_MAX) {
        fields.entry(&error.field).or_default().push(&error.problem);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_reported_field_errors_is_limited() {
        let errors: Vec<_> = (0..60)
            .map(|it| FieldError::new(format!("rules[{it}]"), "must be an object"))
            .collect();
        assert_eq!(group_by_field(&errors).len(), FIELD_ERRORS_MAX);
    }
}
