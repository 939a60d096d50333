//! Encodes spans as OTLP in JSON: ids in hexadecimal, 64-bit numbers as text, enums as numbers.

use serde_json::{Value, json};

use crate::telemetry::span_layer::{AttributeValue, TraceSpan};

const SERVICE_NAME: &str = "scrip";

const KIND_INTERNAL: u8 = 1;
const KIND_SERVER: u8 = 2;
const STATUS_UNSET: u8 = 0;
const STATUS_ERROR: u8 = 2;
const FLAG_SAMPLED: u32 = 1;
/// The next flag says whether the parent is in another process.
const FLAG_HAS_IS_REMOTE: u32 = 0x100;
const FLAG_IS_REMOTE: u32 = 0x200;

/// Encodes an `ExportTraceServiceRequest`.
pub(super) fn export_request(spans: &[TraceSpan]) -> Vec<u8> {
    let text = |it: &str| AttributeValue::Text(it.to_owned());
    let resource = [
        attribute("service.name", &text(SERVICE_NAME)),
        attribute("service.version", &text(env!("CARGO_PKG_VERSION"))),
    ];
    let spans: Vec<_> = spans.iter().map(encode_span).collect();
    let request = json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": SERVICE_NAME}, "spans": spans}],
    }]});
    request.to_string().into_bytes()
}

fn encode_span(span: &TraceSpan) -> Value {
    let TraceSpan { position, name, is_server, is_error, started, .. } = span;
    let parent_flag = if span.remote_parent.is_some() { FLAG_IS_REMOTE } else { 0 };
    let ended = started.saturating_add(span.duration);
    let attributes: Vec<_> =
        span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    json!({
        "traceId": format!("{:032x}", position.trace_id),
        "spanId": format!("{:016x}", position.span_id),
        // Empty for the first span of a trace.
        "parentSpanId": span.parent_span_id.map(|it| format!("{it:016x}")).unwrap_or_default(),
        "flags": FLAG_SAMPLED | FLAG_HAS_IS_REMOTE | parent_flag,
        "name": name,
        "kind": if *is_server { KIND_SERVER } else { KIND_INTERNAL },
        "startTimeUnixNano": started.as_nanos().to_string(),
        "endTimeUnixNano": ended.as_nanos().to_string(),
        "attributes": attributes,
        "status": {"code": if *is_error { STATUS_ERROR } else { STATUS_UNSET }},
    })
}

fn attribute(name: &str, value: &AttributeValue) -> Value {
    let value = match value {
        AttributeValue::Text(text) => json!({"stringValue": text}),
        AttributeValue::Integer(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::span_layer::TracePosition;

    #[test]
    fn request_has_the_json_encoding_of_otlp() {
        let parent = TracePosition { trace_id: 0xab, span_id: 0xcd, is_sampled: true };
        let request_span = TraceSpan {
            position: TracePosition { span_id: 1, ..parent },
            parent_span_id: Some(0xcd),
            remote_parent: Some(parent),
            name: "create_token".to_owned(),
            is_server: true,
            is_error: true,
            attributes: vec![
                ("http.route", AttributeValue::Text("/\"".to_owned())),
                ("http.response.status_code", AttributeValue::Integer(500)),
            ],
            started: Duration::new(1_700_000_000, 7),
            duration: Duration::from_micros(2),
            ..TraceSpan::default()
        };
        let root_span = TraceSpan { position: parent, ..TraceSpan::default() };
        let request: Value =
            serde_json::from_slice(&export_request(&[request_span, root_span])).unwrap();
        let expected = json!({"resourceSpans": [{
            "resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": "scrip"}},
                {"key": "service.version", "value": {"stringValue": env!("CARGO_PKG_VERSION")}},
            ]},
            "scopeSpans": [{"scope": {"name": "scrip"}, "spans": [
                {
                    "traceId": "000000000000000000000000000000ab",
                    "spanId": "0000000000000001",
                    "parentSpanId": "00000000000000cd",
                    "flags": 0x301,
                    "name": "create_token",
                    "kind": 2,
                    "startTimeUnixNano": "1700000000000000007",
                    "endTimeUnixNano": "1700000000000002007",
                    "attributes": [
                        {"key": "http.route", "value": {"stringValue": "/\""}},
                        {"key": "http.response.status_code", "value": {"intValue": "500"}},
                    ],
                    "status": {"code": 2},
                },
                {
                    "traceId": "000000000000000000000000000000ab",
                    "spanId": "00000000000000cd",
                    "parentSpanId": "",
                    "flags": 0x101,
                    "name": "",
                    "kind": 1,
                    "startTimeUnixNano": "0",
                    "endTimeUnixNano": "0",
                    "attributes": [],
                    "status": {"code": 0},
                },
            ]}],
        }]});
        assert_eq!(request, expected);
    }
}
