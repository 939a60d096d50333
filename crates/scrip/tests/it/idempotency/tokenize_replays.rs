//! The idempotency key on tokenize: one effect, and an answer of which each token keeps its part.

use scrip_core::policy::{
    DeduplicationBehavior,
    Permission::{TokenCreate, TokenRead, TokenUpdate},
    Settings,
    Transform::{self, Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, Reply, SHARED, card, grant, new_number, text};

fn once(key: &str, once: &str, body: &Value) -> Reply {
    SHARED.ask("POST", "/tokenize").key(key).once(once).json(body).send()
}

fn without_codes(answer: &Value) -> Value {
    match answer {
        Value::Array(items) => items.iter().map(without_codes).collect(),
        Value::Object(object) => {
            let kept = object.iter().filter(|(name, _)| *name != "cvc");
            kept.map(|(name, it)| (name.clone(), without_codes(it))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => answer.clone(),
    }
}

/// The tenant of an application whose rules can be changed: how to.
struct Lent {
    keys: Keys,
    path: String,
    key: String,
}

impl Lent {
    fn new(settings: Settings, rules: &Value) -> Self {
        let keys = SHARED.tenant(settings);
        let body = json!({"name": "lent", "type": "private", "rules": rules});
        let made = SHARED.post(&keys.management, "/applications", &body).is(201);
        let path = format!("/applications/{}", text(&made, "id"));
        Self { path, key: text(&made, "key"), keys }
    }

    fn grant(&self, rules: &Value) {
        let body = json!({"name": "lent", "rules": rules});
        SHARED.put(&self.keys.management, &self.path, &body).is(200);
    }
}

fn rule(container: &str, transform: Transform, permissions: &[&str]) -> Value {
    json!({"description": "", "priority": 1, "container": container,
        "transform": transform.as_str(), "permissions": permissions})
}

const ALL: &[&str] = &["token:create", "token:read", "token:update"];

#[test]
fn a_repeated_request_has_one_effect_and_one_answer() {
    let keys = SHARED.tenant(Settings::default());
    let body = json!({
        "a": card(&new_number()),
        "b": ["text", {"é \" name": card(&new_number())}],
        "c": {"type": "token", "data": {"deep": [1, null]}},
        "d": null,
    });
    let first = once(&keys.private, "order", &body).is(200);
    assert_eq!(first["b"][1]["é \" name"]["data"]["cvc"], "123");
    for body in [&body, &json!({"other": [1, 2]}), &json!(null)] {
        assert_eq!(once(&keys.private, "order", body).is(200), without_codes(&first));
    }
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 4);
    // By the route of another operation too: the key is what counts.
    let created = SHARED.ask("POST", "/tokens").key(&keys.private).once("order").json(&json!(1));
    assert_eq!(created.send_for("POST", "/tokenize").is(200), without_codes(&first));
}

#[test]
fn what_made_no_token_is_remembered_too() {
    let keys = SHARED.tenant(Settings::default());
    let body = json!({"nothing": [null, {}]});
    assert_eq!(once(&keys.private, "none", &body).is(200), body);
    assert_eq!(once(&keys.private, "none", &json!("secret")).is(200), body);
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 0);
}

#[test]
fn what_failed_is_asked_anew() {
    let keys = SHARED.tenant(Settings::default());
    let bad = json!([1, {"type": "card", "data": {"number": "1"}}]);
    once(&keys.private, "mended", &bad).refused(400, "[1].data.number");
    SHARED.created(&keys.private, &json!({"id": "taken", "type": "token", "data": 1}));
    let taken = json!([1, {"id": "taken", "type": "token", "data": 2}]);
    once(&keys.private, "mended", &taken).refused(409, "id");
    let made = once(&keys.private, "mended", &json!([1, 2])).is(200);
    assert_eq!(once(&keys.private, "mended", &bad).is(200), made);
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 3);
}

#[test]
fn each_token_takes_its_data_along() {
    let numbers = [new_number(), new_number(), new_number()];
    let body =
        json!({"a": card(&numbers[0]), "b": [card(&numbers[1]), "text"], "c": card(&numbers[2])});
    let first = once(&ACME.private, "losing-some", &body).is(200);
    let mut expected = without_codes(&first);
    SHARED.remove(&ACME.private, &format!("/tokens/{}", text(&first["b"][0], "id"))).is(204);
    expected["b"][0].as_object_mut().unwrap().remove("data");
    let again = once(&ACME.private, "losing-some", &body);
    assert_eq!(again.is(200), expected);
    assert!(!again.text.contains(&numbers[1]));
    for name in ["a", "c"] {
        SHARED.remove(&ACME.private, &format!("/tokens/{}", text(&first[name], "id"))).is(204);
        expected[name].as_object_mut().unwrap().remove("data");
        assert_eq!(once(&ACME.private, "losing-some", &body).is(200), expected);
    }
}

#[test]
fn one_token_twice_in_an_answer_loses_both() {
    let keys = SHARED.tenant(Settings { deduplicate_tokens: true, ..Settings::default() });
    let twice = card(&new_number());
    let body = json!([twice, twice]);
    let first = once(&keys.private, "twice", &body).is(200);
    assert_eq!(once(&keys.private, "twice", &body).is(200), without_codes(&first));
    SHARED.remove(&keys.private, &format!("/tokens/{}", text(&first[0], "id"))).is(204);
    for token in once(&keys.private, "twice", &body).is(200).as_array().unwrap() {
        assert!(token.get("data").is_none(), "{token}");
    }
}

#[test]
fn each_part_is_shown_at_the_weaker_of_then_and_now() {
    let lent = Lent::new(
        Settings::default(),
        &json!([rule("/pci/", Reveal, ALL), rule("/pii/", Mask, ALL)]),
    );
    let number = new_number();
    let body = json!([card(&number), {"type": "social_security_number", "data": "123-45-6789"}]);
    let ask = || once(&lent.key, "weaker", &body);
    let first = ask().is(200);
    assert_eq!(
        (&first[0]["data"]["number"], &first[1]["data"]),
        (&json!(number), &json!("XXX-XX-6789"))
    );
    let shown = |first: Option<&str>, second: Option<&str>| {
        let now = ask().is(200);
        assert_eq!(now[0].get("data").map(|it| &it["number"]), first.map(|it| json!(it)).as_ref());
        assert_eq!(now[1].get("data"), second.map(|it| json!(it)).as_ref());
    };
    let masked = format!("XXXXXXXXXXXX{}", &number[12..]);
    lent.grant(&json!([rule("/pci/", Mask, ALL), rule("/pii/", Reveal, ALL)]));
    shown(Some(&masked), Some("XXX-XX-6789"));
    lent.grant(&json!([rule("/pci/", Reveal, ALL), rule("/pii/", Transform::Redact, ALL)]));
    shown(Some(&number), None);
    // Whoever may not create one of them any more has no answer.
    lent.grant(&json!([rule("/pci/", Reveal, ALL)]));
    ask().refused(403, "token:create");
    lent.grant(&json!([rule("/", Reveal, &["token:read"])]));
    ask().refused(403, "token:create");
}

#[test]
fn a_token_that_moved_out_of_sight_is_an_outline() {
    let lent = Lent::new(
        Settings::default(),
        &json!([rule("/pci/", Reveal, ALL), rule("/low/", Mask, ALL)]),
    );
    let mut described = card(&new_number());
    described["metadata"] = json!({"customer": "7"});
    let body = json!([described, card(&new_number())]);
    let ask = || once(&lent.key, "moved", &body);
    let first = ask().is(200);
    let mut expected = without_codes(&first);
    let moves = |at: usize, to: &str| {
        let patch = json!({"containers": [to]});
        SHARED.patch(&lent.keys.private, &text(&first[at], "id"), &patch).is(200);
    };
    moves(0, "/low/");
    assert!(ask().is(200)[0]["data"]["number"].as_str().unwrap().starts_with("XXXX"));
    moves(0, "/elsewhere/");
    for name in
        ["data", "metadata", "card", "created_at", "created_by", "mask", "fingerprint_expression"]
    {
        assert!(expected[0].as_object_mut().unwrap().remove(name).is_some(), "{name}");
    }
    assert_eq!(ask().is(200), expected);
    moves(1, "/elsewhere/");
    ask().refused(403, "token:create");
}

#[test]
fn what_was_found_needs_the_right_to_read_it_still() {
    for behavior in [DeduplicationBehavior::ReadExisting, DeduplicationBehavior::UpdateExisting] {
        let settings = Settings {
            deduplicate_tokens: true,
            token_deduplication_behavior: behavior,
            ..Settings::default()
        };
        let lent = Lent::new(settings, &json!([rule("/", Reveal, ALL)]));
        let (known, fresh) = (new_number(), new_number());
        let mut described = card(&known);
        described["metadata"] = json!({"customer": "7"});
        SHARED.created(&lent.keys.private, &described);
        let body = json!([card(&known), card(&fresh)]);
        let ask = || once(&lent.key, "found", &body);
        let first = ask().is(200);
        assert_eq!(first[0]["_extras"]["deduplication_behavior"], behavior.as_str());
        assert_eq!(ask().is(200), without_codes(&first));

        lent.grant(&json!([rule("/", Reveal, &["token:create"])]));
        let now = ask().is(200);
        let names: Vec<_> = now[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["_extras", "containers", "fingerprint", "id", "tenant_id", "type"]);
        assert_eq!(now[1], without_codes(&first)[1]);

        let without_update = json!([rule("/", Reveal, &["token:create", "token:read"])]);
        lent.grant(&without_update);
        let whole = ask().is(200)[0].get("data").is_some();
        assert_eq!(whole, behavior == DeduplicationBehavior::ReadExisting);
    }
}

/// As with a single token: what nobody may see any part of is no answer.
#[test]
fn an_answer_with_nothing_left_is_none() {
    let settings = Settings { deduplicate_tokens: true, ..Settings::default() };
    let lent = Lent::new(settings, &json!([rule("/", Reveal, ALL)]));
    let number = new_number();
    SHARED.created(&lent.keys.private, &card(&number));
    let body = json!({"only": card(&number)});
    once(&lent.key, "nothing-left", &body).is(200);
    lent.grant(&json!([rule("/", Reveal, &["token:create"])]));
    once(&lent.key, "nothing-left", &body).refused(403, "token:read");
}

#[test]
fn a_browser_sees_its_masks_again() {
    let body = json!({"card": card(&new_number()), "name": "Jo"});
    let first = once(&ACME.public, "browser", &body).is(200);
    assert_eq!(once(&ACME.public, "browser", &body).is(200), first);
    let key =
        SHARED.rules(&ACME.tenant, vec![grant("/", Mask, &[TokenCreate, TokenRead, TokenUpdate])]);
    let first = once(&key, "browser", &body).is(200);
    assert_eq!(once(&key, "browser", &body).is(200), first);
}
