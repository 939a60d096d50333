//! The trace id: one name for a request in its answer, its log lines and its records.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use axum::extract::Request;
use hyper::{HeaderMap, header::HeaderValue};
use scrip_core::{card::contains_card_number, id::is_random_uuid};
use uuid::Uuid;

pub(crate) const HEADER: &str = "bt-trace-id";

const BYTES_MAX: usize = 128;

/// Kept with the request by the pipeline.
#[derive(Debug, Clone)]
pub struct TraceId(pub Arc<str>);

impl TraceId {
    /// The client's own, when it is fit to be written down; else a new one.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).and_then(|it| it.to_str().ok());
        match given.filter(|it| is_loggable(it)) {
            Some(given) => Self(given.into()),
            None => Self(generate_trace_id().into()),
        }
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

/// Told apart from every other of this process by a count, and from other processes' by chance. It
/// need not be hard to guess, so it costs no system call.
fn generate_trace_id() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| Uuid::new_v4().as_u64_pair().0);
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}{:016x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Plain text of some length that cannot be a card number: it goes into logs and records.
pub(crate) fn is_loggable(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/=+".contains(&b);
    (1..=BYTES_MAX).contains(&text.len())
        && text.bytes().all(plain)
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
        let fit =
            ["trace-7", "0af7651916cd43dd8448eb211c80319c", "3f2b1c52-8c0b-4c70-a1a5-0f1d2f6c7c11"];
        assert!(fit.iter().all(|it| is_loggable(it)));
        let unfit = [
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
        assert!(unfit.iter().all(|it| !is_loggable(it)));
        assert!(!is_loggable(&"x".repeat(129)));
    }
}
