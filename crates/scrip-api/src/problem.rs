//! Every failure leaves through here, as problem+json.

use std::{collections::BTreeMap, time::Duration};

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};
use scrip_core::{
    error::{Error, FieldError, RateLimitExceeded},
    threeds::{FailureReason, ServiceFailure},
};
use scrip_threeds::message::FailureKind;
use serde::Serialize;

use crate::{deprecation::DeprecatedFeature, middleware::trace::TraceId, wire::ParseError};

/// What can go wrong at the edge, and behind it.
#[derive(Debug)]
pub enum Problem {
    NoRoute,
    MethodNotAllowed,
    Unauthorized,
    /// The metrics were asked for without their key.
    MissingMetricsKey,
    /// A header that decides about security was sent more than once, or is not text.
    BadHeader(&'static str),
    UnsupportedMediaType(&'static str),
    /// It was here once, or is switched off.
    Gone(&'static DeprecatedFeature),
    TooLarge,
    /// The length of a body must be announced here.
    LengthRequired,
    /// The operator listener was asked by a name that is not its own.
    Misdirected,
    BodyTimeout,
    /// Not JSON, or JSON that is not read: the rule and where.
    Malformed(String),
    /// The keys are not open yet, or not believed any more.
    Sealed,
    /// The policy of the key's tenant is not as we wrote it. The log has said so once.
    TenantPolicyAltered,
    /// Nobody can tell whether it is one too many. The log has said so once.
    RateLimiterUnavailable,
    /// The store does not serve. The check has logged why.
    NotReady,
    /// All memory for bodies is in use, or all that the client's network may have.
    NoBodyMemory,
    /// All memory for large answers is in use, or all that the client's network may have.
    NoResponseMemory,
    Failed(Error),
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

/// Who failed, beside the problem and not around it: clients look for both at the top.
#[derive(Serialize)]
struct ServiceBody<'a> {
    /// In the words of HTTP, as text.
    service_status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    error_source: &'static str,
    message: &'static str,
    detail: &'a str,
}

const SERVICE_TITLE: &str = "3DS Service Error";

/// By these very words a browser's SDK knows that the card is the reason.
const CARD_NOT_SUPPORTED: (&str, &str) = (
    "The card was not supported by any card schemes",
    "Cardholder Account Number is not in a range belonging to Issuer.",
);

impl Problem {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute | Self::Failed(Error::NotFound | Error::NotReady { .. }) => {
                StatusCode::NOT_FOUND
            }
            Self::Failed(Error::Service(_)) => StatusCode::FAILED_DEPENDENCY,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized | Self::MissingMetricsKey => StatusCode::UNAUTHORIZED,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Gone(_) => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LengthRequired => StatusCode::LENGTH_REQUIRED,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BadHeader(_) | Self::Malformed(_) | Self::Failed(Error::Invalid(_)) => {
                StatusCode::BAD_REQUEST
            }
            Self::Failed(Error::Forbidden(_)) => StatusCode::FORBIDDEN,
            Self::Failed(Error::Conflict { .. }) => StatusCode::CONFLICT,
            Self::Failed(Error::Unprocessable { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Failed(Error::RateLimited(_) | Error::BudgetExhausted) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Sealed
            | Self::TenantPolicyAltered
            | Self::RateLimiterUnavailable
            | Self::NotReady
            | Self::NoBodyMemory
            | Self::NoResponseMemory
            | Self::Failed(Error::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed(Error::Internal(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub fn detail(&self) -> String {
        match self {
            Self::NoRoute => "there is nothing at this path".to_owned(),
            Self::MethodNotAllowed => "this path does not take this method".to_owned(),
            Self::Unauthorized => "the BT-API-KEY header has no key that is known here".to_owned(),
            Self::MissingMetricsKey => {
                "the Authorization header has no bearer key for metrics".to_owned()
            }
            Self::BadHeader(name) => format!("the {name} header must be sent once, as plain text"),
            Self::UnsupportedMediaType(wanted) => format!("the content type must be {wanted}"),
            Self::Gone(it) => it.gone_detail(),
            Self::TooLarge => "the body is larger than this server accepts".to_owned(),
            Self::LengthRequired => "the Content-Length header is required here".to_owned(),
            Self::Misdirected => {
                "this name is not in metrics.hosts; ask by address or add the name".to_owned()
            }
            Self::BodyTimeout => "the body did not arrive in time".to_owned(),
            Self::Malformed(rule) => rule.clone(),
            Self::Sealed => "the vault is sealed until it has its keys; try again".to_owned(),
            Self::TenantPolicyAltered => {
                "the rights of this tenant cannot be trusted now; its operator knows more"
                    .to_owned()
            }
            Self::RateLimiterUnavailable => {
                "requests cannot be counted now; try again shortly".to_owned()
            }
            Self::NotReady => "the storage does not answer; try again shortly".to_owned(),
            Self::NoBodyMemory => {
                "too many or too large bodies are in flight; try again shortly".to_owned()
            }
            Self::NoResponseMemory => {
                "too many or too large answers are not read yet; try again shortly".to_owned()
            }
            Self::Failed(error) => error.to_string(),
        }
    }

    /// How a record says that a known caller was told no. Nothing for what is our fault, and for
    /// what somebody else counts.
    pub(crate) fn audit_outcome(&self) -> Option<&'static str> {
        match self {
            Self::Failed(Error::Forbidden(_)) => Some("forbidden"),
            Self::Failed(Error::NotFound | Error::NotReady { .. }) => Some("not_found"),
            Self::Failed(Error::Service(_)) => Some("service_failed"),
            Self::Failed(Error::Conflict { .. }) => Some("conflict"),
            Self::Failed(Error::Unprocessable { .. }) => Some("unprocessable"),
            Self::Failed(Error::BudgetExhausted) => Some("budget_spent"),
            Self::Gone(_) => Some("gone"),
            Self::Failed(Error::Invalid(_))
            | Self::BadHeader(_)
            | Self::UnsupportedMediaType(_)
            | Self::TooLarge
            | Self::LengthRequired
            | Self::Malformed(_) => Some("invalid"),
            Self::NoRoute
            | Self::MethodNotAllowed
            | Self::Unauthorized
            | Self::MissingMetricsKey
            | Self::Misdirected
            | Self::BodyTimeout
            | Self::Sealed
            | Self::TenantPolicyAltered
            | Self::RateLimiterUnavailable
            | Self::NotReady
            | Self::NoBodyMemory
            | Self::NoResponseMemory
            | Self::Failed(
                Error::RateLimited { .. } | Error::Unavailable(_) | Error::Internal(_),
            ) => None,
        }
    }

    /// Whatever is only not there now can be tried again shortly.
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
        let of_status = status.canonical_reason().unwrap_or("Error");
        self.service_failure().map_or(of_status, |_| SERVICE_TITLE)
    }

    fn errors(&self) -> Option<BTreeMap<&str, Vec<&str>>> {
        if let Self::Failed(Error::Invalid(errors)) = self {
            return Some(group_by_field(errors));
        }
        let failure =
            self.service_failure().filter(|it| it.reason == FailureReason::CardNotSupported);
        failure.map(|_| BTreeMap::from([(CARD_NOT_SUPPORTED.0, vec![CARD_NOT_SUPPORTED.1])]))
    }

    /// The answer, and the one log line of what was our fault, or that of a service.
    pub fn response(&self, trace: &TraceId) -> Response {
        let status = self.status();
        if let Self::Failed(Error::Unavailable(cause) | Error::Internal(cause)) = self {
            tracing::error!(trace = &*trace.0, status = status.as_u16(), %cause, "failed");
        }
        if let Some(ServiceFailure { reason, kind, detail, .. }) = self.service_failure() {
            let service_status = service_status(*kind);
            tracing::warn!(trace = &*trace.0, ?reason, service_status, detail, "3-D Secure failed");
        }
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
        if let Some(retry_after) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
        }
        if let Self::Failed(Error::RateLimited(excess)) = self {
            headers.extend(rate_limit_headers(excess));
        }
        response
    }
}

/// The failure of a directory server or an access control server as an HTTP status.
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

/// A client that waits so long has waited enough.
fn whole_seconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

fn rate_limit_headers(excess: &RateLimitExceeded) -> [(HeaderName, HeaderValue); 4] {
    let epoch = u64::try_from(excess.retry_at.unix_ms).unwrap_or_default();
    let number = |name, number: u64| (HeaderName::from_static(name), HeaderValue::from(number));
    [
        number("ratelimit-limit", excess.requests.into()),
        number("ratelimit-remaining", 0),
        number("ratelimit-reset", whole_seconds(excess.retry_after)),
        number("x-ratelimit-reset", epoch.div_ceil(1000)),
    ]
}

/// More complaints than anybody reads; and an answer must not be many times its request.
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
