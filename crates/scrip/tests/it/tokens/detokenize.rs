//! Detokenize.

use std::time::Duration;

use scrip_core::{
    policy::{
        Permission::{TokenCreate, TokenRead},
        Settings,
        Transform::{Mask, Redact, Reveal},
    },
    time::Clock,
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED, Server, card, grant, new_number, text};

fn detokenize(key: &str, body: &Value) -> Value {
    SHARED.post(key, "/detokenize", body).is(200)
}

#[track_caller]
fn made(body: &Value) -> String {
    text(&SHARED.created(&ACME.private, body), "id")
}

#[test]
fn expressions_become_what_they_name() {
    let number = new_number();
    let card = made(&card(&number));
    let name = made(&json!({"type": "token", "data": "Jo"}));
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
        let ask = SHARED.ask("POST", "/detokenize/").key(&ACME.private);
        assert_eq!(ask.json(&body).send().is(200), expected);
    }
}

#[test]
fn a_whole_token_is_as_get_token_shows_it() {
    let mut body = card(&new_number());
    body["metadata"] = json!({"customer": "7"});
    body["expires_at"] = json!("2090-08-27T04:23:57+02:00");
    let id = made(&body);
    let readers = [Reveal, Mask, Redact]
        .map(|it| SHARED.rules(&ACME.tenant, vec![grant("/", it, &[TokenRead])]));
    for key in &readers {
        let token = SHARED.get(key, &id).is(200);
        let both = json!([format!("{{{{ token: {id} }}}}"), format!("{{{{ {id} }}}}")]);
        let back = detokenize(key, &both);
        assert_eq!(back[0], token);
        assert_eq!(&back[1], token.get("data").unwrap_or(&Value::Null));
        // Alone, the data is the same.
        assert_eq!(detokenize(key, &both[1]), back[1]);
    }
}

#[test]
fn data_is_seen_under_the_transform() {
    let number = new_number();
    let card = made(&card(&number));
    let bare = made(&json!({"type": "token", "data": "unmasked"}));
    let body = json!([
        format!("{{{{ {card} | json: '$.number' }}}}"),
        format!("{{{{ {bare} }}}}"),
        format!("<{{{{ {bare} }}}}>")
    ]);
    let expect = |key: &str, expected: Value| {
        let reply = SHARED.post(key, "/detokenize", &body);
        assert_eq!(reply.is(200), expected);
    };
    let key = |transform| SHARED.rules(&ACME.tenant, vec![grant("/", transform, &[TokenRead])]);
    expect(&key(Reveal), json!([number, "unmasked", "<unmasked>"]));
    expect(&key(Mask), json!([format!("XXXXXXXXXXXX{}", &number[12..]), null, "<>"]));
    expect(&key(Redact), json!([null, null, "<>"]));
    let code = json!(format!("{{{{ {card} | json: '$.cvc' }}}}"));
    assert_eq!(detokenize(&key(Reveal), &code), "123");
    assert_eq!(detokenize(&key(Mask), &code), Value::Null);
}

#[test]
fn a_code_is_gone_when_its_time_is_over() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let mut body = card(&new_number());
    body["expires_at"] = json!("2090-01-01T00:00:00Z");
    let id = text(&server.created(&keys.private, &body), "id");
    let code = json!(format!("{{{{ {id} | json: '$.cvc' }}}}"));
    let ask = || server.post(&keys.private, "/detokenize", &code).is(200);
    assert_eq!(ask(), "123");
    server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(ask(), Value::Null);
}

#[test]
fn nobodys_id_is_a_400() {
    let server = Server::start();
    let (keys, theirs) = (server.tenant(Settings::default()), server.tenant(Settings::default()));
    let known = text(&server.created(&keys.private, &json!({"type": "token", "data": 1})), "id");
    let other = text(&server.created(&theirs.private, &json!({"type": "token", "data": 1})), "id");
    let ask = |body: &Value| server.post(&keys.private, "/detokenize", body);
    let unknown = ask(&json!({"a": ["{{ nobody }}"]}));
    unknown.invalid("a[0]");
    for id in [other.as_str(), "token: nobody", &format!("token: {other}"), "token_intent: nobody"]
    {
        let reply = ask(&json!({"a": [format!("{{{{ {id} }}}}")]}));
        assert_eq!(reply.without_trace(), unknown.without_trace(), "{id}");
    }
    // A token is no intent.
    ask(&json!({"a": format!("{{{{ token_intent: {known} }}}}")})).invalid("a");
    assert_eq!(ask(&json!(format!("{{{{ {known} }}}}"))).is(200), 1);
    let soon = server.clock.now().after(Duration::from_secs(60 * 60)).to_string();
    let short = json!({"type": "token", "data": 1, "id": "short", "expires_at": soon});
    server.created(&keys.private, &short);
    let expiring = json!({"a": ["{{ short }}"]});
    ask(&expiring).is(200);
    server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(ask(&expiring).without_trace(), unknown.without_trace());
}

#[test]
fn a_token_that_may_not_be_read_is_a_403() {
    let number = new_number();
    let card = made(&card(&number));
    let open = made(&json!({"type": "token", "data": "open"}));
    let key =
        SHARED.rules(&ACME.tenant, vec![grant("/general/", Reveal, &[TokenRead, TokenCreate])]);
    assert_eq!(detokenize(&key, &json!(format!("{{{{ {open} }}}}"))), "open");
    for body in [
        json!([format!("{{{{ {open} }}}}"), format!("{{{{ {card} | last4 }}}}")]),
        json!(format!("{{{{ token: {card} | json: '$.id' }}}}")),
        json!(["{{ nobody }}", format!("{{{{ {card} }}}}")]),
    ] {
        SHARED.post(&key, "/detokenize", &body).refused(403, "token:read");
    }
}

#[test]
fn no_more_than_the_quota_allows() {
    let keys = SHARED.tenant(Settings::default());
    let ids: Vec<_> = (0..6)
        .map(|at| text(&SHARED.created(&keys.private, &json!({"type": "token", "data": at})), "id"))
        .collect();
    let all: Vec<_> = ids.iter().map(|it| format!("{{{{ {it} }}}}")).collect();
    let ask = |body: &Value| SHARED.post(&keys.private, "/detokenize", body);
    assert_eq!(ask(&json!(all[..5])).is(200), json!([0, 1, 2, 3, 4]));
    let reply = ask(&json!(all));
    reply.invalid("detokenize_limit");
    assert!(reply.text.contains("at most 5"));
    // One token counts once, however often and in whichever way it is named.
    let id = &ids[0];
    let many = json!(vec![format!("{{{{ {id} }}}}{{{{ token: {id} | json: '$.data' }}}}"); 50]);
    assert_eq!(ask(&many).is(200), json!(vec!["00"; 50]));
    SHARED.allow_large_requests(&keys.tenant);
    ask(&json!(all)).is(200);
}

#[test]
fn what_a_request_may_ask_for_is_bounded() {
    let text = "x".repeat(200_000);
    let id = made(&json!({"type": "token", "data": text}));
    let ask = |body: &Value| SHARED.post(&ACME.private, "/detokenize", body);
    assert_eq!(ask(&json!(format!("{{{{ {id} }}}}"))).is(200), text);
    // Each alone would do; all together are too much.
    let reply = ask(&json!({"a": vec![format!("{{{{ {id} }}}}"); 60]}));
    reply.refused(400, "");
    assert!(reply.text.contains("too large"), "{}", reply.text);
    let reply = ask(&json!(vec![format!("{{{{ {id} | last4 }}}}"); 12_000]));
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(!reply.text.contains("xxxx"));
}

/// An answer that is only read is not remembered: nobody who asks again later sees it by the key.
#[test]
fn the_idempotency_key_is_passed_over() {
    let keys = SHARED.tenant(Settings::default());
    let made =
        |data| text(&SHARED.created(&keys.private, &json!({"type": "token", "data": data})), "id");
    let (one, two) = (made(1), made(2));
    let ask = |id: &str| {
        let ask = SHARED.ask("POST", "/detokenize").key(&keys.private).once("asked");
        ask.json(&json!(format!("{{{{ {id} }}}}"))).send().is(200)
    };
    assert_eq!((ask(&one), ask(&two)), (json!(1), json!(2)));
    assert_eq!(SHARED.rows(&keys.tenant, "answers"), 0);
    // What was answered under the key before is not what is asked for.
    let create = SHARED.ask("POST", "/tokens").key(&keys.private).once("asked");
    create.json(&json!({"type": "token", "data": 3})).send().is(201);
    assert_eq!(ask(&one), json!(1));
    let long = SHARED.ask("POST", "/detokenize").key(&keys.private).once(&"x".repeat(300));
    long.json(&json!(1)).send().is(200);
}

/// What is known of a card by its first digits is there for expressions about the whole token. The
/// sandbox cards of a test tenant are always known.
#[test]
fn whole_tokens_of_cards_are_enriched() {
    let made = SHARED.created(&ACME.private, &card("4242424242424242"));
    let id = text(&made, "id");
    let ask = |path: &str| {
        let body = json!({"it": format!("{{{{ token: {id} | json: '$.{path}' }}}}")});
        SHARED.post(&ACME.private, "/detokenize", &body).is(200)["it"].clone()
    };
    assert_eq!(
        ask("enrichments.card_details"),
        json!({"bin": made["card"]["bin"], "last4": "4242"})
    );
    assert_eq!(ask("enrichments.bin_details.card_brand"), made["card"]["brand"]);
    assert_eq!(ask("card.brand"), "visa");
}
