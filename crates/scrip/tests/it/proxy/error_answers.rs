//! Errors of the vault before anything is sent: their status and form.

use scrip_core::types::{Permission::TokenRead, Transform::Reveal};
use serde_json::{Value, json};

use crate::proxy::harness::{PROXY, ProxyRequest};

#[test]
fn unauthenticated_request_is_401_and_not_sent() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    for key in [None, Some("unknown-key")] {
        let with_key = |request: ProxyRequest| key.iter().fold(request, |it, key| it.api_key(key));
        with_key(PROXY.request("POST", "").url(&host.url(""))).send().expect_not_sent(401);
        with_key(PROXY.post_keyless(&proxy)).send().expect_not_sent(401);
    }
    assert_eq!(host.request_count(), 0);
}

#[test]
fn unknown_token_is_400_and_a_denied_token_is_403() {
    let host = PROXY.destinations.host(&[]);
    let card = PROXY.create_card();
    let body = json!({"a": "{{ no-such-token }}", "b": card.number_expression()});
    let error = PROXY.post(&host.url("")).json(&body).send().expect_not_sent(400);
    assert_eq!(error["title"], "Invalid proxy request");
    assert!(error["errors"]["body.a"].is_array(), "{error}");
    assert!(error["errors"]["body.b"].is_null(), "{error}");
    let reader = PROXY.key_with_rule("/", Reveal, &[TokenRead]);
    let body = json!({"b": card.number_expression()});
    PROXY.post_url_as(&reader, &host.url("")).json(&body).send().expect_not_sent(403);
    assert_eq!(host.request_count(), 0);
}

#[test]
fn request_with_more_than_20_tokens_is_rejected() {
    let host = PROXY.destinations.host(&[]);
    let tokens: Vec<_> = (0..21).map(|it| PROXY.create_token(json!(it))).collect();
    let body = |count: usize| -> Value {
        tokens[..count].iter().map(|it| format!("{{{{ {it} }}}}")).collect()
    };
    PROXY.post(&host.url("")).json(&body(20)).send().expect_answer(200);
    let expected: Vec<_> = (0..20).collect();
    assert_eq!(host.single_request().text(), json!(expected).to_string());
    let error = PROXY.post(&host.url("")).json(&body(21)).send().expect_not_sent(400);
    assert!(error.to_string().contains("20"), "{error}");
    // The same token again is not another token.
    let repeated: Value = (0..60).map(|it| format!("{{{{ {} }}}}", tokens[it % 20])).collect();
    PROXY.post(&host.url("")).json(&repeated).send().expect_answer(200);
    assert_eq!(host.request_count(), 2);
}

#[test]
fn errors_name_the_path_of_the_expression_and_no_data() {
    let host = PROXY.destinations.host(&[]);
    let card = PROXY.create_card();
    let body = json!({"a": [{"b": format!("{{{{ {} | json: '$.number' | to_number | card_exp: 'x' }}}}", card.id)}]});
    let error = PROXY.post(&host.url("")).json(&body).send().expect_not_sent(400).to_string();
    assert!(error.contains("a[0].b"), "{error}");
    assert!(!error.contains(&card.number), "{error}");
    assert_eq!(host.request_count(), 0);
}
