//! Idempotency keys on tokenize: one effect, and a stored response with a separate part for each
//! token.

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{
        Permission::{TokenCreate, TokenRead, TokenUpdate},
        Transform::{self, Mask, Reveal},
    },
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, TestResponse, card_body, text_field, unique_card_number,
};

fn tokenize_with_idempotency_key(key: &str, idempotency_key: &str, body: &Value) -> TestResponse {
    SERVER.post_once(key, "/tokenize", idempotency_key, body)
}

fn without_cvcs(response: &Value) -> Value {
    match response {
        Value::Array(items) => items.iter().map(without_cvcs).collect(),
        Value::Object(object) => {
            let stored = object.iter().filter(|(name, _)| *name != "cvc");
            stored.map(|(name, it)| (name.clone(), without_cvcs(it))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => response.clone(),
    }
}

/// A tenant with an application, and a way to change the rules of the application.
struct ApplicationHarness {
    keys: TenantApiKeys,
    path: String,
    key: String,
}

impl ApplicationHarness {
    fn new(settings: TenantSettings, rules: &Value) -> Self {
        let keys = SERVER.create_test_tenant(settings);
        let body = json!({"name": "lent", "type": "private", "rules": rules});
        let created = SERVER.post(&keys.management, "/applications", &body).expect_status(201);
        let path = format!("/applications/{}", text_field(&created, "id"));
        Self { path, key: text_field(&created, "key"), keys }
    }

    fn set_rules(&self, rules: &Value) {
        let body = json!({"name": "lent", "rules": rules});
        SERVER.put(&self.keys.management, &self.path, &body).expect_status(200);
    }
}

fn rule(container: &str, transform: Transform, permissions: &[&str]) -> Value {
    json!({"description": "", "priority": 1, "container": container,
        "transform": transform.as_str(), "permissions": permissions})
}

const ALL_PERMISSIONS: &[&str] = &["token:create", "token:read", "token:update"];

#[test]
fn repeated_tokenize_has_one_effect_and_one_response() {
    let keys = SERVER.create_default_tenant();
    let body = json!({
        "a": card_body(&unique_card_number()),
        "b": ["text", {"é \" name": card_body(&unique_card_number())}],
        "c": {"type": "token", "data": {"deep": [1, null]}},
        "d": null,
    });
    let first = tokenize_with_idempotency_key(&keys.private, "order", &body).expect_status(200);
    assert_eq!(first["b"][1]["é \" name"]["data"]["cvc"], "123");
    for body in [&body, &json!({"other": [1, 2]}), &json!(null)] {
        assert_eq!(
            tokenize_with_idempotency_key(&keys.private, "order", body).expect_status(200),
            without_cvcs(&first)
        );
    }
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 4);
    // Another route is another request.
    let created = SERVER
        .request("POST", "/tokens")
        .key(&keys.private)
        .idempotency_key("order")
        .json(&json!(1));
    created.send().expect_status(422);
}

#[test]
fn tokenize_response_without_tokens_is_replayed() {
    let keys = SERVER.create_default_tenant();
    let body = json!({"nothing": [null, {}]});
    let replayed = tokenize_with_idempotency_key(&keys.private, "none", &body).expect_status(200);
    assert_eq!(replayed, body);
    assert_eq!(
        tokenize_with_idempotency_key(&keys.private, "none", &json!("secret")).expect_status(200),
        body
    );
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 0);
}

#[test]
fn failed_tokenize_is_not_replayed() {
    let keys = SERVER.create_default_tenant();
    let invalid_body = json!([1, {"type": "card", "data": {"number": "1"}}]);
    tokenize_with_idempotency_key(&keys.private, "mended", &invalid_body)
        .expect_problem(400, "[1].data.number");
    SERVER.create_token_ok(&keys.private, &json!({"id": "taken", "type": "token", "data": 1}));
    let body_with_taken_id = json!([1, {"id": "taken", "type": "token", "data": 2}]);
    tokenize_with_idempotency_key(&keys.private, "mended", &body_with_taken_id)
        .expect_problem(409, "id");
    let created =
        tokenize_with_idempotency_key(&keys.private, "mended", &json!([1, 2])).expect_status(200);
    assert_eq!(
        tokenize_with_idempotency_key(&keys.private, "mended", &invalid_body).expect_status(200),
        created
    );
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 3);
}

#[test]
fn deleted_token_removes_its_data_from_the_replay() {
    let numbers = [unique_card_number(), unique_card_number(), unique_card_number()];
    let body = json!({"a": card_body(&numbers[0]), "b": [card_body(&numbers[1]), "text"], "c": card_body(&numbers[2])});
    let first =
        tokenize_with_idempotency_key(&ACME.private, "losing-some", &body).expect_status(200);
    let mut expected = without_cvcs(&first);
    SERVER
        .delete(&ACME.private, &format!("/tokens/{}", text_field(&first["b"][0], "id")))
        .expect_status(204);
    expected["b"][0].as_object_mut().unwrap().remove("data");
    let replayed = tokenize_with_idempotency_key(&ACME.private, "losing-some", &body);
    assert_eq!(replayed.expect_status(200), expected);
    assert!(!replayed.text.contains(&numbers[1]));
    for name in ["a", "c"] {
        SERVER
            .delete(&ACME.private, &format!("/tokens/{}", text_field(&first[name], "id")))
            .expect_status(204);
        expected[name].as_object_mut().unwrap().remove("data");
        assert_eq!(
            tokenize_with_idempotency_key(&ACME.private, "losing-some", &body).expect_status(200),
            expected
        );
    }
}

#[test]
fn token_that_appears_twice_loses_its_data_in_both_places() {
    let keys = SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        ..TenantSettings::default()
    });
    let repeated_card = card_body(&unique_card_number());
    let body = json!([repeated_card, repeated_card]);
    let first = tokenize_with_idempotency_key(&keys.private, "twice", &body).expect_status(200);
    let replayed = tokenize_with_idempotency_key(&keys.private, "twice", &body).expect_status(200);
    assert_eq!(replayed, without_cvcs(&first));
    SERVER
        .delete(&keys.private, &format!("/tokens/{}", text_field(&first[0], "id")))
        .expect_status(204);
    for token in tokenize_with_idempotency_key(&keys.private, "twice", &body)
        .expect_status(200)
        .as_array()
        .unwrap()
    {
        assert!(token.get("data").is_none(), "{token}");
    }
}

#[test]
fn replayed_token_data_uses_the_weaker_of_old_and_current_rights() {
    let application = ApplicationHarness::new(
        TenantSettings::default(),
        &json!([rule("/pci/", Reveal, ALL_PERMISSIONS), rule("/pii/", Mask, ALL_PERMISSIONS)]),
    );
    let number = unique_card_number();
    let body =
        json!([card_body(&number), {"type": "social_security_number", "data": "123-45-6789"}]);
    let request = || tokenize_with_idempotency_key(&application.key, "weaker", &body);
    let first = request().expect_status(200);
    assert_eq!(first[0]["data"]["number"], number);
    assert_eq!(first[1]["data"], "XXX-XX-6789");
    let expect_data = |first: Option<&str>, second: Option<&str>| {
        let now = request().expect_status(200);
        assert_eq!(now[0].get("data").map(|it| &it["number"]), first.map(|it| json!(it)).as_ref());
        assert_eq!(now[1].get("data"), second.map(|it| json!(it)).as_ref());
    };
    let masked = format!("XXXXXXXXXXXX{}", &number[12..]);
    application.set_rules(&json!([
        rule("/pci/", Mask, ALL_PERMISSIONS),
        rule("/pii/", Reveal, ALL_PERMISSIONS)
    ]));
    expect_data(Some(&masked), Some("XXX-XX-6789"));
    application.set_rules(&json!([
        rule("/pci/", Reveal, ALL_PERMISSIONS),
        rule("/pii/", Transform::Redact, ALL_PERMISSIONS)
    ]));
    expect_data(Some(&number), None);
    // A caller that may no longer create one of the tokens gets no replay.
    application.set_rules(&json!([rule("/pci/", Reveal, ALL_PERMISSIONS)]));
    request().expect_problem(403, "token:create");
    application.set_rules(&json!([rule("/", Reveal, &["token:read"])]));
    request().expect_problem(403, "token:create");
}

#[test]
fn replay_of_a_token_moved_out_of_reach_is_an_outline() {
    let application = ApplicationHarness::new(
        TenantSettings::default(),
        &json!([rule("/pci/", Reveal, ALL_PERMISSIONS), rule("/low/", Mask, ALL_PERMISSIONS)]),
    );
    let mut card_with_attributes = card_body(&unique_card_number());
    card_with_attributes["metadata"] = json!({"customer": "7"});
    let body = json!([card_with_attributes, card_body(&unique_card_number())]);
    let request = || tokenize_with_idempotency_key(&application.key, "moved", &body);
    let first = request().expect_status(200);
    let mut expected = without_cvcs(&first);
    let move_token = |index: usize, container: &str| {
        let patch = json!({"containers": [container]});
        SERVER
            .patch_token(&application.keys.private, &text_field(&first[index], "id"), &patch)
            .expect_status(200);
    };
    move_token(0, "/low/");
    let number = text_field(&request().expect_status(200)[0]["data"], "number");
    assert!(number.starts_with("XXXX"));
    move_token(0, "/elsewhere/");
    for name in
        ["data", "metadata", "card", "created_at", "created_by", "mask", "fingerprint_expression"]
    {
        assert!(expected[0].as_object_mut().unwrap().remove(name).is_some(), "{name}");
    }
    assert_eq!(request().expect_status(200), expected);
    move_token(1, "/elsewhere/");
    request().expect_problem(403, "token:create");
}

#[test]
fn replay_of_a_deduplicated_token_requires_the_read_permission() {
    for behavior in [DeduplicationBehavior::ReadExisting, DeduplicationBehavior::UpdateExisting] {
        let settings = TenantSettings {
            deduplicate_tokens: true,
            token_deduplication_behavior: behavior,
            ..TenantSettings::default()
        };
        let application =
            ApplicationHarness::new(settings, &json!([rule("/", Reveal, ALL_PERMISSIONS)]));
        let (existing_number, new_number) = (unique_card_number(), unique_card_number());
        let mut card_with_attributes = card_body(&existing_number);
        card_with_attributes["metadata"] = json!({"customer": "7"});
        SERVER.create_token_ok(&application.keys.private, &card_with_attributes);
        let body = json!([card_body(&existing_number), card_body(&new_number)]);
        let request = || tokenize_with_idempotency_key(&application.key, "found", &body);
        let first = request().expect_status(200);
        assert_eq!(first[0]["_extras"]["deduplication_behavior"], behavior.as_str());
        assert_eq!(request().expect_status(200), without_cvcs(&first));

        application.set_rules(&json!([rule("/", Reveal, &["token:create"])]));
        let now = request().expect_status(200);
        let names: Vec<_> = now[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["_extras", "containers", "fingerprint", "id", "tenant_id", "type"]);
        assert_eq!(now[1], without_cvcs(&first)[1]);

        let without_update = json!([rule("/", Reveal, &["token:create", "token:read"])]);
        application.set_rules(&without_update);
        let includes_data = request().expect_status(200)[0].get("data").is_some();
        assert_eq!(includes_data, behavior == DeduplicationBehavior::ReadExisting);
    }
}

/// The details of an update need `token:read`. Metadata, masked data and the fingerprint can be from other
/// callers.
#[test]
fn replay_of_an_update_requires_the_read_permission() {
    for transform in [Reveal, Mask] {
        let may_read = json!([rule("/", transform, &["token:read", "token:update"])]);
        let application = ApplicationHarness::new(TenantSettings::default(), &may_read);
        let mut card = card_body(&unique_card_number());
        card["metadata"] = json!({"customer": "7"});
        let stored = SERVER.create_token_ok(&application.keys.private, &card);
        let path = format!("/tokens/{}", text_field(&stored, "id"));
        let request = || {
            let request = SERVER.request("PATCH", &path).key(&application.key);
            request.idempotency_key("repeated").merge_patch(&json!({"metadata": {"b": "1"}})).send()
        };
        let first = request().expect_status(200);
        assert_eq!(first["metadata"]["customer"], "7");
        assert_eq!(request().expect_status(200), without_cvcs(&first));

        application.set_rules(&json!([rule("/", transform, &["token:update"])]));
        request().expect_problem(403, "token:read");

        // Only the transform of `token:update` limits what an update shows.
        application.set_rules(&json!([
            rule("/", transform, &["token:update"]),
            rule("/", Transform::Redact, &["token:read"])
        ]));
        assert_eq!(request().expect_status(200), without_cvcs(&first));
    }
}

/// A response without any visible token is denied, as for a single token.
#[test]
fn replay_without_any_visible_token_is_denied() {
    let settings = TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
    let application =
        ApplicationHarness::new(settings, &json!([rule("/", Reveal, ALL_PERMISSIONS)]));
    let number = unique_card_number();
    SERVER.create_token_ok(&application.keys.private, &card_body(&number));
    let body = json!({"only": card_body(&number)});
    tokenize_with_idempotency_key(&application.key, "nothing-left", &body).expect_status(200);
    application.set_rules(&json!([rule("/", Reveal, &["token:create"])]));
    tokenize_with_idempotency_key(&application.key, "nothing-left", &body)
        .expect_problem(403, "token:read");
}

#[test]
fn public_key_replay_returns_the_same_masks() {
    let body = json!({"card": card_body(&unique_card_number()), "name": "Jo"});
    let first = tokenize_with_idempotency_key(&ACME.public, "browser", &body).expect_status(200);
    let replayed = tokenize_with_idempotency_key(&ACME.public, "browser", &body).expect_status(200);
    assert_eq!(replayed, first);
    let key = SERVER.key_with_rule(&ACME.tenant, "/", Mask, &[TokenCreate, TokenRead, TokenUpdate]);
    let first = tokenize_with_idempotency_key(&key, "browser", &body).expect_status(200);
    assert_eq!(tokenize_with_idempotency_key(&key, "browser", &body).expect_status(200), first);
}
