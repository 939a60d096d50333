//! A conversion or a move gives the caller no right that it did not have before.

use scrip_core::policy::{
    ApplicationKind::Public,
    Permission::{
        ThreeDsSessionAuthenticate, ThreeDsSessionCreate, ThreeDsSessionRead, TokenCreate,
        TokenIntentCreate, TokenRead, TokenUpdate,
    },
    Transform::{Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TenantApiKeys, card_body, grant, text_field, unique_card_number,
};

/// The key of an access session that sees all tokens whose id begins with `cust-7-`, and creates
/// cards.
pub(crate) fn create_customer_session(keys: &TenantApiKeys) -> String {
    let started = SHARED_SERVER.post(&keys.public, "/sessions", &json!({})).json();
    let rules = json!([
        {"description": "own cards", "priority": 1, "transform": "reveal",
            "permissions": ["token:read", "token:update"], "conditions":
            [{"attribute": "id", "operator": "starts_with", "value": "cust-7-"}]},
        {"description": "new cards", "priority": 2, "container": "/pci/", "transform": "mask",
            "permissions": ["token:create"]},
    ]);
    let grant = json!({"nonce": started["nonce"], "rules": rules});
    let authorized = SHARED_SERVER.post(&keys.private, "/sessions/authorize", &grant);
    assert!(matches!(authorized.status, 200 | 204), "{}", authorized.status);
    text_field(&started, "session_key")
}

fn create_intent(key: &str) -> Value {
    let body = json!({"type": "card", "data": {"number": unique_card_number()}});
    SHARED_SERVER.post(key, "/token-intents", &body).expect_status(201)
}

#[test]
fn access_session_cannot_convert_an_intent_under_an_id_that_it_may_reveal() {
    let session = create_customer_session(&ACME);
    let victim = create_intent(&ACME.public);
    let convert = |id: Value| {
        let body = json!({"token_intent_id": victim["id"], "id": id});
        SHARED_SERVER.create_token(&session, &body)
    };
    convert(json!("cust-7-x")).expect_problem(403, "container");
    convert(json!("cust-7-{{ data.expiration_year }}")).expect_problem(403, "id");
    SHARED_SERVER.get_token(&session, "cust-7-x").expect_status(404);
    convert(json!("cust-8-x")).expect_status(201);
    SHARED_SERVER.get_token(&session, "cust-8-x").expect_status(403);
}

#[test]
fn conversion_requires_rights_on_the_containers_of_the_intent() {
    let own = |name: &str, may: &[_]| {
        SHARED_SERVER
            .key_with_rules(&ACME.tenant, vec![grant(&format!("/shop-{name}/"), Mask, may)])
    };
    let creator = own("b", &[TokenIntentCreate]);
    let stranger = own("a", &[TokenCreate, TokenRead]);
    let created = create_intent(&creator);
    assert_eq!(created["containers"], json!(["/shop-b/"]));
    let convert = |to: &str| json!({"token_intent_id": created["id"], "containers": [to]});
    SHARED_SERVER.create_token(&stranger, &convert("/shop-a/")).expect_problem(403, "token:create");
    SHARED_SERVER.create_token(&own("b", &[TokenCreate]), &convert("/shop-b/")).expect_status(201);
    // Without containers of its own an intent is everybody's who knows its id.
    let created = create_intent(&ACME.public);
    let body = json!({"token_intent_id": created["id"], "containers": ["/shop-a/"]});
    SHARED_SERVER.create_token(&stranger, &body).expect_status(201);
}

#[test]
fn move_or_conversion_into_containers_with_threeds_rights_is_denied() {
    let created = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&unique_card_number()));
    let waiting = create_intent(&ACME.public);
    let convert = json!({"token_intent_id": waiting["id"], "containers": ["/attacker/"]});
    for permission in [ThreeDsSessionCreate, ThreeDsSessionAuthenticate, ThreeDsSessionRead] {
        let mover = SHARED_SERVER.key_with_rules(
            &ACME.tenant,
            vec![
                grant("/pci/", Mask, &[TokenCreate, TokenRead, TokenUpdate]),
                grant("/attacker/", Mask, &[TokenCreate, TokenRead, TokenUpdate, permission]),
            ],
        );
        let patch = json!({"containers": ["/attacker/"]});
        SHARED_SERVER
            .patch_token(&mover, &text_field(&created, "id"), &patch)
            .expect_problem(403, "container");
        SHARED_SERVER.create_token(&mover, &convert).expect_problem(403, "container");
    }
    // With the same rights in both containers it is a move like any other.
    let rights = [TokenCreate, TokenRead, TokenUpdate, ThreeDsSessionCreate];
    let rules = vec![grant("/pci/", Reveal, &rights), grant("/shop/", Reveal, &rights)];
    let mover = SHARED_SERVER.key_with_rules(&ACME.tenant, rules);
    SHARED_SERVER
        .patch_token(&mover, &text_field(&created, "id"), &json!({"containers": ["/shop/"]}))
        .expect_status(200);
    let browser = SHARED_SERVER.key_with_permissions(
        &ACME.tenant,
        Public,
        &[TokenCreate, ThreeDsSessionCreate],
    );
    SHARED_SERVER
        .create_token(&browser, &json!({"token_intent_id": waiting["id"]}))
        .expect_status(201);
}
