//! The span of a request: its operation, its status and its names. Never what it asked about.

use hyper::HeaderMap;
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use scrip_core::{audit::Operation, metrics::SPAN_TARGET};
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::middleware::trace;

const TRACEPARENT: &str = "traceparent";

/// A route as the table writes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteName {
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
}

/// Costs next to nothing where nobody collects.
pub(crate) fn request_span(name: &RouteName, trace: &trace::TraceId, headers: &HeaderMap) -> Span {
    let RouteName { operation, method, path } = name;
    let span = tracing::info_span!(
        target: SPAN_TARGET,
        "request",
        otel.name = operation.as_str(),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = path,
        http.response.status_code = Empty,
        scrip.operation = operation.as_str(),
        scrip.trace_id = &*trace.0,
    );
    if !span.is_disabled()
        && let Some(parent) = parent_context(headers)
    {
        drop(span.set_parent(Context::new().with_remote_span_context(parent)));
    }
    span
}

pub(crate) fn record_status(span: &Span, status: u16) {
    span.record("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// The caller's span, by W3C Trace Context. `tracestate` is left alone: it can say anything, and it
/// would be passed on.
fn parent_context(headers: &HeaderMap) -> Option<SpanContext> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let text = given.next().filter(|_| given.next().is_none())?.to_str().ok()?;
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        parts.next().filter(|it| it.len() == length && it.bytes().all(hex))
    };
    let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    // A later version may have more to say behind this; the first has not. And an id of digits that
    // could be a card number is not written down.
    let ends = version != "00" || parts.next().is_none();
    if version == "ff" || !ends || !trace::is_loggable(trace) || !trace::is_loggable(span) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let parent = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    parent.is_valid().then_some(parent)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[track_caller]
    fn check(sent: &[&str], expected: Option<bool>) {
        let mut headers = HeaderMap::new();
        for value in sent {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        let found = parent_context(&headers);
        assert_eq!(found.as_ref().map(SpanContext::is_sampled), expected, "{sent:?}");
        if let Some(found) = found {
            assert_eq!(found.trace_id().to_string(), TRACE);
            assert_eq!(found.span_id().to_string(), "b7ad6b7169203331");
            assert!(found.is_remote());
        }
    }

    #[test]
    fn traceparent_header_is_parsed_as_w3c_trace_context() {
        let good = format!("00-{TRACE}-b7ad6b7169203331-01");
        check(&[&good], Some(true));
        check(&[&format!("00-{TRACE}-b7ad6b7169203331-00")], Some(false));
        check(&[&format!("00-{TRACE}-b7ad6b7169203331-03")], Some(true));
        check(&[&format!("cc-{TRACE}-b7ad6b7169203331-01-later")], Some(true));
        check(&[], None);
        check(&[&good, &good], None);
        let wrong = [
            String::new(),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("{good}-more"),
            good.to_uppercase(),
            format!("00-{TRACE}-b7ad6b716920333-01"),
            format!("00-{TRACE}-b7ad6b7169203331"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01".to_owned(),
            format!("00-{TRACE}-0000000000000000-01"),
            // A card number in its place.
            "00-a4242424242424242bbbbbbbbbbbbbbb-b7ad6b7169203331-01".to_owned(),
            format!("00-{TRACE}-4242424242424242-01"),
        ];
        for text in &wrong {
            check(&[text], None);
        }
    }
}
