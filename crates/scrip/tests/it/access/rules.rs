//! Authority: keys, permissions, rules, transforms.

use scrip_core::policy::{
    ApplicationKind::{Management, Private, Public},
    Permission::{TokenCreate, TokenDelete, TokenRead, TokenUpdate, TokenUse},
    Settings,
    Transform::{Mask, Redact, Reveal},
};
use serde_json::json;

use crate::harness::server::{ACME, SHARED, card, grant, new_number};

#[test]
fn no_key_or_a_wrong_one_is_401() {
    let paths = [
        ("POST", "/tokens"),
        ("GET", "/tokens/x"),
        ("PATCH", "/tokens/x"),
        ("DELETE", "/tokens/x"),
    ];
    for (method, path) in paths {
        SHARED.ask(method, path).send().refused(401, "BT-API-KEY");
        SHARED.ask(method, path).key("key_test_us_pvt_WRONG").send().refused(401, "BT-API-KEY");
        SHARED.ask(method, path).key("").send().refused(401, "BT-API-KEY");
    }
}

#[test]
fn every_operation_needs_its_permission() {
    SHARED.created(&ACME.private, &json!({"id": "guarded", "type": "token", "data": 1}));
    let manager =
        SHARED.permissions(&ACME.tenant, Management, &[scrip_core::policy::Permission::TenantRead]);
    let wrong = [
        (
            "POST",
            "/tokens",
            "token:create",
            SHARED.permissions(&ACME.tenant, Private, &[TokenRead, TokenUpdate, TokenDelete]),
        ),
        (
            "GET",
            "/tokens/guarded",
            "token:read",
            SHARED.permissions(&ACME.tenant, Private, &[TokenCreate, TokenUpdate, TokenDelete]),
        ),
        (
            "PATCH",
            "/tokens/guarded",
            "token:update",
            SHARED.permissions(&ACME.tenant, Private, &[TokenCreate, TokenRead, TokenDelete]),
        ),
        (
            "DELETE",
            "/tokens/guarded",
            "token:delete",
            SHARED.permissions(&ACME.tenant, Private, &[TokenCreate, TokenRead, TokenUpdate]),
        ),
    ];
    for (method, path, permission, key) in &wrong {
        SHARED.ask(method, path).key(key).send().refused(403, permission);
        SHARED.ask(method, path).key(&manager).send().refused(403, permission);
    }
    assert_eq!(SHARED.get(&ACME.public, "guarded").status, 403);
}

#[test]
fn a_rule_reaches_its_container_and_below() {
    let all = [TokenCreate, TokenRead, TokenUpdate, TokenDelete];
    let key = SHARED.rules(&ACME.tenant, vec![grant("/pci/", Reveal, &all)]);
    let in_container =
        |container: &str| json!({"type": "token", "data": 1, "containers": [container]});
    assert_eq!(SHARED.create(&key, &in_container("/pci/high/")).status, 201);
    SHARED.create(&key, &in_container("/pci-other/")).refused(403, "token:create");
    SHARED.create(&key, &in_container("/")).refused(403, "token:create");
    let both = json!({"type": "token", "data": 1, "containers": ["/pci/", "/other/"]});
    SHARED.create(&key, &both).refused(403, "token:create");

    let outside = SHARED.created(&ACME.private, &in_container("/other/"));
    let id = outside["id"].as_str().unwrap();
    SHARED.get(&key, id).refused(403, "token:read");
    SHARED.patch(&key, id, &json!({})).refused(403, "token:update");
    SHARED.ask("DELETE", &format!("/tokens/{id}")).key(&key).send().refused(403, "token:delete");
}

#[test]
fn transforms_decide_what_is_shown() {
    let number = new_number();
    let token = SHARED.created(&ACME.private, &card(&number));
    let id = token["id"].as_str().unwrap();
    let read = |transform| SHARED.rules(&ACME.tenant, vec![grant("/", transform, &[TokenRead])]);

    let revealed = SHARED.get(&read(Reveal), id).json();
    assert_eq!(revealed["data"]["number"], number);
    assert_eq!(revealed["data"]["cvc"], "123");
    let masked = SHARED.get(&read(Mask), id).json();
    let expected = format!("XXXXXXXXXXXX{}", &number[12..]);
    assert_eq!(
        masked["data"],
        json!({"number": expected, "expiration_month": 7, "expiration_year": 2031})
    );
    let redacted = SHARED.get(&read(Redact), id).json();
    assert!(redacted.get("data").is_none());
    assert_eq!(redacted["card"], token["card"], "card details stay");

    let plain = SHARED.permissions(&ACME.tenant, Private, &[TokenRead, TokenUse]);
    assert_eq!(
        SHARED.get(&plain, id).json()["data"]["number"],
        expected,
        "a plain permission masks"
    );
}

#[test]
fn a_mask_cannot_become_a_way_to_read() {
    let number = new_number();
    let mut body = card(&number);
    body["mask"] = json!({"all": "{{ data | stringify }}", "number": "{{ data.number }}"});
    let token = SHARED.created(&ACME.public, &body);
    assert!(!token["data"].to_string().contains(&number));
    assert!(!token["data"].to_string().contains("123\""), "no cvc either");

    // A caller that may update but sees only masks cannot write itself a better mask.
    let id = token["id"].as_str().unwrap();
    let updates = SHARED.rules(&ACME.tenant, vec![grant("/", Mask, &[TokenRead, TokenUpdate])]);
    for (attribute, value) in [
        ("mask", json!("{{ data.number | last4 }}")),
        ("fingerprint_expression", json!("{{ data.number | last4 }}")),
        ("search_indexes", json!(["{{ data.number | last4 }}"])),
    ] {
        SHARED.patch(&updates, id, &json!({ attribute: value })).refused(403, attribute);
    }
    let same = json!({"mask": token["mask"], "metadata": {"a": "b"}});
    assert_eq!(SHARED.patch(&updates, id, &same).status, 200, "the same value changes nothing");
}

#[test]
fn a_move_must_be_allowed_at_both_ends_and_show_no_more() {
    let rules = || {
        vec![
            grant("/shown/", Reveal, &[TokenRead, TokenUpdate]),
            grant("/masked/", Mask, &[TokenRead, TokenUpdate]),
        ]
    };
    let key = SHARED.rules(&ACME.tenant, rules());
    let create = |container: &str| {
        let body = json!({"type": "social_security_number", "data": "123-45-6789", "containers": [container]});
        SHARED.created(&ACME.private, &body)["id"].as_str().unwrap().to_owned()
    };
    let to = |container: &str| json!({"containers": [container]});
    SHARED.patch(&key, &create("/masked/"), &to("/elsewhere/")).refused(403, "token:update");
    SHARED.patch(&key, &create("/masked/"), &to("/shown/")).refused(403, "sees more");
    let moved = SHARED.patch(&key, &create("/shown/"), &to("/masked/"));
    assert_eq!(moved.json()["data"], "XXX-XX-6789");
}

#[test]
fn a_right_to_use_is_no_right_to_see() {
    let mut rules = vec![
        grant("/used-a/", Mask, &[TokenRead, TokenUpdate]),
        grant("/used-b/", Reveal, &[TokenRead, TokenUpdate]),
    ];
    rules.push(grant("/", Reveal, &[TokenUse]));
    let key = SHARED.rules(&ACME.tenant, rules);
    let body = json!({"type": "social_security_number", "data": "123-45-6789", "containers": ["/used-a/"]});
    let id = SHARED.created(&ACME.private, &body)["id"].as_str().unwrap().to_owned();
    SHARED.patch(&key, &id, &json!({"containers": ["/used-b/"]})).refused(403, "sees more");
    SHARED.patch(&key, &id, &json!({"mask": "{{ data }}"})).refused(403, "mask");
}

#[test]
fn tenants_do_not_see_each_other() {
    let other = SHARED.tenant(Settings::default());
    let id = "in-both-tenants";
    SHARED.created(&ACME.private, &json!({"id": id, "type": "token", "data": "acme"}));
    SHARED.created(&other.private, &json!({"id": id, "type": "token", "data": "other"}));
    assert_eq!(SHARED.get(&other.private, id).json()["data"], "other");
    assert_eq!(
        SHARED.ask("DELETE", &format!("/tokens/{id}")).key(&other.private).send().status,
        204
    );
    assert_eq!(SHARED.get(&other.private, id).status, 404);
    assert_eq!(SHARED.get(&ACME.private, id).json()["data"], "acme");
}

#[test]
fn a_public_key_creates_and_updates_but_never_reads() {
    let number = new_number();
    let token = SHARED.created(&ACME.public, &card(&number));
    assert!(!token.to_string().contains(&number));
    assert!(token["data"].get("cvc").is_none());
    let id = token["id"].as_str().unwrap();
    let updated = SHARED.patch(&ACME.public, id, &json!({"data": {"expiration_month": 9}}));
    assert_eq!(updated.is(200).get("data"), None);
    assert_eq!(SHARED.get(&ACME.private, id).json()["data"]["expiration_month"], 9);
    assert!(!updated.text.contains(&number));
    SHARED.get(&ACME.public, id).refused(403, "token:read");
    let public = SHARED.permissions(&ACME.tenant, Public, &[TokenCreate]);
    SHARED.patch(&public, id, &json!({})).refused(403, "token:update");
}
