//! Golden bodies by content type, hostile bodies, and properties.

mod forms;
mod json_bodies;
mod multipart_bodies;
mod xml_bodies;

use hyper::header::HeaderValue;
use proptest::prelude::*;
use scrip_expression::ReferenceKind;
use serde_json::json;

use super::*;

const CARD: &str = "26818785-547b-4b28-b0fa-531377e99f4e";
/// A token with a text.
const TEXT: &str = "26818785-0000-4b28-b0fa-531377e99f4e";
const BYTES_MAX: usize = 4 * 1024 * 1024;

struct FakeVault {
    tokens: Value,
    configuration: Value,
}

impl FakeVault {
    fn with_text(text: &str) -> Self {
        let card = json!({
            "number": "4242424242424242", "expiration_month": 7, "expiration_year": 2030,
            "cvc": "123", "big": serde_json::from_str::<Value>("12345678901234567890.10").unwrap(),
        });
        let tokens = json!({CARD: {"type": "card", "data": card}, TEXT: {"data": text}});
        Self { tokens, configuration: json!({"secret": "s\"3&"}) }
    }
}

impl ResolveReference for FakeVault {
    fn resolve(&self, reference: &Reference) -> Option<&Value> {
        let token = self.tokens.get(&reference.id)?;
        match reference.kind {
            ReferenceKind::Data => token.get("data"),
            ReferenceKind::Token | ReferenceKind::TokenIntent => Some(token),
        }
    }
}

fn headers(content_type: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !content_type.is_empty() {
        headers.insert("content-type", HeaderValue::from_str(content_type).unwrap());
    }
    headers
}

fn render_with(vault: &FakeVault, content_type: &str, body: &str) -> Result<Bytes, ProxyError> {
    render_counted(vault, content_type, body, ValueCounting::Exact).map(|it| it.bytes)
}

fn render_counted(
    vault: &FakeVault,
    content_type: &str,
    body: &str,
    data: ValueCounting,
) -> Result<RenderedBody, ProxyError> {
    let body = Bytes::from(body.to_owned());
    MessageBody::parse(&headers(content_type), body)?.render(&BodyInputs {
        references: vault,
        configuration: &vault.configuration,
        work: &WorkMeter::default(),
        fill_random: |bytes| bytes.fill(7),
        bytes_max: BYTES_MAX,
        counting: SourceCounting { data, ..SourceCounting::EXACT },
    })
}

/// Replaces `CARD` and `TEXT` by ids.
fn fill_ids(text: &str) -> String {
    text.replace("CARD", CARD).replace("TEXT", TEXT)
}

#[track_caller]
fn check_rendered(content_type: &str, rows: &[(&str, &str)]) {
    let vault = FakeVault::with_text("a<b>&\"c' d");
    for (body, expected) in rows {
        let rendered = render_with(&vault, content_type, &fill_ids(body));
        let rendered = rendered.unwrap_or_else(|error| panic!("{body}: {error:?}"));
        assert_eq!(String::from_utf8_lossy(&rendered), *expected, "{body}");
    }
}

/// The error as `path: rule` or as its detail.
fn describe(error: &ProxyError) -> String {
    let problem = error.problem().unwrap();
    match problem.errors().and_then(|it| it.into_iter().next()) {
        Some((path, rules)) => format!("{path}: {}", rules[0]),
        None => problem.detail(),
    }
}

#[track_caller]
fn check_rejected(content_type: &str, rows: &[(&str, &str)]) {
    let vault = FakeVault::with_text("text");
    for (body, expected) in rows {
        let error = render_with(&vault, content_type, &fill_ids(body)).expect_err(body);
        assert_eq!(describe(&error), *expected, "{body}");
        assert_eq!(error.status(), 400, "{body}");
    }
}

/// The result is the original allocation.
#[track_caller]
fn check_untouched(content_type: &str, body: &str) {
    let vault = FakeVault::with_text("text");
    let body = Bytes::from(fill_ids(body));
    let parsed = MessageBody::parse(&headers(content_type), body.clone()).unwrap();
    assert!(!parsed.has_expressions(), "{content_type} {body:?}");
    let inputs = BodyInputs {
        references: &vault,
        configuration: &vault.configuration,
        work: &WorkMeter::default(),
        fill_random: |bytes| bytes.fill(7),
        bytes_max: 0,
        counting: SourceCounting::EXACT,
    };
    let rendered = parsed.render(&inputs).unwrap().bytes;
    assert_eq!(rendered.as_ptr(), body.as_ptr(), "{content_type} {body:?}");
    assert_eq!(rendered, body);
}

#[test]
fn text_bodies_take_results_without_escapes() {
    for content_type in ["text/plain", "Text/CSV; header=present", "text/plain;charset=\"UTF-8\""] {
        check_rendered(
            content_type,
            &[
                ("pan={{ CARD | json: '$.number' }};é", "pan=4242424242424242;é"),
                ("{{TEXT}}{{ TEXT }}", "a<b>&\"c' da<b>&\"c' d"),
                ("{{ CARD | json: '$.expiration_month' }}/{{ config: secret }}", "7/s\"3&"),
                ("{{ CARD | json: '$.none' }}", ""),
                (
                    "{{ CARD }}",
                    r#"{"big":12345678901234567890.10,"cvc":"123","expiration_month":7,"expiration_year":2030,"number":"4242424242424242"}"#,
                ),
            ],
        );
    }
    check_rejected(
        "text/plain",
        &[
            ("é\nx {{ unknown }}", "body: no token has this id (at character 5)"),
            ("é {{ CARD", "body: this {{ is never closed (at character 5)"),
            ("é {{ CARD | shout }}", "body: unknown filter (at character 45)"),
        ],
    );
}

#[test]
fn bodies_that_are_no_text_are_forwarded_untouched() {
    for content_type in
        ["", "application/octet-stream", "image/png", "json", "application/pdf", "multipart/mixed"]
    {
        check_untouched(content_type, "{{ CARD }}");
    }
    let mut encoded = headers("application/json");
    encoded.insert("content-encoding", HeaderValue::from_static("gzip"));
    let parsed = MessageBody::parse(&encoded, Bytes::from("\"{{ CARD }}\"")).unwrap();
    assert!(!parsed.has_expressions());
    let keyless = headers("application/json");
    let parsed = MessageBody::without_expressions(&keyless, Bytes::from("\"{{ CARD }}\"")).unwrap();
    assert!(!parsed.has_expressions());
}

#[test]
fn several_content_types_are_rejected() {
    let mut several = headers("application/json");
    several.append("content-type", HeaderValue::from_static("text/plain"));
    let list = headers("application/json, text/plain");
    for headers in [several, list] {
        for result in [
            MessageBody::parse(&headers, Bytes::from_static(b"{}")),
            MessageBody::without_expressions(&headers, Bytes::from_static(b"{}")),
        ] {
            assert_eq!(describe(&result.unwrap_err()), "headers.Content-Type: must be sent once");
        }
    }
}

#[test]
fn body_with_expressions_must_be_utf8() {
    for content_type in [
        "text/plain; charset=iso-8859-1",
        "application/json;charset=utf-16",
        "text/plain; x; charset=utf-16",
        "text/plain; charset=utf-8; charset=utf-16",
    ] {
        check_rejected(
            content_type,
            &[(
                "\"{{ CARD }}\"",
                "body: a body with expressions must be UTF-8 text; change its charset",
            )],
        );
        check_untouched(content_type, "\"no expression\"");
    }
    let invalid = Bytes::from_static(b"\xff{{ abc }}");
    assert!(MessageBody::parse(&headers("text/plain"), invalid).is_err());
}

#[test]
fn rendered_body_has_a_maximum_length() {
    let vault = FakeVault::with_text(&"x".repeat(1000));
    let body =
        MessageBody::parse(&headers("text/plain"), Bytes::from(fill_ids("{{ TEXT }}"))).unwrap();
    let work = WorkMeter::default();
    let inputs = |bytes_max| BodyInputs {
        references: &vault,
        configuration: &Value::Null,
        work: &work,
        fill_random: |bytes| bytes.fill(7),
        bytes_max,
        counting: SourceCounting::EXACT,
    };
    assert_eq!(body.render(&inputs(1000)).unwrap().bytes.len(), 1000);
    assert_eq!(body.render(&inputs(999)).unwrap_err().status(), 413);
}

#[test]
fn hidden_values_count_by_their_padded_size() {
    for (content_type, body, literal_bytes, growth) in [
        ("text/plain", "a{{ TEXT }}", 1, 1),
        ("application/json", "{\"a\":\"{{ TEXT }}\"}", 6, 6),
        ("application/json", "{\"a\":\"b{{ TEXT }}\"}", 9, 6),
        ("application/xml", "<a>{{ TEXT }}</a>", 7, 6),
        ("application/x-www-form-urlencoded", "a={{ TEXT }}", 2, 6),
    ] {
        for text in ["", "x", &"x".repeat(200), &"&\"".repeat(100)] {
            let vault = FakeVault::with_text(text);
            let render =
                |counting| render_counted(&vault, content_type, &fill_ids(body), counting).unwrap();
            let rendered = render(ValueCounting::Padded);
            assert_eq!(rendered.counted_bytes, literal_bytes + 1024 * growth, "{body}");
            assert_eq!(rendered.bytes, render(ValueCounting::Exact).bytes);
        }
    }
}

#[test]
fn number_of_expressions_and_work_are_limited() {
    let vault = FakeVault::with_text(&"x".repeat(60_000));
    let many = "{{ config: secret }}".repeat(10_001);
    let long = fill_ids(&"{{ TEXT | append: 'y' | append: 'z' }}".repeat(200));
    for (body, rule) in [(many, "has too many expressions"), (long, "the output is too large")] {
        let error = render_with(&vault, "text/plain", &body).unwrap_err();
        assert!(describe(&error).contains(rule), "{}", describe(&error));
    }
}

#[test]
fn references_are_distinct_and_say_whether_the_cvc_is_read() {
    let body = fill_ids(
        "{{ CARD | json: '$.number' }}{{ CARD | json: '$.cvc' }}{{ CARD | json: '$.number' }}\
         {{ token: CARD | json: '$.data.number' }}{{ token_intent: TEXT }}{{ config: secret }}{{TEXT | json: '$.a'}}",
    );
    let parsed = MessageBody::parse(&headers("text/plain"), Bytes::from(body)).unwrap();
    let rows: Vec<_> = parsed
        .references()
        .iter()
        .map(|it| (it.reference.kind, it.reference.id.as_str(), it.reads_cvc))
        .collect();
    assert_eq!(
        rows,
        [
            (ReferenceKind::Data, TEXT, false),
            (ReferenceKind::Data, CARD, true),
            (ReferenceKind::Token, CARD, false),
            (ReferenceKind::TokenIntent, TEXT, true),
        ]
    );
    assert!(parsed.reads_configuration());
}

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/vnd.api+json",
    "application/x-www-form-urlencoded",
    "text/xml",
    "application/soap+xml",
    "multipart/form-data; boundary=b",
    "text/plain",
    "image/png",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn body_without_expressions_is_forwarded_unchanged(
        content_type in prop::sample::select(CONTENT_TYPES),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        // Single braces stay; pairs would be expressions, also in escaped form.
        let mut body = body;
        while let Some(at) = memchr::memmem::find(&body, b"{{") {
            body.remove(at);
        }
        let has_escape = memchr::memmem::find(&body, b"%7").is_some() || memchr::memmem::find(&body, b"\\u007").is_some();
        prop_assume!(!has_escape);
        let original = Bytes::from(body);
        let parsed = MessageBody::parse(&headers(content_type), original.clone()).unwrap();
        prop_assert!(!parsed.has_expressions());
        prop_assert_eq!(&parsed.original, &original);
    }

    #[test]
    fn hostile_bodies_are_parsed_or_rejected(
        content_type in prop::sample::select(CONTENT_TYPES),
        pieces in prop::collection::vec(prop::sample::select(HOSTILE_PIECES), 0..12),
    ) {
        let vault = FakeVault::with_text("x");
        let rendered = render_with(&vault, content_type, &fill_ids(&pieces.concat()));
        if let Err(error) = rendered {
            prop_assert_eq!(error.status(), 400);
        }
    }
}

const HOSTILE_PIECES: &[&str] = &[
    "{{",
    "}}",
    "{",
    "}",
    "|",
    "\"",
    "'",
    "&",
    "=",
    "<",
    ">",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?",
    "?>",
    "&amp;",
    "&#123;",
    "&quot;",
    "%7B",
    "%7b",
    "%",
    "\\u007b",
    "\\",
    "--b",
    "--b--",
    "\r\n",
    "\r\n\r\n",
    ":",
    ",",
    "[",
    "]",
    "é",
    "\u{0}",
    "Content-Disposition: form-data; name=\"a\"",
    "{{ CARD }}",
    "{{ TEXT }}",
    "{{ CARD | json: '$.number' }}",
    "\"a\":",
    "<a b=\"",
    "\">",
];
