//! Detokenize.

use std::time::Duration;

use scrip_core::types::{
    Permission::{TokenCreate, TokenRead},
    Transform::{Mask, Redact, Reveal},
    time::Clock,
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestServer, card_body, text_field, unique_card_number};

fn detokenize(key: &str, body: &Value) -> Value {
    SERVER.post(key, "/detokenize", body).expect_status(200)
}

#[track_caller]
fn create_token(body: &Value) -> String {
    SERVER.create_token_id(&ACME.private, body)
}

#[test]
fn expressions_are_replaced_by_token_data() {
    let number = unique_card_number();
    let card = create_token(&card_body(&number));
    let name = create_token(&json!({"type": "token", "data": "Jo"}));
    let body = json!({
        "card": format!("{{{{ {card} }}}}"),
        "deep": [{"number": format!("{{{{ {card} | json: '$.number' }}}}")}, 7, null, true, "plain"],
        "greeting": format!("Dear {{{{ {name} }}}}, your card ends in {{{{{card}|json:'$.number'|last4}}}}."),
        "type": format!("{{{{ token: {card} | json: '$.type' }}}}"),
        "month": format!("{{{{ {card} | json: '$.expiration_month' }}}}"),
        "tag": format!("{{{{ {name} | hmac: 'sha-256', 'k' | to_base16 }}}}"),
    });
    let response = detokenize(&ACME.private, &body);
    assert_eq!(response["card"], card_body(&number)["data"]);
    assert_eq!(response["deep"], json!([{"number": number}, 7, null, true, "plain"]));
    let last4 = &number[12..];
    assert_eq!(response["greeting"], format!("Dear Jo, your card ends in {last4}."));
    assert_eq!((&response["type"], &response["month"]), (&json!("card"), &json!(7)));
    assert_eq!(response["tag"].as_str().unwrap().len(), 64);
    for (body, expected) in [
        (json!(format!("{{{{{name}}}}}")), json!("Jo")),
        (json!(null), json!(null)),
        (json!([1]), json!([1])),
    ] {
        let request = SERVER.request("POST", "/detokenize/").key(&ACME.private);
        assert_eq!(request.json(&body).send().expect_status(200), expected);
    }
}

#[test]
fn whole_token_expression_equals_the_get_token_response() {
    let mut body = card_body(&unique_card_number());
    body["metadata"] = json!({"customer": "7"});
    body["expires_at"] = json!("2090-08-27T04:23:57+02:00");
    let id = create_token(&body);
    for transform in [Reveal, Mask, Redact] {
        let key = &SERVER.key_with_rule(&ACME.tenant, "/", transform, &[TokenRead]);
        let token = SERVER.get_token(key, &id).expect_status(200);
        let expressions = json!([format!("{{{{ token: {id} }}}}"), format!("{{{{ {id} }}}}")]);
        let response = detokenize(key, &expressions);
        assert_eq!(response[0], token);
        assert_eq!(&response[1], token.get("data").unwrap_or(&Value::Null));
        // A single expression returns the same data.
        assert_eq!(detokenize(key, &expressions[1]), response[1]);
    }
}

#[test]
fn detokenize_applies_the_transform() {
    let number = unique_card_number();
    let card = create_token(&card_body(&number));
    let token_without_mask = create_token(&json!({"type": "token", "data": "unmasked"}));
    let body = json!([
        format!("{{{{ {card} | json: '$.number' }}}}"),
        format!("{{{{ {token_without_mask} }}}}"),
        format!("<{{{{ {token_without_mask} }}}}>")
    ]);
    let cvc_expression = json!(format!("{{{{ {card} | json: '$.cvc' }}}}"));
    let masked_number = format!("XXXXXXXXXXXX{}", &number[12..]);
    for (transform, expected, cvc) in [
        (Reveal, json!([number, "unmasked", "<unmasked>"]), json!("123")),
        (Mask, json!([masked_number, null, "<>"]), Value::Null),
        (Redact, json!([null, null, "<>"]), Value::Null),
    ] {
        let key = SERVER.key_with_rule(&ACME.tenant, "/", transform, &[TokenRead]);
        assert_eq!(detokenize(&key, &body), expected, "{transform:?}");
        assert_eq!(detokenize(&key, &cvc_expression), cvc, "{transform:?}");
    }
}

#[test]
fn detokenized_cvc_is_null_after_its_retention() {
    let (server, keys) = TestServer::start_with_tenant();
    let mut body = card_body(&unique_card_number());
    body["expires_at"] = json!("2090-01-01T00:00:00Z");
    let id = server.create_token_id(&keys.private, &body);
    let cvc_expression = json!(format!("{{{{ {id} | json: '$.cvc' }}}}"));
    let detokenize_cvc =
        || server.post(&keys.private, "/detokenize", &cvc_expression).expect_status(200);
    assert_eq!(detokenize_cvc(), "123");
    server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(detokenize_cvc(), Value::Null);
}

#[test]
fn detokenize_of_an_unknown_token_id_is_400() {
    let server = TestServer::start();
    let (keys, other_keys) = (server.create_default_tenant(), server.create_default_tenant());
    let [token, other_tenant_token] = [&keys, &other_keys]
        .map(|it| server.create_token_id(&it.private, &json!({"type": "token", "data": 1})));
    let detokenize_body = |body: &Value| server.post(&keys.private, "/detokenize", body);
    let unknown_response = detokenize_body(&json!({"a": ["{{ unknown }}"]}));
    unknown_response.expect_invalid("a[0]");
    for id in [
        other_tenant_token.as_str(),
        "token: unknown",
        &format!("token: {other_tenant_token}"),
        "token_intent: unknown",
    ] {
        let response = detokenize_body(&json!({"a": [format!("{{{{ {id} }}}}")]}));
        assert_eq!(response.without_trace(), unknown_response.without_trace(), "{id}");
    }
    // The id of a token is not the id of an intent.
    detokenize_body(&json!({"a": format!("{{{{ token_intent: {token} }}}}")})).expect_invalid("a");
    assert_eq!(detokenize_body(&json!(format!("{{{{ {token} }}}}"))).expect_status(200), 1);
    let expires_at = server.clock.now().plus(Duration::from_secs(60 * 60)).to_string();
    let expiring_body =
        json!({"type": "token", "data": 1, "id": "expiring", "expires_at": expires_at});
    server.create_token_ok(&keys.private, &expiring_body);
    let expiring_expression = json!({"a": ["{{ expiring }}"]});
    detokenize_body(&expiring_expression).expect_status(200);
    server.clock.advance(Duration::from_secs(60 * 60));
    let expired_response = detokenize_body(&expiring_expression);
    assert_eq!(expired_response.without_trace(), unknown_response.without_trace());
}

#[test]
fn detokenize_without_read_permission_on_a_token_is_403() {
    let number = unique_card_number();
    let unreadable_card = create_token(&card_body(&number));
    let readable_token = create_token(&json!({"type": "token", "data": "readable"}));
    let key = SERVER.key_with_rule(&ACME.tenant, "/general/", Reveal, &[TokenRead, TokenCreate]);
    assert_eq!(detokenize(&key, &json!(format!("{{{{ {readable_token} }}}}"))), "readable");
    for body in [
        json!([
            format!("{{{{ {readable_token} }}}}"),
            format!("{{{{ {unreadable_card} | last4 }}}}")
        ]),
        json!(format!("{{{{ token: {unreadable_card} | json: '$.id' }}}}")),
        json!(["{{ unknown }}", format!("{{{{ {unreadable_card} }}}}")]),
    ] {
        SERVER.post(&key, "/detokenize", &body).expect_problem(403, "token:read");
    }
}

#[test]
fn detokenize_limit_is_enforced() {
    let keys = SERVER.create_default_tenant();
    let ids: Vec<_> = (0..6)
        .map(|index| {
            SERVER.create_token_id(&keys.private, &json!({"type": "token", "data": index}))
        })
        .collect();
    let expressions: Vec<_> = ids.iter().map(|it| format!("{{{{ {it} }}}}")).collect();
    let detokenize_body = |body: &Value| SERVER.post(&keys.private, "/detokenize", body);
    let allowed = detokenize_body(&json!(expressions[..5])).expect_status(200);
    assert_eq!(allowed, json!([0, 1, 2, 3, 4]));
    let response = detokenize_body(&json!(expressions));
    response.expect_invalid("detokenize_limit");
    assert!(response.text.contains("at most 5"));
    // A token counts once, regardless of how often and in which notation expressions name it.
    let id = &ids[0];
    let repeated_expressions =
        json!(vec![format!("{{{{ {id} }}}}{{{{ token: {id} | json: '$.data' }}}}"); 50]);
    assert_eq!(detokenize_body(&repeated_expressions).expect_status(200), json!(vec!["00"; 50]));
    SERVER.allow_large_requests(&keys.tenant);
    detokenize_body(&json!(expressions)).expect_status(200);
}

#[test]
fn detokenize_response_size_is_bounded() {
    let text = "x".repeat(200_000);
    let id = create_token(&json!({"type": "token", "data": text}));
    let detokenize_body = |body: &Value| SERVER.post(&ACME.private, "/detokenize", body);
    assert_eq!(detokenize_body(&json!(format!("{{{{ {id} }}}}"))).expect_status(200), text);
    // Each expression alone is allowed, but all together are too large.
    let response = detokenize_body(&json!({"a": vec![format!("{{{{ {id} }}}}"); 60]}));
    response.expect_problem(400, "");
    assert!(response.text.contains("too large"), "{}", response.text);
    let response = detokenize_body(&json!(vec![format!("{{{{ {id} | last4 }}}}"); 12_000]));
    assert_eq!(response.status, 400, "{}", response.text);
    assert!(!response.text.contains("xxxx"));
}

/// Expressions on the whole token can use the card details. The sandbox cards of a test tenant
/// always have details.
#[test]
fn whole_token_expression_of_a_card_includes_enrichments() {
    let created = SERVER.create_token_ok(&ACME.private, &card_body("4242424242424242"));
    let id = text_field(&created, "id");
    let detokenize_path = |path: &str| {
        let body = json!({"value": format!("{{{{ token: {id} | json: '$.{path}' }}}}")});
        SERVER.post(&ACME.private, "/detokenize", &body).expect_status(200)["value"].clone()
    };
    let card_details = json!({"bin": created["card"]["bin"], "last4": "4242"});
    assert_eq!(detokenize_path("enrichments.card_details"), card_details);
    assert_eq!(detokenize_path("enrichments.bin_details.card_brand"), created["card"]["brand"]);
    assert_eq!(detokenize_path("card.brand"), "visa");
}
