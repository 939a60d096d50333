//! An attacker joins a hidden value with a text of its own, and fills the message up to its maximum:
//! the length of its own text at which the call fails must not tell the length of the hidden value.

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_core::types::{
    Permission::{ProxyInvoke, TokenRead},
    Transform::Mask,
};
use scrip_testing::requests::client_encryption::encrypt_json;
use serde_json::{Value, json};

use crate::{
    harness::server::text_field,
    proxy::{
        attacks::failing_expressions::OracleAttack,
        harness::{PROXY, ProxyHarness, ProxyRequest},
    },
};

const BODY_BYTES_MAX: usize = 1024 * 1024;
const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// A session that may use encrypted texts, as a page with fields has.
pub(super) fn create_page_session(harness: &ProxyHarness) -> String {
    let rules = json!([{"description": "encrypted data", "priority": 1, "transform": "mask",
        "container": "/", "permissions": ["token:use"]}]);
    harness.create_access_session(&json!({"rules": rules}))
}

/// The value of `BT-ENCRYPTED` with these texts.
pub(super) fn encode_header(header: &Value) -> String {
    STANDARD.encode(header.to_string())
}

pub(super) fn encrypt_token(client_key: &Value, data: &Value) -> Value {
    json!({"type": "token", "encrypted": encrypt_json(client_key, data)})
}

pub(super) fn create_client_key(harness: &ProxyHarness) -> Value {
    harness.server.create_client_key(&harness.keys.management)
}

#[test]
fn encrypted_text_of_the_attacker_does_not_tell_the_length_of_another_one() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let client_key = create_client_key(&PROXY);
    let session = create_page_session(&PROXY);
    let hidden = [json!("a"), json!("&\"<".repeat(13))];
    let victims = hidden.map(|it| encrypt_token(&client_key, &it));
    let send = |victim: &Value, own_length: usize, content_type: &str, free: usize| {
        let own = encrypt_token(&client_key, &json!("y".repeat(own_length)));
        let header = encode_header(&json!({"m": own, "v": victim}));
        let fill = "f".repeat(BODY_BYTES_MAX - free);
        let body = match content_type {
            JSON => format!("[\"{{{{ encrypted }}}}\",\"{fill}\"]"),
            _ => format!("a={{{{ encrypted }}}}&f={fill}"),
        };
        let request = PROXY.post_as(&session, &attack.proxy);
        request.header("BT-ENCRYPTED", &header).body(content_type, body).send().status()
    };
    for content_type in [JSON, FORM] {
        for own_length in (280..=480).step_by(20) {
            let [short, long] =
                [&victims[0], &victims[1]].map(|it| send(it, own_length, content_type, 525));
            assert_eq!(short, long, "{content_type}, {own_length}");
        }
        for victim in &victims {
            assert_eq!(send(victim, 1, content_type, 40_000), 200, "{content_type}");
        }
    }
}

/// The attacker chooses the encoding, which is longer for some characters.
#[test]
fn encoding_of_the_body_does_not_tell_the_characters_of_a_hidden_value() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let ids = ["a", "&"].map(|it| PROXY.create_token(json!(it.repeat(100))));
    let bodies =
        [(FORM, "a=V&f=F"), ("application/xml", "<a f=\"F\">V</a>"), (JSON, "[\"V\",\"F\"]")];
    for (content_type, template) in bodies {
        for free in [300, 600, 5_000, 10_000] {
            let fill = "f".repeat(BODY_BYTES_MAX - free);
            let [letters, signs] = ids.each_ref().map(|id| {
                let body = template.replace('F', &fill).replace('V', &format!("{{{{ {id} }}}}"));
                attack.request().body(content_type, body).send().status()
            });
            assert_eq!(letters, signs, "{content_type}, {free}");
        }
    }
}

/// The statuses of calls of a key and of a caller without one, through proxies that differ in a text
/// of the administrator.
#[track_caller]
fn check_equal_outcomes(
    attributes: impl Fn(&str) -> Value,
    build: impl Fn(ProxyRequest, usize) -> ProxyRequest,
    own_lengths: impl Iterator<Item = usize>,
) -> Vec<u16> {
    let attacks = [18, 40].map(|length| {
        let mut attributes = attributes(&"s".repeat(length));
        attributes["require_auth"] = json!(false);
        OracleAttack::new(&PROXY, attributes)
    });
    let mut statuses = Vec::new();
    for own_length in own_lengths {
        for has_key in [true, false] {
            let [short, long] = attacks.each_ref().map(|attack| {
                let request = match has_key {
                    true => attack.request(),
                    false => PROXY.post_keyless(&attack.proxy),
                };
                build(request, own_length).send().status()
            });
            assert_eq!(short, long, "{own_length}, has a key: {has_key}");
            statuses.push(short);
        }
    }
    statuses
}

fn append_signature(kind: &str, value: &str, secret: &str) -> Value {
    let mut options = json!({"value": value});
    if kind == "append_json" {
        options["location"] = json!("$.sig");
    }
    let transforms = json!([{"type": kind, "options": options}]);
    json!({"configuration": {"key": secret}, "request_transforms": transforms})
}

#[test]
fn request_that_a_template_joins_does_not_tell_the_length_of_the_configuration() {
    let fill_body = |request: ProxyRequest, own_length: usize, free: usize| {
        let reference = "r".repeat(own_length);
        let empty = json!({"ref": reference, "pad": ""}).to_string().len();
        let pad = "f".repeat(BODY_BYTES_MAX - free - empty);
        request.json(&json!({"ref": reference, "pad": pad}))
    };
    let templates = [
        "{{ config: key }}-{{ req.ref }}",
        "{{ req.ref | append: config.key }}",
        "{{ req.ref | append: config.key | upcase }}",
    ];
    for kind in ["append_json", "append_text"] {
        for template in templates {
            let attributes = |secret: &str| append_signature(kind, template, secret);
            let build = |request: ProxyRequest, length: usize| fill_body(request, length, 512);
            check_equal_outcomes(attributes, build, (440..=500).step_by(12));
        }
        let literal =
            |secret: &str| append_signature(kind, &format!("{secret}{{{{ req.ref }}}}"), "k");
        let build = |request: ProxyRequest, length: usize| fill_body(request, length, 512);
        check_equal_outcomes(literal, build, (440..=500).step_by(12));
        let joined = |secret: &str| append_signature(kind, templates[0], secret);
        let build = |request: ProxyRequest, length: usize| fill_body(request, length, 20_000);
        let statuses = check_equal_outcomes(joined, build, [10, 400].into_iter());
        assert_eq!(statuses, [200; 4], "{kind}");
    }
}

/// A rendered text has at most 64 KiB.
#[test]
fn maximum_of_a_rendered_text_does_not_tell_the_length_of_the_configuration() {
    let attributes =
        |secret: &str| append_signature("append_json", "{{ config: key }}-{{ req.ref }}", secret);
    let build =
        |request: ProxyRequest, length: usize| request.json(&json!({"ref": "r".repeat(length)}));
    let statuses = check_equal_outcomes(attributes, build, (65_480..=65_530).step_by(10));
    assert!(statuses.iter().all(|it| *it != 200), "{statuses:?}");
    assert_eq!(check_equal_outcomes(attributes, build, [60_000].into_iter()), [200; 2]);
}

/// The maximum of a call counts only tokens and intents that the caller may use.
#[test]
fn size_of_a_token_without_a_right_does_not_change_the_denial() {
    let proxy = PROXY.create_proxy_to(&PROXY.destinations.host(&[]), json!({}));
    let caller = PROXY.key_with_rule("/own/", Mask, &[TokenRead, ProxyInvoke]);
    let create = |path: &str, length: usize, container: &str| {
        let body = json!({"type": "token", "data": "x".repeat(length), "containers": [container]});
        text_field(&PROXY.server.post(&PROXY.keys.private, path, &body).expect_status(201), "id")
    };
    // Seven times 512 KiB, so that a token of 300,000 bytes reaches 4 MiB, and one of 10 does not.
    let own: Vec<_> = (0..7).map(|_| create("/tokens", 300_000, "/own/")).collect();
    let small = create("/tokens", 10, "/own/");
    let send = |foreign: &str| {
        let ids = own.iter().chain([&small]).map(String::as_str).chain([foreign]);
        let body: Vec<_> = ids.map(|it| format!("{{{{ {it} }}}}")).collect();
        PROXY.post_as(&caller, &proxy).json(&json!(body)).send()
    };
    for length in [10, 100_000, 300_000] {
        let token = create("/tokens", length, "/secret/");
        let error = send(&token).expect_not_sent(403);
        assert_eq!(error, send(&token).expect_not_sent(403), "{length}");
        let intent = create("/token-intents", length, "/secret/");
        send(&format!("token_intent: {intent}")).expect_not_sent(403);
    }
    send(&create("/tokens", 300_000, "/own/")).expect_not_sent(400);
}
