//! Text that a transform wrote into a header is not evaluated again: it can come from the body of a
//! caller without rights, or from the data of a token.

use scrip_testing::{destination::DestinationHost, requests::with_members};
use serde_json::{Value, json};

use crate::proxy::harness::{CreatedProxy, PROXY};

const SECRET: &str = "sk_live_configured";

/// A proxy that copies an attribute of the body to a header.
fn create_copying_proxy(attributes: Value) -> (DestinationHost, CreatedProxy) {
    let host = PROXY.destinations.host(&[]);
    let all = json!({
        "configuration": {"secret_key": SECRET},
        "request_transforms": [{"type": "append_header", "options":
            {"location": "X-Order", "value": "{{ req.order }}"}}],
    });
    let proxy = PROXY.create_proxy_to(&host, with_members(all, &attributes));
    (host, proxy)
}

#[test]
fn public_key_cannot_read_the_configuration_through_a_transform() {
    let (host, proxy) = create_copying_proxy(json!({"require_auth": false}));
    let direct = json!({"order": "{{ config: secret_key }}"});
    let request = PROXY.post_as(&PROXY.keys.public, &proxy);
    request.json(&direct).send().expect_not_sent(403);
    for expression in
        ["{{ config: secret_key }}", "{{ proxy.config }}", "{{ proxy.request.body }}", "{{ broken"]
    {
        let body = json!({"order": expression});
        let request = PROXY.post_as(&PROXY.keys.public, &proxy);
        // No expression is looked for in an encoded body, so no right is needed, and the template
        // would copy the text of the expression.
        let request = request.header("Content-Encoding", "identity").json(&body);
        let error = request.send().expect_not_sent(400);
        assert!(!error.to_string().contains(SECRET), "{error}");
    }
    assert_eq!(host.request_count(), 0);
}

#[test]
fn token_data_is_not_evaluated_as_an_expression() {
    let (host, proxy) = create_copying_proxy(json!({}));
    let card = PROXY.create_card();
    let text = "{{ proxy.config }} {{ proxy.request.body }}";
    let token = PROXY.create_token(json!({"name": text}));
    let body = json!({
        "name": format!("{{{{ {token} | json: '$.name' }}}}"),
        "card": card.number_expression(),
        "order": "77",
    });
    // The headers of the client are evaluated, unless a transform replaces them.
    let request = PROXY.post_to(&proxy).header("X-Key", "{{ config: secret_key }}");
    let request = request.header("X-Order", "{{ proxy.request.body }}");
    request.json(&body).send().expect_answer(200);
    let received = host.single_request();
    assert_eq!(received.header("x-key"), Some(SECRET));
    let sent = json!({"name": text, "card": card.number, "order": "77"});
    assert_eq!(serde_json::from_str::<Value>(received.text()).unwrap(), sent);
    assert_eq!(received.headers_named("x-order"), ["77"]);
}
