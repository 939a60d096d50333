//! A 3-D Secure session is bound to the number of its card.

use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, TestResponse, card_body, unique_card_number},
    threeds_sessions::requests::{SESSIONS, browser_info},
};

const NUMBER_CHANGED: &str = "number of the card was changed";

fn change_number(key: &str, token: &str) -> TestResponse {
    SERVER.patch_token(key, token, &json!({"data": {"number": unique_card_number()}}))
}

fn create_session_for(token: &str) -> String {
    let body = json!({"token_id": token, "device_info": browser_info()});
    SERVER.create_session_id(&ACME.private, &body)
}

fn get_session(session: &str) -> TestResponse {
    SERVER.get_session(&ACME.private, session)
}

/// Converts the intent and returns the id of the token.
fn convert_intent(intent: &str, attributes: &Value) -> String {
    let body = with_members(json!({"token_intent_id": intent}), attributes);
    SERVER.create_token_id(&ACME.private, &body)
}

#[test]
fn changed_number_is_never_sent_to_a_scheme() {
    let token = SERVER.card_token(&ACME);
    let session = create_session_for(&token);
    change_number(&ACME.private, &token).expect_status(200);
    let authenticate =
        |session: &str| SERVER.authenticate_as(&ACME.private, session, "Frictionless");
    authenticate(&session).expect_problem(409, NUMBER_CHANGED);
    let is_sent = SERVER.directory_servers.exchange(&session).is_some();
    assert!(!is_sent, "a message was sent to the directory server");
    // Without an authentication there is no outcome to withhold.
    get_session(&session).expect_status(200);
    authenticate(&create_session_for(&token)).expect_status(200);
}

#[test]
fn outcome_is_not_returned_after_the_number_changed() {
    let token = SERVER.card_token(&ACME);
    let session = create_session_for(&token);
    SERVER.authenticate_as(&ACME.private, &session, "Frictionless").expect_status(200);
    let authentication = get_session(&session).expect_status(200)["authentication"].take();
    assert_eq!(authentication["authentication_status"], "successful");
    // Other attributes may change.
    let patch = json!({"data": {"expiration_month": 9}});
    SERVER.patch_token(&ACME.private, &token, &patch).expect_status(200);
    get_session(&session).expect_status(200);
    change_number(&ACME.private, &token).expect_status(200);
    get_session(&session).expect_problem(409, NUMBER_CHANGED);
}

#[test]
fn challenge_result_is_not_returned_after_the_number_changed() {
    let token = SERVER.card_token(&ACME);
    let session = SERVER.start_challenge(&ACME, create_session_for(&token));
    SERVER.send_result(&session, "Y");
    SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
    change_number(&ACME.private, &token).expect_status(200);
    SERVER.get_challenge_result(&ACME.private, &session).expect_problem(409, NUMBER_CHANGED);
}

#[test]
fn new_card_with_a_deleted_id_does_not_return_the_outcome() {
    let mut body = card_body(&unique_card_number());
    body["id"] = json!(format!("swapped-{}", unique_card_number()));
    let token = SERVER.create_token_id(&ACME.private, &body);
    let session = create_session_for(&token);
    SERVER.authenticate_as(&ACME.private, &session, "Frictionless").expect_status(200);
    SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    get_session(&session).expect_status(200);
    body["data"]["number"] = json!(unique_card_number());
    SERVER.create_token_ok(&ACME.private, &body);
    get_session(&session).expect_problem(409, NUMBER_CHANGED);
}

#[test]
fn session_of_an_intent_continues_with_the_converted_token() {
    let intent = SERVER.create_card_intent(&ACME);
    let session = SERVER.create_browser_session_for(&ACME, &intent);
    let token = convert_intent(&intent, &json!({}));
    let outcome =
        SERVER.authenticate_as(&ACME.private, &session, "Frictionless").expect_status(200);
    assert_eq!(outcome["authentication_status"], "successful");
    get_session(&session).expect_status(200);
    // The use of the number is recorded for the token, because it was read from the token.
    let records =
        SERVER.get_path(&ACME.management, &format!("/logs?entity_id={token}")).expect_status(200);
    let is_use_record = |it: &Value| it["operation"] == "use_token" && it["outcome"] == "used";
    assert!(records["data"].as_array().unwrap().iter().any(is_use_record), "{records}");
    change_number(&ACME.private, &token).expect_status(200);
    get_session(&session).expect_problem(409, NUMBER_CHANGED);
}

#[test]
fn converting_an_intent_gives_its_session_the_containers_of_the_token() {
    let create_key_for = |container: &str| {
        let permissions = ["3ds:session:read", "3ds:session:authenticate"];
        let rule = json!({"container": container, "transform": "mask", "permissions": permissions});
        SERVER.create_application(&ACME.management, "private", &json!({"rules": [rule]})).key
    };
    let (intent_container_key, token_container_key) =
        (create_key_for("/pci/high/"), create_key_for("/merchant-a/"));
    let containers = json!({"containers": ["/pci/high/"]});
    let body = with_members(card_body(&unique_card_number()), &containers);
    let intent = SERVER.create_intent_id(&ACME.private, &body);
    let path = format!("{SESSIONS}/{}", SERVER.create_browser_session_for(&ACME, &intent));
    SERVER.get_path(&intent_container_key, &path).expect_status(200);
    SERVER.get_path(&token_container_key, &path).expect_problem(403, "3ds:session:read");
    let token = convert_intent(&intent, &json!({"containers": ["/merchant-a/"]}));
    SERVER.get_path(&intent_container_key, &path).expect_problem(403, "3ds:session:read");
    SERVER.get_path(&token_container_key, &path).expect_status(200);
    SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    SERVER.get_path(&intent_container_key, &path).expect_problem(403, "3ds:session:read");
    SERVER.get_path(&token_container_key, &path).expect_status(200);
}

#[test]
fn public_key_cannot_write_the_number_of_a_card_with_a_session() {
    let rights = json!({"permissions": ["token:update"]});
    let public_key = SERVER.create_application(&ACME.management, "public", &rights).key;
    let session = SERVER.create_access_session(&public_key, &ACME.private, &rights);
    let browsers = [public_key, session];
    let number = unique_card_number();
    let token = SERVER.token_with_number(&ACME, &number);
    for key in &browsers {
        change_number(key, &token).expect_status(200);
    }
    let same_number_patch = json!({"data": {"number": number}});
    SERVER.patch_token(&ACME.private, &token, &same_number_patch).expect_status(200);
    create_session_for(&token);
    for key in &browsers {
        change_number(key, &token).expect_problem(409, "3-D Secure session");
        // The same number is rejected too. A difference would confirm a guess.
        let response = SERVER.patch_token(key, &token, &same_number_patch);
        response.expect_problem(409, "3-D Secure session");
        let other_patch = json!({"data": {"expiration_month": 3}});
        SERVER.patch_token(key, &token, &other_patch).expect_status(200);
    }
    change_number(&ACME.private, &token).expect_status(200);

    let intent = SERVER.create_card_intent(&ACME);
    SERVER.create_browser_session_for(&ACME, &intent);
    let token = convert_intent(&intent, &json!({}));
    for key in &browsers {
        change_number(key, &token).expect_problem(409, "3-D Secure session");
    }
}
