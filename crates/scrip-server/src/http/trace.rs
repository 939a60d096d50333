//! The trace id: one name for a request in its answer, its log lines and its records.

use std::sync::Arc;

use axum::extract::Request;
use hyper::{HeaderMap, header::HeaderValue};
use uuid::Uuid;

pub(crate) const HEADER: &str = "bt-trace-id";

const BYTES_MAX: usize = 128;

/// Kept with the request by the pipeline.
#[derive(Debug, Clone)]
pub(crate) struct TraceId(pub(crate) Arc<str>);

impl TraceId {
    /// The client's own, when it is fit to be written down; else a new one.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).and_then(|it| it.to_str().ok());
        let fit = |it: &&str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/=+".contains(&b);
            (1..=BYTES_MAX).contains(&it.len()) && it.bytes().all(plain)
        };
        match given.filter(fit) {
            Some(given) => Self(given.into()),
            None => Self(Uuid::new_v4().to_string().into()),
        }
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

pub(crate) fn of(request: &Request) -> TraceId {
    request.extensions().get().cloned().unwrap_or_else(|| TraceId::of_headers(request.headers()))
}
