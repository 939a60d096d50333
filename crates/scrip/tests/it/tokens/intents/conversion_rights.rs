//! Converting or moving a token gives the caller no additional right.

use scrip_core::types::{
    ApplicationKind::Public,
    Permission::{
        ThreeDsSessionAuthenticate, ThreeDsSessionCreate, ThreeDsSessionRead, TokenCreate,
        TokenIntentCreate, TokenRead, TokenUpdate,
    },
    Transform::{Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, card_body, grant, text_field, unique_card_number,
};

/// Creates the key of an access session that reads all tokens with an id that begins with
/// `cust-7-`, and creates cards.
pub(crate) fn create_customer_session(keys: &TenantApiKeys) -> String {
    let rules = json!([
        {"description": "own cards", "priority": 1, "transform": "reveal",
            "permissions": ["token:read", "token:update"], "conditions":
            [{"attribute": "id", "operator": "starts_with", "value": "cust-7-"}]},
        {"description": "new cards", "priority": 2, "container": "/pci/", "transform": "mask",
            "permissions": ["token:create"]},
    ]);
    SERVER.create_access_session(&keys.public, &keys.private, &json!({"rules": rules}))
}

fn create_intent(key: &str) -> Value {
    let body = json!({"type": "card", "data": {"number": unique_card_number()}});
    SERVER.post(key, "/token-intents", &body).expect_status(201)
}

#[test]
fn access_session_cannot_convert_an_intent_under_an_id_that_it_may_reveal() {
    let session = create_customer_session(&ACME);
    let victim_intent = create_intent(&ACME.public);
    let convert_under_id = |id: Value| {
        let body = json!({"token_intent_id": victim_intent["id"], "id": id});
        SERVER.create_token(&session, &body)
    };
    convert_under_id(json!("cust-7-x")).expect_problem(403, "container");
    convert_under_id(json!("cust-7-{{ data.expiration_year }}")).expect_problem(403, "id");
    SERVER.get_token(&session, "cust-7-x").expect_status(404);
    convert_under_id(json!("cust-8-x")).expect_problem(403, "cannot choose id");
    SERVER.get_token(&session, "cust-8-x").expect_status(404);
    let converted = convert_under_id(Value::Null).expect_status(201);
    SERVER.get_token(&session, &text_field(&converted, "id")).expect_status(403);
}

#[test]
fn conversion_requires_rights_on_the_containers_of_the_intent() {
    let create_merchant_key = |name: &str, permissions: &[_]| {
        SERVER.key_with_rule(&ACME.tenant, &format!("/shop-{name}/"), Mask, permissions)
    };
    let intent_creator_key = create_merchant_key("b", &[TokenIntentCreate]);
    let other_merchant_key = create_merchant_key("a", &[TokenCreate, TokenRead]);
    let created = create_intent(&intent_creator_key);
    assert_eq!(created["containers"], json!(["/shop-b/"]));
    let conversion_body =
        |container: &str| json!({"token_intent_id": created["id"], "containers": [container]});
    SERVER
        .create_token(&other_merchant_key, &conversion_body("/shop-a/"))
        .expect_problem(403, "token:create");
    SERVER
        .create_token(&create_merchant_key("b", &[TokenCreate]), &conversion_body("/shop-b/"))
        .expect_status(201);
    // An intent without containers can be used by every caller that knows its id.
    let created = create_intent(&ACME.public);
    let body = json!({"token_intent_id": created["id"], "containers": ["/shop-a/"]});
    SERVER.create_token(&other_merchant_key, &body).expect_status(201);
}

#[test]
fn move_or_conversion_into_containers_with_threeds_rights_is_denied() {
    let id = SERVER.create_token_id(&ACME.private, &card_body(&unique_card_number()));
    let intent = create_intent(&ACME.public);
    let conversion_body = json!({"token_intent_id": intent["id"], "containers": ["/attacker/"]});
    for permission in [ThreeDsSessionCreate, ThreeDsSessionAuthenticate, ThreeDsSessionRead] {
        let rules = vec![
            grant("/pci/", Mask, &[TokenCreate, TokenRead, TokenUpdate]),
            grant("/attacker/", Mask, &[TokenCreate, TokenRead, TokenUpdate, permission]),
        ];
        let key = SERVER.key_with_rules(&ACME.tenant, rules);
        let container_patch = json!({"containers": ["/attacker/"]});
        SERVER.patch_token(&key, &id, &container_patch).expect_problem(403, "container");
        SERVER.create_token(&key, &conversion_body).expect_problem(403, "container");
    }
    // With equal rights in both containers the move is allowed.
    let permissions = [TokenCreate, TokenRead, TokenUpdate, ThreeDsSessionCreate];
    let rules = vec![grant("/pci/", Reveal, &permissions), grant("/shop/", Reveal, &permissions)];
    let key = SERVER.key_with_rules(&ACME.tenant, rules);
    SERVER.patch_token(&key, &id, &json!({"containers": ["/shop/"]})).expect_status(200);
    let permissions = [TokenCreate, TokenIntentCreate, ThreeDsSessionCreate];
    let public_key = SERVER.key_with_permissions(&ACME.tenant, Public, &permissions);
    let intent = create_intent(&public_key);
    SERVER.create_token(&public_key, &json!({"token_intent_id": intent["id"]})).expect_status(201);
}
