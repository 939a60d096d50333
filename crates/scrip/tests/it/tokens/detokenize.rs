//! Detokenize.

use std::time::Duration;

use scrip_core::{
    policy::{
        Permission::{TokenCreate, TokenRead},
        TenantSettings,
        Transform::{Mask, Redact, Reveal},
    },
    time::Clock,
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TestServer, card_body, grant, text_field, unique_card_number,
};

fn detokenize(key: &str, body: &Value) -> Value {
    SHARED_SERVER.post(key, "/detokenize", body).expect_status(200)
}

#[track_caller]
fn create_token(body: &Value) -> String {
    text_field(&SHARED_SERVER.create_token_ok(&ACME.private, body), "id")
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
    let data =
        json!({"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"});
    let back = detokenize(&ACME.private, &body);
    assert_eq!(back["card"], data);
    assert_eq!(back["deep"], json!([{"number": number}, 7, null, true, "plain"]));
    let last4 = &number[12..];
    assert_eq!(back["greeting"], format!("Dear Jo, your card ends in {last4}."));
    assert_eq!((&back["type"], &back["month"]), (&json!("card"), &json!(7)));
    assert_eq!(back["tag"].as_str().unwrap().len(), 64);
    for (body, expected) in [
        (json!(format!("{{{{{name}}}}}")), json!("Jo")),
        (json!(null), json!(null)),
        (json!([1]), json!([1])),
    ] {
        let ask = SHARED_SERVER.request("POST", "/detokenize/").key(&ACME.private);
        assert_eq!(ask.json(&body).send().expect_status(200), expected);
    }
}

#[test]
fn whole_token_expression_equals_the_get_token_response() {
    let mut body = card_body(&unique_card_number());
    body["metadata"] = json!({"customer": "7"});
    body["expires_at"] = json!("2090-08-27T04:23:57+02:00");
    let id = create_token(&body);
    let readers = [Reveal, Mask, Redact]
        .map(|it| SHARED_SERVER.key_with_rules(&ACME.tenant, vec![grant("/", it, &[TokenRead])]));
    for key in &readers {
        let token = SHARED_SERVER.get_token(key, &id).expect_status(200);
        let both = json!([format!("{{{{ token: {id} }}}}"), format!("{{{{ {id} }}}}")]);
        let back = detokenize(key, &both);
        assert_eq!(back[0], token);
        assert_eq!(&back[1], token.get("data").unwrap_or(&Value::Null));
        // Alone, the data is the same.
        assert_eq!(detokenize(key, &both[1]), back[1]);
    }
}

#[test]
fn detokenize_applies_the_transform() {
    let number = unique_card_number();
    let card = create_token(&card_body(&number));
    let bare = create_token(&json!({"type": "token", "data": "unmasked"}));
    let body = json!([
        format!("{{{{ {card} | json: '$.number' }}}}"),
        format!("{{{{ {bare} }}}}"),
        format!("<{{{{ {bare} }}}}>")
    ]);
    let expect = |key: &str, expected: Value| {
        let reply = SHARED_SERVER.post(key, "/detokenize", &body);
        assert_eq!(reply.expect_status(200), expected);
    };
    let key = |transform| {
        SHARED_SERVER.key_with_rules(&ACME.tenant, vec![grant("/", transform, &[TokenRead])])
    };
    expect(&key(Reveal), json!([number, "unmasked", "<unmasked>"]));
    expect(&key(Mask), json!([format!("XXXXXXXXXXXX{}", &number[12..]), null, "<>"]));
    expect(&key(Redact), json!([null, null, "<>"]));
    let code = json!(format!("{{{{ {card} | json: '$.cvc' }}}}"));
    assert_eq!(detokenize(&key(Reveal), &code), "123");
    assert_eq!(detokenize(&key(Mask), &code), Value::Null);
}

#[test]
fn cvc_is_null_after_its_retention() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let mut body = card_body(&unique_card_number());
    body["expires_at"] = json!("2090-01-01T00:00:00Z");
    let id = text_field(&server.create_token_ok(&keys.private, &body), "id");
    let code = json!(format!("{{{{ {id} | json: '$.cvc' }}}}"));
    let ask = || server.post(&keys.private, "/detokenize", &code).expect_status(200);
    assert_eq!(ask(), "123");
    server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(ask(), Value::Null);
}

#[test]
fn unknown_token_id_is_400() {
    let server = TestServer::start();
    let (keys, theirs) = (
        server.create_test_tenant(TenantSettings::default()),
        server.create_test_tenant(TenantSettings::default()),
    );
    let known = text_field(
        &server.create_token_ok(&keys.private, &json!({"type": "token", "data": 1})),
        "id",
    );
    let other = text_field(
        &server.create_token_ok(&theirs.private, &json!({"type": "token", "data": 1})),
        "id",
    );
    let ask = |body: &Value| server.post(&keys.private, "/detokenize", body);
    let unknown = ask(&json!({"a": ["{{ nobody }}"]}));
    unknown.expect_invalid("a[0]");
    for id in [other.as_str(), "token: nobody", &format!("token: {other}"), "token_intent: nobody"]
    {
        let reply = ask(&json!({"a": [format!("{{{{ {id} }}}}")]}));
        assert_eq!(reply.without_trace(), unknown.without_trace(), "{id}");
    }
    // A token is no intent.
    ask(&json!({"a": format!("{{{{ token_intent: {known} }}}}")})).expect_invalid("a");
    assert_eq!(ask(&json!(format!("{{{{ {known} }}}}"))).expect_status(200), 1);
    let soon = server.clock.now().plus(Duration::from_secs(60 * 60)).to_string();
    let short = json!({"type": "token", "data": 1, "id": "short", "expires_at": soon});
    server.create_token_ok(&keys.private, &short);
    let expiring = json!({"a": ["{{ short }}"]});
    ask(&expiring).expect_status(200);
    server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(ask(&expiring).without_trace(), unknown.without_trace());
}

#[test]
fn token_without_read_permission_is_403() {
    let number = unique_card_number();
    let card = create_token(&card_body(&number));
    let open = create_token(&json!({"type": "token", "data": "open"}));
    let key = SHARED_SERVER
        .key_with_rules(&ACME.tenant, vec![grant("/general/", Reveal, &[TokenRead, TokenCreate])]);
    assert_eq!(detokenize(&key, &json!(format!("{{{{ {open} }}}}"))), "open");
    for body in [
        json!([format!("{{{{ {open} }}}}"), format!("{{{{ {card} | last4 }}}}")]),
        json!(format!("{{{{ token: {card} | json: '$.id' }}}}")),
        json!(["{{ nobody }}", format!("{{{{ {card} }}}}")]),
    ] {
        SHARED_SERVER.post(&key, "/detokenize", &body).expect_problem(403, "token:read");
    }
}

#[test]
fn detokenize_limit_is_enforced() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let ids: Vec<_> = (0..6)
        .map(|at| {
            text_field(
                &SHARED_SERVER
                    .create_token_ok(&keys.private, &json!({"type": "token", "data": at})),
                "id",
            )
        })
        .collect();
    let all: Vec<_> = ids.iter().map(|it| format!("{{{{ {it} }}}}")).collect();
    let ask = |body: &Value| SHARED_SERVER.post(&keys.private, "/detokenize", body);
    assert_eq!(ask(&json!(all[..5])).expect_status(200), json!([0, 1, 2, 3, 4]));
    let reply = ask(&json!(all));
    reply.expect_invalid("detokenize_limit");
    assert!(reply.text.contains("at most 5"));
    // One token counts once, however often and in whichever way it is named.
    let id = &ids[0];
    let many = json!(vec![format!("{{{{ {id} }}}}{{{{ token: {id} | json: '$.data' }}}}"); 50]);
    assert_eq!(ask(&many).expect_status(200), json!(vec!["00"; 50]));
    SHARED_SERVER.allow_large_requests(&keys.tenant);
    ask(&json!(all)).expect_status(200);
}

#[test]
fn detokenize_response_size_is_bounded() {
    let text = "x".repeat(200_000);
    let id = create_token(&json!({"type": "token", "data": text}));
    let ask = |body: &Value| SHARED_SERVER.post(&ACME.private, "/detokenize", body);
    assert_eq!(ask(&json!(format!("{{{{ {id} }}}}"))).expect_status(200), text);
    // Each alone would do; all together are too much.
    let reply = ask(&json!({"a": vec![format!("{{{{ {id} }}}}"); 60]}));
    reply.expect_problem(400, "");
    assert!(reply.text.contains("too large"), "{}", reply.text);
    let reply = ask(&json!(vec![format!("{{{{ {id} | last4 }}}}"); 12_000]));
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(!reply.text.contains("xxxx"));
}

/// An answer that is only read is not remembered: nobody who asks again later sees it by the key.
#[test]
fn detokenize_ignores_the_idempotency_key() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let created = |data| {
        text_field(
            &SHARED_SERVER.create_token_ok(&keys.private, &json!({"type": "token", "data": data})),
            "id",
        )
    };
    let (one, two) = (created(1), created(2));
    let ask = |id: &str| {
        let ask = SHARED_SERVER
            .request("POST", "/detokenize")
            .key(&keys.private)
            .idempotency_key("asked");
        ask.json(&json!(format!("{{{{ {id} }}}}"))).send().expect_status(200)
    };
    assert_eq!((ask(&one), ask(&two)), (json!(1), json!(2)));
    assert_eq!(SHARED_SERVER.count_rows(&keys.tenant, "answers"), 0);
    // What was answered under the key before is not what is asked for.
    let create =
        SHARED_SERVER.request("POST", "/tokens").key(&keys.private).idempotency_key("asked");
    create.json(&json!({"type": "token", "data": 3})).send().expect_status(201);
    assert_eq!(ask(&one), json!(1));
    let long = SHARED_SERVER
        .request("POST", "/detokenize")
        .key(&keys.private)
        .idempotency_key(&"x".repeat(300));
    long.json(&json!(1)).send().expect_status(200);
}

/// What is known of a card by its first digits is there for expressions about the whole token. The
/// sandbox cards of a test tenant are always known.
#[test]
fn whole_card_tokens_include_enrichments() {
    let created = SHARED_SERVER.create_token_ok(&ACME.private, &card_body("4242424242424242"));
    let id = text_field(&created, "id");
    let ask = |path: &str| {
        let body = json!({"it": format!("{{{{ token: {id} | json: '$.{path}' }}}}")});
        SHARED_SERVER.post(&ACME.private, "/detokenize", &body).expect_status(200)["it"].clone()
    };
    assert_eq!(
        ask("enrichments.card_details"),
        json!({"bin": created["card"]["bin"], "last4": "4242"})
    );
    assert_eq!(ask("enrichments.bin_details.card_brand"), created["card"]["brand"]);
    assert_eq!(ask("card.brand"), "visa");
}
