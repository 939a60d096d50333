//! API keys, permissions, access rules and transforms.

use scrip_core::types::{
    ApplicationKind::{Private, Public},
    Permission::{TokenCreate, TokenDelete, TokenRead, TokenUpdate, TokenUse},
    Transform::{Mask, Redact, Reveal},
};
use serde_json::json;

use crate::{
    access::create_ssn_token,
    harness::server::{ACME, SERVER, card_body, grant, unique_card_number},
};

#[test]
fn rule_applies_to_its_container_and_descendants() {
    let permissions = [TokenCreate, TokenRead, TokenUpdate, TokenDelete];
    let key = SERVER.key_with_rule(&ACME.tenant, "/pci/", Reveal, &permissions);
    let in_container =
        |container: &str| json!({"type": "token", "data": 1, "containers": [container]});
    assert_eq!(SERVER.create_token(&key, &in_container("/pci/high/")).status, 201);
    SERVER.create_token(&key, &in_container("/pci-other/")).expect_problem(403, "token:create");
    SERVER.create_token(&key, &in_container("/")).expect_problem(403, "token:create");
    let both = json!({"type": "token", "data": 1, "containers": ["/pci/", "/other/"]});
    SERVER.create_token(&key, &both).expect_problem(403, "token:create");

    let id = SERVER.create_token_id(&ACME.private, &in_container("/other/"));
    SERVER.get_token(&key, &id).expect_problem(403, "token:read");
    SERVER.patch_token(&key, &id, &json!({})).expect_problem(403, "token:update");
    SERVER.delete(&key, &format!("/tokens/{id}")).expect_problem(403, "token:delete");
}

#[test]
fn transform_decides_which_data_is_returned() {
    let number = unique_card_number();
    let token = SERVER.create_token_ok(&ACME.private, &card_body(&number));
    let id = token["id"].as_str().unwrap();
    let create_reader_key =
        |transform| SERVER.key_with_rule(&ACME.tenant, "/", transform, &[TokenRead]);

    let revealed_token = SERVER.get_token(&create_reader_key(Reveal), id).json();
    assert_eq!(revealed_token["data"]["number"], number);
    assert_eq!(revealed_token["data"]["cvc"], "123");
    let masked_token = SERVER.get_token(&create_reader_key(Mask), id).json();
    let expected = format!("XXXXXXXXXXXX{}", &number[12..]);
    let masked_data = json!({"number": expected, "expiration_month": 7, "expiration_year": 2031});
    assert_eq!(masked_token["data"], masked_data);
    let redacted = SERVER.get_token(&create_reader_key(Redact), id).json();
    assert!(redacted.get("data").is_none());
    assert_eq!(redacted["card"], token["card"], "redaction must not remove card details");

    let key_without_rules =
        SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenRead, TokenUse]);
    let shown = SERVER.get_token(&key_without_rules, id).json();
    assert_eq!(shown["data"]["number"], expected, "a plain permission must mask data");
}

#[test]
fn caller_without_reveal_right_cannot_reveal_data_by_changing_the_mask() {
    let number = unique_card_number();
    let mut body = card_body(&number);
    body["mask"] = json!({"all": "{{ data | stringify }}", "number": "{{ data.number }}"});
    let token = SERVER.create_token_ok(&ACME.public, &body);
    assert!(!token["data"].to_string().contains(&number));
    assert!(!token["data"].to_string().contains("123\""), "the response contains the CVC");

    // A caller that has the update permission but reads only masks cannot write a mask that reveals
    // more.
    let id = token["id"].as_str().unwrap();
    let updater_key = SERVER.key_with_rule(&ACME.tenant, "/", Mask, &[TokenRead, TokenUpdate]);
    for (attribute, value) in [
        ("mask", json!("{{ data.number | last4 }}")),
        ("fingerprint_expression", json!("{{ data.number | last4 }}")),
        ("search_indexes", json!(["{{ data.number | last4 }}"])),
    ] {
        let patch = json!({ attribute: value });
        SERVER.patch_token(&updater_key, id, &patch).expect_problem(403, attribute);
    }
    let unchanged_mask_patch = json!({"mask": token["mask"], "metadata": {"a": "b"}});
    let response = SERVER.patch_token(&updater_key, id, &unchanged_mask_patch);
    assert_eq!(response.status, 200, "writing the same value must be allowed");
}

#[test]
fn move_requires_rights_in_both_containers_and_no_stronger_transform() {
    let rules = vec![
        grant("/clear/", Reveal, &[TokenRead, TokenUpdate]),
        grant("/masked/", Mask, &[TokenRead, TokenUpdate]),
    ];
    let key = SERVER.key_with_rules(&ACME.tenant, rules);
    let move_token = |from: &str, to: &str| {
        SERVER.patch_token(&key, &create_ssn_token(from), &json!({"containers": [to]}))
    };
    move_token("/masked/", "/elsewhere/").expect_problem(403, "token:update");
    move_token("/masked/", "/clear/").expect_problem(403, "sees more");
    assert_eq!(move_token("/clear/", "/masked/").json()["data"], "XXX-XX-6789");
}

#[test]
fn token_use_permission_does_not_allow_a_move_that_reveals_more() {
    let rules = vec![
        grant("/used-a/", Mask, &[TokenRead, TokenUpdate]),
        grant("/used-b/", Reveal, &[TokenRead, TokenUpdate]),
        grant("/", Reveal, &[TokenUse]),
    ];
    let key = SERVER.key_with_rules(&ACME.tenant, rules);
    let id = create_ssn_token("/used-a/");
    let container_patch = json!({"containers": ["/used-b/"]});
    SERVER.patch_token(&key, &id, &container_patch).expect_problem(403, "sees more");
    SERVER.patch_token(&key, &id, &json!({"mask": "{{ data }}"})).expect_problem(403, "mask");
}

#[test]
fn tokens_of_tenants_are_isolated() {
    let other_tenant_keys = SERVER.create_default_tenant();
    let id = "in-both-tenants";
    SERVER.create_token_ok(&ACME.private, &json!({"id": id, "type": "token", "data": "acme"}));
    let body = json!({"id": id, "type": "token", "data": "other"});
    SERVER.create_token_ok(&other_tenant_keys.private, &body);
    assert_eq!(SERVER.get_token(&other_tenant_keys.private, id).json()["data"], "other");
    let path = format!("/tokens/{id}");
    assert_eq!(SERVER.delete(&other_tenant_keys.private, &path).status, 204);
    assert_eq!(SERVER.get_token(&other_tenant_keys.private, id).status, 404);
    assert_eq!(SERVER.get_token(&ACME.private, id).json()["data"], "acme");
}

#[test]
fn public_key_creates_and_updates_but_cannot_read() {
    let number = unique_card_number();
    let token = SERVER.create_token_ok(&ACME.public, &card_body(&number));
    assert!(!token.to_string().contains(&number));
    assert!(token["data"].get("cvc").is_none());
    let id = token["id"].as_str().unwrap();
    let updated = SERVER.patch_token(&ACME.public, id, &json!({"data": {"expiration_month": 9}}));
    assert_eq!(updated.expect_status(200).get("data"), None);
    assert_eq!(SERVER.get_token(&ACME.private, id).json()["data"]["expiration_month"], 9);
    assert!(!updated.text.contains(&number));
    SERVER.get_token(&ACME.public, id).expect_problem(403, "token:read");
    let create_only_key = SERVER.key_with_permissions(&ACME.tenant, Public, &[TokenCreate]);
    SERVER.patch_token(&create_only_key, id, &json!({})).expect_problem(403, "token:update");
}
