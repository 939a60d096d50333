//! The trace id: it identifies a request in its response, log lines and audit records.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use axum::extract::Request;
use hyper::{HeaderMap, header::HeaderValue};
use scrip_core::{card::contains_card_number, types::id::is_random_uuid};
use uuid::Uuid;

pub(crate) const HEADER: &str = "bt-trace-id";

const BYTES_MAX: usize = 128;

/// The trace id of a request. The pipeline stores it in the extensions of the request.
#[derive(Debug, Clone)]
pub struct TraceId(pub Arc<str>);

impl TraceId {
    /// Returns the client's trace id, if it is safe to log; otherwise a new one.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let client_trace_id = headers.get(HEADER).and_then(|it| it.to_str().ok());
        match client_trace_id.filter(|it| is_loggable(it)) {
            Some(client_trace_id) => Self(client_trace_id.into()),
            None => Self(generate_trace_id().into()),
        }
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

/// Returns an id that is unique in this process by a counter, and between processes by a random
/// prefix. It may be guessed, so no random bytes are requested from the system
/// for each id.
fn generate_trace_id() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| Uuid::new_v4().as_u64_pair().0);
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}{:016x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns whether the text is short and plain, and is a random UUID or contains no card number:
/// trace ids are written to logs and audit records.
pub(crate) fn is_loggable(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/=+".contains(&b);
    (1..=BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_plain)
        && (is_random_uuid(text) || !contains_card_number(text))
}

pub fn trace_id_of(request: &Request) -> TraceId {
    request.extensions().get().cloned().unwrap_or_else(|| TraceId::from_headers(request.headers()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_plain_text_without_card_numbers_is_accepted_as_trace_id() {
        let loggable =
            ["trace-7", "0af7651916cd43dd8448eb211c80319c", "3f2b1c52-8c0b-4c70-a1a5-0f1d2f6c7c11"];
        assert!(loggable.iter().all(|it| is_loggable(it)));
        let rejected_ids = [
            "",
            "a b",
            "\"",
            "é",
            "4242424242424242",
            "4242-4242-4242-4242",
            "x4242424242424242x",
            "4242424242424242-20261115",
            "1-4242424242424242",
            "42424242-4242-4242-0000-000000000000",
        ];
        assert!(rejected_ids.iter().all(|it| !is_loggable(it)));
        assert!(!is_loggable(&"x".repeat(129)));
    }
}
