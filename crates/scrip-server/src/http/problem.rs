//! Every failure leaves through here, as problem+json.

use std::{collections::BTreeMap, time::Duration};

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use scrip_core::error::{Error, FieldError};
use serde::Serialize;

use crate::http::{deprecation::Deprecated, trace::TraceId};

/// What can go wrong at the edge, and behind it.
#[derive(Debug)]
pub(crate) enum Problem {
    NoRoute,
    MethodNotAllowed,
    Unauthorized,
    /// The metrics were asked for without their key.
    NoBearer,
    /// A header that decides about security was sent more than once, or is not text.
    BadHeader(&'static str),
    UnsupportedMediaType(&'static str),
    /// It was here once, or is switched off.
    Gone(&'static Deprecated),
    TooLarge,
    BodyTimeout,
    /// Not JSON, or JSON that is not read: the rule and where.
    Malformed(String),
    /// The keys are not open yet, or not believed any more.
    Sealed,
    /// The policy of the key's tenant is not as we wrote it. The log has said so once.
    Refused,
    Failed(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[derive(Serialize)]
struct Body9457<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    instance: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<BTreeMap<&'a str, Vec<&'a str>>>,
}

impl Problem {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute | Self::Failed(Error::NotFound) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized | Self::NoBearer => StatusCode::UNAUTHORIZED,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Gone(_) => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BadHeader(_) | Self::Malformed(_) | Self::Failed(Error::Invalid(_)) => {
                StatusCode::BAD_REQUEST
            }
            Self::Failed(Error::Forbidden(_)) => StatusCode::FORBIDDEN,
            Self::Failed(Error::Conflict { .. }) => StatusCode::CONFLICT,
            Self::Failed(Error::Unprocessable { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Failed(Error::TooMany { .. }) => StatusCode::TOO_MANY_REQUESTS,
            Self::Sealed | Self::Refused | Self::Failed(Error::Unavailable(_)) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Failed(Error::Internal(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn detail(&self) -> String {
        match self {
            Self::NoRoute => "there is nothing at this path".to_owned(),
            Self::MethodNotAllowed => "this path does not take this method".to_owned(),
            Self::Unauthorized => "the BT-API-KEY header has no key that is known here".to_owned(),
            Self::NoBearer => "the Authorization header has no bearer key for metrics".to_owned(),
            Self::BadHeader(name) => format!("the {name} header must be sent once, as plain text"),
            Self::UnsupportedMediaType(wanted) => format!("the content type must be {wanted}"),
            Self::Gone(it) => it.gone(),
            Self::TooLarge => "the body is larger than this server accepts".to_owned(),
            Self::BodyTimeout => "the body did not arrive in time".to_owned(),
            Self::Malformed(rule) => rule.clone(),
            Self::Sealed => "the vault is sealed until it has its keys; try again".to_owned(),
            Self::Refused => {
                "the rights of this tenant cannot be trusted now; its operator knows more"
                    .to_owned()
            }
            Self::Failed(error) => error.to_string(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed(Error::TooMany { retry_after }) => Some(*retry_after),
            Self::Sealed | Self::Refused | Self::Failed(Error::Unavailable(_)) => {
                Some(Duration::from_secs(1))
            }
            Self::NoRoute
            | Self::MethodNotAllowed
            | Self::Unauthorized
            | Self::NoBearer
            | Self::BadHeader(_)
            | Self::UnsupportedMediaType(_)
            | Self::Gone(_)
            | Self::TooLarge
            | Self::BodyTimeout
            | Self::Malformed(_)
            | Self::Failed(_) => None,
        }
    }

    /// The answer, and the one log line of what was our fault.
    pub(crate) fn response(&self, trace: &TraceId) -> Response {
        let status = self.status();
        if let Self::Failed(Error::Unavailable(cause) | Error::Internal(cause)) = self {
            tracing::error!(trace = &*trace.0, status = status.as_u16(), %cause, "failed");
        }
        let body = Body9457 {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: self.detail(),
            instance: &trace.0,
            errors: if let Self::Failed(Error::Invalid(errors)) = self {
                Some(by_field(errors))
            } else {
                None
            },
        };
        let body = serde_json::to_string(&body).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(retry_after) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)));
        }
        response
    }
}

/// More complaints than anybody reads; and an answer must not be many times its request.
const ERRORS_TOLD: usize = 50;

fn by_field(errors: &[FieldError]) -> BTreeMap<&str, Vec<&str>> {
    let mut fields = BTreeMap::<&str, Vec<&str>>::new();
    for error in errors.iter().take(ERRORS_TOLD) {
        fields.entry(&error.field).or_default().push(&error.problem);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_told_than_anybody_reads() {
        let errors: Vec<_> = (0..60)
            .map(|it| FieldError::new(format!("rules[{it}]"), "must be an object"))
            .collect();
        assert_eq!(by_field(&errors).len(), ERRORS_TOLD);
    }
}
