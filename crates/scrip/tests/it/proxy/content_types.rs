//! Expressions in bodies of each content type, and bodies that are forwarded byte for byte.

use scrip_testing::destination::DestinationRequest;
use serde_json::{Value, json};

use crate::proxy::harness::{PROXY, TestCard};

/// Characters that every format has to escape.
const HOSTILE_TEXT: &str = r#"Jo & <"o'> + 100%"#;
const BOUNDARY: &str = "----boundary-7f3a";

/// The tokens that the golden pairs name.
struct GoldenTokens {
    card: TestCard,
    text: String,
    object: String,
    number: String,
}

impl GoldenTokens {
    fn create() -> Self {
        let data: Value = serde_json::from_str(r#"{"k":[1,2.50],"s":"x"}"#).unwrap();
        let number: Value = serde_json::from_str("12345678901234567890.10").unwrap();
        Self {
            card: PROXY.create_card(),
            text: PROXY.create_token(json!(HOSTILE_TEXT)),
            object: PROXY.create_token(data),
            number: PROXY.create_token(number),
        }
    }

    /// Replaces the names of the tokens in a request.
    fn fill(&self, template: &str) -> String {
        template
            .replace("@card", &self.card.id)
            .replace("@text", &self.text)
            .replace("@object", &self.object)
            .replace("@amount", &self.number)
            .replace("@number", &self.card.number)
    }
}

struct GoldenPair {
    content_type: &'static str,
    sent: &'static str,
    received: &'static str,
}

const fn pair(
    content_type: &'static str,
    sent: &'static str,
    received: &'static str,
) -> GoldenPair {
    GoldenPair { content_type, sent, received }
}

const JSON_PAIRS: &[GoldenPair] = &[
    pair(
        "application/json",
        r#"{"z":"{{ @card | json: '$.number' }}","a":1.50,"b":[true,null,12345678901234567890.10]}"#,
        r#"{"z":"@number","a":1.50,"b":[true,null,12345678901234567890.10]}"#,
    ),
    pair(
        "application/json; charset=utf-8",
        r#"{"month":"{{ @card | json: '$.expiration_month' }}","text":"{{ @card | json: '$.expiration_month' | to_string }}"}"#,
        r#"{"month":7,"text":"7"}"#,
    ),
    pair("application/vnd.api+json", r#"["{{ @amount }}"]"#, "[12345678901234567890.10]"),
    pair("APPLICATION/JSON", r#"["{{ @object }}"]"#, r#"[{"k":[1,2.50],"s":"x"}]"#),
    pair("application/json", r#"["{{ @text }}"]"#, r#"["Jo & <\"o'> + 100%"]"#),
    pair(
        "application/json",
        r#"{"text":"{{ @card | json: '$.number' }} of {{ @text }}"}"#,
        r#"{"text":"@number of Jo & <\"o'> + 100%"}"#,
    ),
    pair(
        "application/json",
        r#"{"type":"{{ token: @card | json: '$.type' }}","cvc":"{{ @card | json: '$.cvc' }}"}"#,
        r#"{"type":"card","cvc":"123"}"#,
    ),
    pair("application/json", r#""{{ @card | json: '$.number' }}""#, r#""@number""#),
    pair(
        "application/json",
        r#"{"a":"\u007b\u007b @card | json: '$.number' }}"}"#,
        r#"{"a":"@number"}"#,
    ),
];

const OTHER_PAIRS: &[GoldenPair] = &[
    pair(
        "application/x-www-form-urlencoded",
        "a=%7e~+x&card%5Bnumber%5D=%7B%7B+@card+%7C+json%3A+%27%24.number%27+%7D%7D&b=%41&&c",
        "a=%7e~+x&card%5Bnumber%5D=@number&b=%41&&c",
    ),
    pair(
        "application/x-www-form-urlencoded; charset=utf-8",
        "name={{%20@text%20}}",
        "name=Jo+%26+%3C%22o%27%3E+%2B+100%25",
    ),
    pair(
        "application/x-www-form-urlencoded",
        "o=%7B%7B@object%7D%7D",
        "o=%7B%22k%22%3A%5B1%2C2.50%5D%2C%22s%22%3A%22x%22%7D",
    ),
    pair(
        "text/xml",
        "<?xml version=\"1.0\"?><a n=\"{{ @text }}\"><b>{{ @card | json: '$.number' }}</b></a>",
        "<?xml version=\"1.0\"?><a n=\"Jo &amp; &lt;&quot;o&apos;&gt; + 100%\"><b>@number</b></a>",
    ),
    pair(
        "application/soap+xml",
        "<a>{{ @text }}</a>",
        "<a>Jo &amp; &lt;&quot;o&apos;&gt; + 100%</a>",
    ),
    pair(
        "application/xml; charset=utf-8",
        "<a>{{ @card | json: '$.number' }}</a>",
        "<a>@number</a>",
    ),
    pair(
        "text/plain",
        "pan={{ @card | json: '$.number' }};{{ @text }}",
        "pan=@number;Jo & <\"o'> + 100%",
    ),
    pair("text/csv", "a,{{ @object }}\r\n", "a,{\"k\":[1,2.50],\"s\":\"x\"}\r\n"),
];

#[track_caller]
fn check_pairs(pairs: &[GoldenPair]) {
    let tokens = GoldenTokens::create();
    let host = PROXY.destinations.host(&[]);
    for GoldenPair { content_type, sent, received } in pairs {
        let (sent, received) = (tokens.fill(sent), tokens.fill(received));
        let response = PROXY.post(&host.url("/v1")).body(content_type, sent).send();
        let response = response.expect_answer(200);
        let request = host.last_request();
        assert_eq!(request.text(), received, "{content_type}");
        assert_eq!(request.header("content-type"), Some(*content_type));
        assert_eq!(request.header("content-length"), Some(received.len().to_string().as_str()));
        // The echo shows that the answer is forwarded byte for byte too.
        assert_eq!(response.text(), received);
        assert_eq!(response.header("content-type"), Some(*content_type));
    }
}

#[test]
fn json_expressions_keep_types_order_and_number_text() {
    check_pairs(JSON_PAIRS);
}

#[test]
fn form_xml_and_text_expressions_are_escaped_by_content_type() {
    check_pairs(OTHER_PAIRS);
}

fn multipart(parts: &[(&str, &str)]) -> String {
    multipart_with(BOUNDARY, parts)
}

fn multipart_with(boundary: &str, parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (head, content) in parts {
        body.push_str(&format!("--{boundary}\r\n{head}\r\n\r\n{content}\r\n"));
    }
    body.push_str(&format!("--{boundary}--\r\n"));
    body
}

/// The boundary that the vault drew for a message.
fn drawn_boundary(request: &DestinationRequest) -> &str {
    let content_type = request.header("content-type").unwrap();
    content_type.strip_prefix("multipart/form-data; boundary=").unwrap()
}

const TEXT_PART: &str = "Content-Disposition: form-data; name=\"card\"";
const JSON_PART: &str =
    "Content-Disposition: form-data; name=\"json\"\r\nContent-Type: application/json";
const FILE_PART: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                         Content-Type: text/plain";

#[test]
fn multipart_expressions_are_evaluated_in_text_parts_only() {
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    let expression = card.number_expression();
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let body =
        multipart(&[(TEXT_PART, &expression), (FILE_PART, &expression), (TEXT_PART, "plain")]);
    PROXY.post(&host.url("")).body(&content_type, body).send().expect_answer(200);
    let request = host.single_request();
    let expected = multipart_with(
        drawn_boundary(&request),
        &[(TEXT_PART, &card.number), (FILE_PART, &expression), (TEXT_PART, "plain")],
    );
    assert_eq!(request.text(), expected);
}

/// Token data could end the part and add another one, such as an amount.
#[test]
fn token_data_with_the_boundary_of_the_client_adds_no_part() {
    let injected = format!("1\r\n--{BOUNDARY}\r\n{TEXT_PART}\r\n\r\n2");
    let token = PROXY.create_token(json!(injected));
    let host = PROXY.destinations.host(&[]);
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let value = format!("{{{{ {token} }}}}");
    for (part, content) in [(TEXT_PART, value.clone()), (JSON_PART, format!("[\"{value}\"]"))] {
        let body = multipart(&[(part, &content)]);
        PROXY.post(&host.url("")).body(&content_type, body).send().expect_answer(200);
        let received = host.last_request();
        let boundary = drawn_boundary(&received);
        assert_ne!(boundary, BOUNDARY);
        assert_eq!(received.text().matches(boundary).count(), 2, "{}", received.text());
    }
}

/// Signatures over a body survive, because a body without an expression is not rendered again.
#[test]
fn body_without_an_expression_is_forwarded_byte_for_byte() {
    let host = PROXY.destinations.host(&[]);
    let multipart_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let multipart_body = multipart(&[(TEXT_PART, "x {single} }}"), (FILE_PART, "{{ no }}")]);
    let rows: &[(&str, &[u8])] = &[
        ("application/json", b" { \"b\" : 1.0e+2 ,\r\n\t\"a\": \"\\u0041{\" , \"a\": {} } \n"),
        ("application/json", b"{ not json"),
        ("application/json", b"\xff\xfe\x00"),
        ("application/json", b""),
        ("application/x-www-form-urlencoded", b"a=%zz&&b=%7b%7d&=c&d=%ff+ +"),
        ("application/xml", b"<a>\r\n <b attr = 'x'/><![CDATA[ { ]]> </a>\n"),
        ("text/plain; charset=iso-8859-1", b"caf\xe9 { { }}"),
        ("text/html", b"<script>if (a) { b }</script>"),
        (&multipart_type, multipart_body.as_bytes()),
    ];
    for (content_type, body) in rows {
        let response = PROXY.post(&host.url("")).body(content_type, *body).send();
        let response = response.expect_answer(200);
        assert_eq!(host.last_request().body, *body, "{content_type}");
        assert_eq!(response.response.body, *body, "{content_type}");
    }
}

#[test]
fn expression_in_an_unknown_format_is_not_evaluated() {
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    let body = format!("{{\"a\":\"{}\"}}", card.number_expression());
    for content_type in ["application/octet-stream", "application/pdf", "image/png", "x"] {
        PROXY.post(&host.url("")).body(content_type, body.clone()).send().expect_answer(200);
        assert_eq!(host.last_request().text(), body, "{content_type}");
    }
    PROXY.post(&host.url("")).bytes(body.clone()).send().expect_answer(200);
    assert_eq!(host.last_request().text(), body);
    assert_eq!(host.last_request().header("content-type"), None);
    let request = PROXY.post(&host.url("")).header("Content-Encoding", "gzip");
    request.body("application/json", body.clone()).send().expect_answer(200);
    assert_eq!(host.last_request().text(), body);
    assert_eq!(host.last_request().header("content-encoding"), Some("gzip"));
}

#[test]
fn invalid_expression_is_rejected_before_anything_is_sent() {
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    let id = &card.id;
    let rows = [
        ("application/json", format!("{{\"a\":\"{{{{ {id} | json: }}}}\"}}")),
        ("application/json", format!("{{\"a\":\"{{{{ {id} | no_such_filter }}}}\"}}")),
        ("application/json", "{\"a\":\"{{ \"}".to_owned()),
        ("application/json", format!("{{\"{{{{ {id} }}}}\":1}}, {{{{")),
        ("application/xml", format!("<a><![CDATA[{{{{ {id} }}}}]]></a>")),
        ("application/xml", format!("<{{{{ {id} }}}}>x</a>")),
        ("text/plain", format!("{{{{ {id} | no_such_filter }}}}")),
        ("application/x-www-form-urlencoded", "a=%7B%7B%20unclosed".to_owned()),
    ];
    for (content_type, body) in rows {
        let response = PROXY.post(&host.url("")).body(content_type, body.clone()).send();
        response.expect_not_sent(400);
        assert!(!response.text().contains(&card.number), "{body}");
    }
    assert_eq!(host.request_count(), 0);
}

#[test]
fn several_content_types_are_rejected() {
    let host = PROXY.destinations.host(&[]);
    let request = PROXY.post(&host.url("")).header("Content-Type", "text/plain");
    request.body("application/json", "{}").send().expect_not_sent(400);
    assert_eq!(host.request_count(), 0);
}

#[test]
fn token_intent_data_is_used_in_a_body() {
    let host = PROXY.destinations.host(&[]);
    let number = crate::harness::server::unique_card_number();
    let body = crate::harness::server::card_body(&number);
    let intent = PROXY.server.create_intent_id(&PROXY.keys.private, &body);
    let expression = |path: &str| format!("{{{{ token_intent: {intent} | json: '{path}' }}}}");
    let body = json!([expression("$.data.number"), expression("$.data.cvc")]);
    PROXY.post(&host.url("")).json(&body).send().expect_answer(200);
    assert_eq!(host.single_request().text(), json!([number, "123"]).to_string());
}

#[test]
fn detokenization_can_be_disabled_for_a_proxy() {
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({"disable_detokenization": true}));
    let body = json!({"a": card.number_expression(), "b": "{{ invalid |"}).to_string();
    PROXY.post_to(&proxy).body("application/json", body.clone()).send().expect_answer(200);
    assert_eq!(host.single_request().text(), body);
}

#[test]
fn configuration_is_used_in_bodies_and_is_missing_in_ephemeral_calls() {
    let host = PROXY.destinations.host(&[]);
    let configuration = json!({"merchant": "M-7", "secret": HOSTILE_TEXT});
    let proxy = PROXY.create_proxy_to(&host, json!({"configuration": configuration}));
    let body = r#"{"m":"{{ config: merchant }}","s":"{{ config: secret }}"}"#;
    PROXY.post_to(&proxy).body("application/json", body).send().expect_answer(200);
    let expected = json!({"m": "M-7", "s": HOSTILE_TEXT});
    let received: Value = serde_json::from_str(host.last_request().text()).unwrap();
    assert_eq!(received, expected);
    let unknown = r#"{"m":"{{ config: unknown }}"}"#;
    let response = PROXY.post_to(&proxy).body("application/json", unknown).send();
    assert!(!response.text().contains("M-7"));
    let response = PROXY.post(&host.url("")).body("application/json", body).send();
    assert!([200, 400].contains(&response.status()), "{}", response.text());
    assert!(!host.last_request().text().contains("M-7") || host.request_count() == 1);
}
