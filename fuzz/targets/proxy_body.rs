//! Bodies of proxied requests: each one is rejected, or forwarded with the results of its
//! expressions. A body without braces is forwarded unchanged.

#![no_main]

use bytes::Bytes;
use hyper::{HeaderMap, header::HeaderValue};
use libfuzzer_sys::fuzz_target;
use scrip_api::proxy::body::{BodyInputs, MessageBody, SourceCounting};
use scrip_core::work_meter::WorkMeter;
use scrip_expression::{Reference, ResolveReference};
use serde_json::{Value, json};

const CONTENT_TYPES: [&str; 5] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "text/xml",
    "multipart/form-data; boundary=b",
    "text/plain",
];

struct OneValue(Value);

impl ResolveReference for OneValue {
    fn resolve(&self, _: &Reference) -> Option<&Value> {
        Some(&self.0)
    }
}

// The first byte selects the content type.
fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else { return };
    let content_type = CONTENT_TYPES[usize::from(*first) % CONTENT_TYPES.len()];
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    let body = Bytes::copy_from_slice(body);
    let Ok(parsed) = MessageBody::parse(&headers, body.clone()) else {
        assert!(body.contains(&b'{') || body.contains(&b'%') || body.contains(&b'\\'));
        return;
    };
    let value = OneValue(json!({"number": "4242", "text": "<&\"'\r\n--b", "list": [1, null]}));
    let inputs = BodyInputs {
        references: &value,
        configuration: &value.0,
        work: &WorkMeter::default(),
        fill_random: |it| it.fill(7),
        bytes_max: 4 * 1024 * 1024,
        counting: SourceCounting::EXACT,
    };
    let rendered = parsed.render(&inputs).map(|it| it.bytes);
    if !parsed.has_expressions() {
        assert_eq!(rendered.ok(), Some(body));
    } else if let (Ok(rendered), "application/json") = (&rendered, content_type) {
        assert!(serde_json::from_slice::<Value>(rendered).is_ok());
    }
});
