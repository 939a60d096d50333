//! A conversion or a move gives the caller no right that it did not have before.

use scrip_core::policy::{
    ApplicationKind::Public,
    Permission::{
        SessionAuthenticate, SessionCreate, SessionRead, TokenCreate, TokenIntentCreate, TokenRead,
        TokenUpdate,
    },
    Transform::{Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, SHARED, card, grant, new_number, text};

/// The key of an access session that sees all tokens whose id begins with `cust-7-`, and creates
/// cards.
pub(crate) fn session_of_customer(keys: &Keys) -> String {
    let begun = SHARED.post(&keys.public, "/sessions", &json!({})).json();
    let rules = json!([
        {"description": "own cards", "priority": 1, "transform": "reveal",
            "permissions": ["token:read", "token:update"], "conditions":
            [{"attribute": "id", "operator": "starts_with", "value": "cust-7-"}]},
        {"description": "new cards", "priority": 2, "container": "/pci/", "transform": "mask",
            "permissions": ["token:create"]},
    ]);
    let grant = json!({"nonce": begun["nonce"], "rules": rules});
    let authorized = SHARED.post(&keys.private, "/sessions/authorize", &grant);
    assert!(matches!(authorized.status, 200 | 204), "{}", authorized.status);
    text(&begun, "session_key")
}

fn intent(key: &str) -> Value {
    let body = json!({"type": "card", "data": {"number": new_number()}});
    SHARED.post(key, "/token-intents", &body).is(201)
}

#[test]
fn access_session_cannot_convert_an_intent_under_an_id_that_it_may_reveal() {
    let session = session_of_customer(&ACME);
    let victim = intent(&ACME.public);
    let convert = |id: Value| {
        let body = json!({"token_intent_id": victim["id"], "id": id});
        SHARED.create(&session, &body)
    };
    convert(json!("cust-7-x")).refused(403, "container");
    convert(json!("cust-7-{{ data.expiration_year }}")).refused(403, "id");
    SHARED.get(&session, "cust-7-x").is(404);
    convert(json!("cust-8-x")).is(201);
    SHARED.get(&session, "cust-8-x").is(403);
}

#[test]
fn intent_in_chosen_containers_is_not_converted_without_a_right_there() {
    let own = |name: &str, may: &[_]| {
        SHARED.rules(&ACME.tenant, vec![grant(&format!("/shop-{name}/"), Mask, may)])
    };
    let creator = own("b", &[TokenIntentCreate]);
    let stranger = own("a", &[TokenCreate, TokenRead]);
    let made = intent(&creator);
    assert_eq!(made["containers"], json!(["/shop-b/"]));
    let convert = |to: &str| json!({"token_intent_id": made["id"], "containers": [to]});
    SHARED.create(&stranger, &convert("/shop-a/")).refused(403, "token:create");
    SHARED.create(&own("b", &[TokenCreate]), &convert("/shop-b/")).is(201);
    // Without containers of its own an intent is everybody's who knows its id.
    let made = intent(&ACME.public);
    let body = json!({"token_intent_id": made["id"], "containers": ["/shop-a/"]});
    SHARED.create(&stranger, &body).is(201);
}

#[test]
fn move_or_conversion_into_containers_of_threeds_rights_is_refused() {
    let made = SHARED.created(&ACME.private, &card(&new_number()));
    let waiting = intent(&ACME.public);
    let convert = json!({"token_intent_id": waiting["id"], "containers": ["/attacker/"]});
    for permission in [SessionCreate, SessionAuthenticate, SessionRead] {
        let mover = SHARED.rules(
            &ACME.tenant,
            vec![
                grant("/pci/", Mask, &[TokenCreate, TokenRead, TokenUpdate]),
                grant("/attacker/", Mask, &[TokenCreate, TokenRead, TokenUpdate, permission]),
            ],
        );
        let patch = json!({"containers": ["/attacker/"]});
        SHARED.patch(&mover, &text(&made, "id"), &patch).refused(403, "container");
        SHARED.create(&mover, &convert).refused(403, "container");
    }
    // With the same rights in both containers it is a move like any other.
    let rights = [TokenCreate, TokenRead, TokenUpdate, SessionCreate];
    let rules = vec![grant("/pci/", Reveal, &rights), grant("/shop/", Reveal, &rights)];
    let mover = SHARED.rules(&ACME.tenant, rules);
    SHARED.patch(&mover, &text(&made, "id"), &json!({"containers": ["/shop/"]})).is(200);
    let browser = SHARED.permissions(&ACME.tenant, Public, &[TokenCreate, SessionCreate]);
    SHARED.create(&browser, &json!({"token_intent_id": waiting["id"]})).is(201);
}
