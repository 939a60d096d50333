//! Tokenize.

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::policy::{Permission::TokenCreate, Settings, Transform::Redact};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, SHARED, card, grant, new_number, text};

#[track_caller]
fn tokenize(body: &Value) -> Value {
    SHARED.post(&ACME.private, "/tokenize", body).is(200)
}

/// The data of a token that a leaf became.
#[track_caller]
fn leaf(id: &Value) -> Value {
    let token = SHARED.get(&ACME.private, id.as_str().expect("an id")).is(200);
    assert_eq!(
        (&token["type"], &token["containers"]),
        (&json!("token"), &json!(["/general/high/"]))
    );
    token["data"].clone()
}

#[test]
fn values_become_tokens_where_they_stand() {
    let number = new_number();
    let body = json!({
        "customer": {"name": "Jo", "card": card(&number), "since": 1999, "vip": true},
        "list": ["a", [json!({"type": "social_security_number", "data": "123-45-6789"})]],
        "none": null,
        "empty": {"object": {}, "array": [], "nulls": [null, {"a": null}]},
    });
    let large = SHARED.tenant(Settings::default());
    SHARED.allow_large_requests(&large.tenant);
    let made = SHARED.post(&large.private, "/tokenize", &body).is(200);

    let data =
        |id: &Value| SHARED.get(&large.private, id.as_str().unwrap()).is(200)["data"].clone();
    let customer = &made["customer"];
    assert_eq!(data(&customer["name"]), "Jo");
    assert_eq!(data(&customer["since"]), 1999);
    assert_eq!(data(&customer["vip"]), true);
    assert_eq!(data(&made["list"][0]), "a");
    let token = &customer["card"];
    assert_eq!((&token["type"], &token["data"]["number"]), (&json!("card"), &json!(number)));
    assert_eq!(token["data"]["cvc"], "123");
    assert_eq!(token["_extras"], json!({"deduplicated": false}));
    assert_eq!(made["list"][1][0]["data"], "123-45-6789");
    assert_eq!((&made["none"], &made["empty"]), (&body["none"], &body["empty"]));
    for part in ["customer", "list"] {
        let names = |it: &Value| it.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>());
        assert_eq!(names(&made[part]), names(&body[part]));
    }
    assert_eq!(SHARED.rows(&large.tenant, "tokens"), 6);
    let audited = "operation = 'tokenize' AND outcome = 'created'";
    assert_eq!(SHARED.rows_where(&large.tenant, "audit", audited), 6);
}

#[test]
fn a_body_can_be_any_json() {
    for value in [json!("a text"), json!(0), json!(false), json!("")] {
        assert_eq!(leaf(&tokenize(&value)), value);
    }
    let reply = SHARED.ask("POST", "/tokenize/").key(&ACME.private);
    let long = "12345678901234567890123";
    let id = reply.text("application/json", long).send().is(200);
    assert!(SHARED.get(&ACME.private, id.as_str().unwrap()).text.contains(long), "as it went in");
    for value in [json!(null), json!([]), json!({}), json!([null, {}])] {
        assert_eq!(tokenize(&value), value);
    }
    let made = tokenize(&json!([1, [2]]));
    assert_eq!((leaf(&made[0]), leaf(&made[1][0])), (json!(1), json!(2)));
    let token = tokenize(&json!({"type": "token", "data": {"a": [1, null]}}));
    assert_eq!(token["data"], json!({"a": [1, null]}));
    SHARED
        .ask("POST", "/tokenize")
        .key(&ACME.private)
        .text("text/plain", "1")
        .send()
        .refused(415, "");
    let broken = SHARED.ask("POST", "/tokenize").key(&ACME.private).text("application/json", "{");
    broken.send().refused(400, "JSON");
}

#[test]
fn a_token_in_a_body_is_as_create_token_makes_it() {
    let mut body = card(&new_number());
    let own = json!({
        "containers": ["/customers/"],
        "metadata": {"customer": "7"},
        "mask": {"number": "{{ data.number | reveal_last: 4 }}"},
        "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}-{{ metadata.customer }}",
        "expires_at": "2090-08-27T04:23:57+02:00",
        "unknown": 1,
    });
    body.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    let plain = |mut token: Value| {
        for name in ["id", "created_at"] {
            assert!(token.as_object_mut().unwrap().remove(name).is_some());
        }
        token
    };
    let expected = plain(SHARED.created(&ACME.private, &body));
    let made = tokenize(&json!({"deep": [body]}));
    let id = text(&made["deep"][0], "id");
    assert_eq!(plain(made["deep"][0].clone()), expected);
    let read = SHARED.get(&ACME.private, &id).is(200);
    assert_eq!(read["metadata"], expected["metadata"]);
}

#[test]
fn an_answer_shows_what_its_caller_may_see() {
    let number = new_number();
    let body = json!({"card": card(&number), "text": "secret"});
    let masked = SHARED.post(&ACME.public, "/tokenize", &body).is(200);
    assert_eq!(masked["card"]["data"]["number"], format!("XXXXXXXXXXXX{}", &number[12..]));
    assert!(masked["card"]["data"].get("cvc").is_none());
    let redacted = SHARED.rules(&ACME.tenant, vec![grant("/", Redact, &[TokenCreate])]);
    let redacted = SHARED.post(&redacted, "/tokenize", &body).is(200);
    assert!(redacted["card"].get("data").is_none());
    assert!(redacted["text"].is_string());
}

/// Only both of `type` and `data` make a token of an object.
#[test]
fn what_is_half_a_token_is_an_object() {
    let made = tokenize(&json!({"type": "card", "number": "4242"}));
    assert_eq!((leaf(&made["type"]), leaf(&made["number"])), (json!("card"), json!("4242")));
    let made = tokenize(&json!({"data": {"number": "1"}, "token_intent_id": null}));
    assert_eq!(leaf(&made["data"]["number"]), "1");
    assert_eq!(made["token_intent_id"], Value::Null);
}

#[test]
fn one_bad_token_and_there_is_none() {
    let keys = SHARED.tenant(Settings::default());
    let bad = || json!({"type": "card", "data": {"number": "4242424242424241"}});
    let good = || json!({"type": "token", "data": 1});
    let intent = json!({"token_intent_id": "x"});
    let both = json!({"token_intent_id": "x", "type": "card", "data": 1});
    let table = [
        (json!({"customer": {"card": bad(), "name": "Jo"}}), "customer.card.data.number"),
        (json!([1, good(), {"type": "card_number", "data": 4242}]), "[2].data"),
        (json!([good(), {"a": [bad()]}]), "[1].a[0].data.number"),
        (json!({"a": {"type": "unheard_of", "data": 1}, "b": 1}), "a.type"),
        (json!({"a": {"type": 7, "data": 1}, "b": 1}), "a.type"),
        (json!({"a": {"type": "token", "data": null}, "b": 1}), "a.data"),
        (json!({"a": {"type": "token", "data": 1, "containers": ["x"]}}), "a.containers[0]"),
        (json!({"a": {"type": "token", "data": 1, "mask": "{{ data | }}"}}), "a.mask"),
        (json!({"a": 1, "b": {"type": "token", "data": 1, "id": "x"}}), "b.id"),
        (
            json!({"a": 1, "b": {"type": "token", "data": 1, "expires_at": "1/1/2001"}}),
            "b.expires_at",
        ),
        (json!([1, intent]), "[1].token_intent_id"),
        (json!({"a": both}), "a.token_intent_id"),
        (bad(), "data.number"),
    ];
    for (body, attribute) in table {
        SHARED.post(&keys.private, "/tokenize", &body).invalid(attribute);
    }
    let all = SHARED.post(&keys.private, "/tokenize", &json!([bad(), 1, bad()]));
    for attribute in ["[0].data.number", "[2].data.number"] {
        all.invalid(attribute);
    }
    let all = json!([{"type": "a", "data": 1}, {"type": "token", "data": null}]);
    let all = SHARED.post(&keys.private, "/tokenize", &all);
    for attribute in ["[0].type", "[1].data"] {
        all.invalid(attribute);
    }
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 0);
    assert_eq!(SHARED.rows_where(&keys.tenant, "audit", "operation = 'tokenize'"), 0);
}

#[test]
fn a_token_that_is_not_allowed_and_there_is_none() {
    let keys = SHARED.tenant(Settings::default());
    let some = SHARED.rules(&keys.tenant, vec![grant("/pci/", Redact, &[TokenCreate])]);
    let body = json!([card(&new_number()), card(&new_number())]);
    SHARED.post(&some, "/tokenize", &body).is(200);
    let body = json!([card(&new_number()), "a text", card(&new_number())]);
    SHARED.post(&some, "/tokenize", &body).refused(403, "token:create");
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 2);
}

#[test]
fn no_more_than_the_quota_allows() {
    let Keys { tenant, private, .. } = SHARED.tenant(Settings::default());
    let tokenize = |body: &Value| SHARED.post(&private, "/tokenize", body);
    let token = || json!({"type": "token", "data": {"many": [1, 2, 3, 4, 5, 6]}});
    tokenize(&json!([1, 2, [3, {"a": 4}], token(), null, {}, []])).is(200);
    let reply = tokenize(&json!([1, 2, [3, {"a": 4}], token(), token()]));
    reply.invalid("tokenize_limit");
    assert!(reply.json()["errors"]["tokenize_limit"].to_string().contains("at most 5"));
    // However many there are, nothing is made of them.
    tokenize(&json!(vec![1; 300_000])).invalid("tokenize_limit");
    assert_eq!(SHARED.rows(&tenant, "tokens"), 5);
    SHARED.allow_large_requests(&tenant);
    assert_eq!(tokenize(&json!(vec![1; 1000])).is(200).as_array().unwrap().len(), 1000);
    tokenize(&json!(vec![1; 1001])).invalid("tokenize_limit");
}

#[test]
fn ids_are_given_once() {
    let keys = SHARED.tenant(Settings::default());
    let tokenize = |body: &Value| SHARED.post(&keys.private, "/tokenize", body);
    let named = |id: &str| json!({"type": "token", "data": 1, "id": id});
    let made = tokenize(&json!({"a": named("mine"), "b": 1})).is(200);
    assert_eq!(made["a"]["id"], "mine");
    for body in [
        json!([1, named("other"), named("mine")]),
        json!([named("mine"), 1]),
        json!([1, named("twice"), 2, named("twice")]),
    ] {
        tokenize(&body).refused(409, "id");
    }
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 2);
    // What failed left its ids free.
    tokenize(&json!([named("other"), named("twice")])).is(200);
}

#[test]
fn aliases_that_are_taken_are_drawn_again() {
    let keys = SHARED.tenant(Settings::default());
    SHARED.allow_large_requests(&keys.tenant);
    // One letter or digit by chance: sixty-two values, and then none.
    let aliased = || json!({"type": "token", "data": "xyz", "id": "{{ data | alias_preserve_length: 2, 0 }}"});
    let made = SHARED.post(&keys.private, "/tokenize", &json!(vec![aliased(); 90])).is(200);
    let mut ids: Vec<_> = made.as_array().unwrap().iter().map(|it| text(it, "id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 90, "each has one of its own");
    let short = ids.iter().filter(|it| it.len() == 3).count();
    assert!(short > 30, "{short}");

    // One that was drawn makes way for one that was asked for, wherever it stands.
    let keys = SHARED.tenant(Settings::default());
    SHARED.allow_large_requests(&keys.tenant);
    let letters = ('0'..='9').chain('a'..='z').chain('A'..='Z');
    let named = letters.map(|it| json!({"type": "token", "data": 1, "id": format!("xy{it}")}));
    let body: Vec<_> = std::iter::once(aliased()).chain(named).collect();
    let made = SHARED.post(&keys.private, "/tokenize", &json!(body)).is(200);
    assert_eq!(text(&made[0], "id").len(), 36);
}

/// Any JSON, with some tokens in it.
fn bodies() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f32>().prop_map(|it| json!(f64::from(it))),
        "[ -~é{}|]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let name = prop_oneof![Just("type".to_owned()), Just("data".to_owned()), "[a-z]{1,3}"];
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            vec((name, inner.clone()), 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect()))
                .prop_filter("this is a token", |it| {
                    it.get("type").is_none() || it.get("data").is_none()
                }),
            inner
                .prop_filter("data is required", |it| !it.is_null())
                .prop_map(|data| json!({"type": "token", "data": data})),
        ]
    })
}

/// The answer to tokenize as a client that wants its values back writes it.
fn asked_back(body: &Value, made: &Value) -> Value {
    let expression = |id: &Value| json!(format!("{{{{ {} }}}}", id.as_str().unwrap()));
    match (body, made) {
        (Value::Object(body), Value::Object(made)) if made.contains_key("_extras") => {
            assert_eq!((&body["data"], &body["type"]), (&made["data"], &made["type"]));
            json!({"type": "token", "data": expression(&made["id"])})
        }
        (Value::Object(body), Value::Object(made)) => {
            assert_eq!(body.len(), made.len());
            body.iter().map(|(name, it)| (name.clone(), asked_back(it, &made[name]))).collect()
        }
        (Value::Array(body), Value::Array(made)) => {
            assert_eq!(body.len(), made.len());
            body.iter().zip(made).map(|(body, made)| asked_back(body, made)).collect()
        }
        (Value::Null, _) => made.clone(),
        (_, id) => expression(id),
    }
}

#[test]
fn what_is_tokenized_comes_back() {
    let keys = SHARED.tenant(Settings::default());
    SHARED.allow_large_requests(&keys.tenant);
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&bodies(), |body| {
        let made = SHARED.post(&keys.private, "/tokenize", &body).is(200);
        let back = SHARED.post(&keys.private, "/detokenize", &asked_back(&body, &made)).is(200);
        prop_assert_eq!(back, body);
        Ok(())
    });
    outcome.unwrap();
}
