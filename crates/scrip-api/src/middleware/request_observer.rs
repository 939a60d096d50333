//! Measures a request for metrics, spans and logs: operation, trace ids, duration, status, panics. Never
//! records the path parameters or the body.

use std::{panic::AssertUnwindSafe, time::Duration};

use axum::response::Response;
use futures_util::FutureExt;
use hyper::HeaderMap;
use scrip_core::{
    Error,
    types::{Operation, metrics::SPAN_TARGET},
};
use tracing::{Instrument, Span, field::Empty};

use crate::{
    app::App,
    problem::Problem,
    trace_id::{TraceId, is_loggable},
};

const TRACEPARENT: &str = "traceparent";
/// Length of version 00; a later version may be longer.
const TRACEPARENT_BYTES: usize = 55;

/// The names of a route, as in the route table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteName {
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
}

pub(crate) struct RequestObserver {
    operation: Operation,
    started: Duration,
    span: Span,
}

impl RequestObserver {
    pub(crate) fn start(app: &App, name: RouteName, trace: &TraceId, headers: &HeaderMap) -> Self {
        let span = request_span(&name, trace, headers);
        Self { operation: name.operation, started: (app.ticks)(), span }
    }

    /// Runs the handler in the span of the request. Catches a panic here, and not in an outer
    /// layer, so that it is counted for its operation.
    pub(crate) async fn run_handler(
        &self,
        app: &App,
        handler: impl Future<Output = Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        let handler = handler.instrument(self.span.clone());
        AssertUnwindSafe(handler).catch_unwind().await.unwrap_or_else(|_| {
            app.metrics.panics.increment();
            Err(Error::Internal("a handler panicked".into()).into())
        })
    }

    pub(crate) fn finish(&self, app: &App, trace: &TraceId, status: u16) {
        let duration = (app.ticks)().saturating_sub(self.started);
        app.metrics.record_response(self.operation, status, duration);
        record_status(&self.span, status);
        let (trace, operation) = (&*trace.0, self.operation.as_str());
        tracing::debug!(
            trace,
            operation,
            status,
            duration_us = duration.as_micros(),
            "request completed"
        );
    }
}

/// Creates the span of a request. Without a collector the fields are not evaluated. Fields named
/// `otel.*` describe the span itself; all others become its attributes.
fn request_span(name: &RouteName, trace: &TraceId, headers: &HeaderMap) -> Span {
    let RouteName { operation, method, path } = name;
    tracing::info_span!(
        target: SPAN_TARGET,
        "request",
        otel.name = operation.as_str(),
        otel.kind = "server",
        otel.parent = traceparent(headers),
        otel.status_code = Empty,
        http.request.method = method,
        http.route = path,
        http.response.status_code = Empty,
        scrip.operation = operation.as_str(),
        scrip.trace_id = &*trace.0,
    )
}

fn record_status(span: &Span, status: u16) {
    span.record("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the caller's span, by W3C Trace Context: version, trace id, span id and flags, all valid.
/// `tracestate` is ignored, because it can contain any text and would be sent to the collector.
fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let text = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let mut parts = text.split('-');
    let mut next_part = |length: usize| {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        parts.next().filter(|it| it.len() == length && it.bytes().all(is_hex))
    };
    let (version, trace, span) = (next_part(2)?, next_part(32)?, next_part(16)?);
    next_part(2)?;
    // A later version may append fields; version 00 may not. An id that could be a card number is
    // not logged.
    let is_complete = version != "00" || parts.next().is_none();
    let is_id = |it: &str| it.bytes().any(|b| b != b'0') && is_loggable(it);
    let is_valid = version != "ff" && is_complete && is_id(trace) && is_id(span);
    text.get(..TRACEPARENT_BYTES).filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[track_caller]
    fn check(values: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(traceparent(&headers), expected, "{values:?}");
    }

    #[test]
    fn traceparent_header_is_parsed_as_w3c_trace_context() {
        let valid = format!("00-{TRACE}-b7ad6b7169203331-01");
        check(&[&valid], Some(&valid));
        for flags in ["00", "03"] {
            let valid = format!("00-{TRACE}-b7ad6b7169203331-{flags}");
            check(&[&valid], Some(&valid));
        }
        // Fields that a later version appends are removed.
        let later = format!("cc-{TRACE}-b7ad6b7169203331-01");
        check(&[&format!("{later}-later")], Some(&later));
        check(&[], None);
        check(&[&valid, &valid], None);
        let invalid = [
            String::new(),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("{valid}-more"),
            valid.to_uppercase(),
            format!("00-{TRACE}-b7ad6b716920333-01"),
            format!("00-{TRACE}-b7ad6b7169203331"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01".to_owned(),
            format!("00-{TRACE}-0000000000000000-01"),
            // A card number as an id.
            "00-a4242424242424242bbbbbbbbbbbbbbb-b7ad6b7169203331-01".to_owned(),
            format!("00-{TRACE}-4242424242424242-01"),
        ];
        for text in &invalid {
            check(&[text], None);
        }
    }
}
