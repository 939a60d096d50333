//! Writes to the number of a card with a 3-D Secure session: they invalidate the session and must
//! not disclose the number.

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{
        ApplicationKind::Private,
        Permission::{
            ThreeDsSessionAuthenticate, ThreeDsSessionCreate, ThreeDsSessionRead, TokenCreate,
            TokenDelete, TokenIntentCreate, TokenRead, TokenUpdate,
        },
    },
};
use scrip_testing::requests::{payment, with_members};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, TenantApiKeys, card_body, unique_card_number},
    threeds_sessions::requests::{SESSIONS, browser_info},
};

const NUMBER_CHANGED: &str = "number of the card was changed";
const SESSION_EXISTS: &str = "3-D Secure session";

/// Creates the API key of a backend that has permissions but no access rules. Such a key reads
/// masks only.
fn create_key_without_reveal(keys: &TenantApiKeys) -> String {
    let tokens = [TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenIntentCreate];
    let sessions = [ThreeDsSessionCreate, ThreeDsSessionAuthenticate, ThreeDsSessionRead];
    SERVER.key_with_permissions(&keys.tenant, Private, &[tokens.as_slice(), &sessions].concat())
}

/// Creates a tenant that updates the existing token when a create request finds a duplicate.
fn create_updating_tenant() -> TenantApiKeys {
    SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    })
}

/// Creates a public key and the key of an access session, both with the permissions of a browser.
fn create_browser_keys(keys: &TenantApiKeys) -> [String; 2] {
    let rights = json!({"permissions": ["token:create", "token:update"]});
    let session = SERVER.create_access_session(&keys.public, &keys.private, &rights);
    [keys.public.clone(), session]
}

fn create_session_for(key: &str, token: &str) -> String {
    SERVER.create_session_id(key, &json!({"token_id": token, "device_info": browser_info()}))
}

fn authenticated_session(key: &str, token: &str) -> String {
    let session = create_session_for(key, token);
    SERVER.authenticate_as(key, &session, "Frictionless").expect_status(200);
    session
}

#[track_caller]
fn expect_changed_number(key: &str, session: &str) {
    SERVER.get_session(key, session).expect_problem(409, NUMBER_CHANGED);
}

fn write_number(key: &str, token: &str, number: &str) {
    SERVER.patch_token(key, token, &json!({"data": {"number": number}})).expect_status(200);
}

/// Returns the body of a card that is deduplicated by its customer, independent of its number.
fn customer_card_body(number: &str) -> Value {
    let fingerprint_expression = "{{ metadata.customer }}";
    let attributes = json!({"fingerprint_expression": fingerprint_expression,
        "metadata": {"customer": "c1"}});
    with_members(card_body(number), &attributes)
}

#[test]
fn session_never_confirms_a_number_guessed_without_a_reveal_right() {
    let (key_without_reveal, number) = (create_key_without_reveal(&ACME), unique_card_number());
    let token = SERVER.token_with_number(&ACME, &number);
    let session = create_session_for(&key_without_reveal, &token);
    SERVER.get_challenge_result(&key_without_reveal, &session).expect_problem(404, "");
    let outcome = authenticated_session(&key_without_reveal, &token);
    let challenged_session =
        SERVER.start_challenge(&ACME, create_session_for(&key_without_reveal, &token));
    SERVER.send_result(&challenged_session, "Y");
    // The last guess is right.
    for guess in [&unique_card_number(), &unique_card_number(), &number] {
        write_number(&key_without_reveal, &token, guess);
        for session in [&session, &challenged_session] {
            let result = SERVER.get_challenge_result(&key_without_reveal, session);
            result.expect_problem(409, NUMBER_CHANGED);
        }
        let response = SERVER.authenticate_as(&key_without_reveal, &session, "Frictionless");
        response.expect_problem(409, NUMBER_CHANGED);
        expect_changed_number(&key_without_reveal, &outcome);
        expect_changed_number(&key_without_reveal, &challenged_session);
    }
    let is_sent = SERVER.directory_servers.exchange(&session).is_some();
    assert!(!is_sent, "a message was sent to the directory server");
    // A new session is bound to the number that was written last.
    let new_session = authenticated_session(&key_without_reveal, &token);
    SERVER.get_session(&key_without_reveal, &new_session).expect_status(200);
}

#[test]
fn same_number_written_with_a_reveal_right_keeps_the_outcome() {
    let number = unique_card_number();
    let token = SERVER.token_with_number(&ACME, &number);
    let session = authenticated_session(&ACME.private, &token);
    write_number(&ACME.private, &token, &number);
    SERVER.get_session(&ACME.private, &session).expect_status(200);
    write_number(&ACME.private, &token, &unique_card_number());
    expect_changed_number(&ACME.private, &session);
    write_number(&ACME.private, &token, &number);
    SERVER.get_session(&ACME.private, &session).expect_status(200);
}

#[test]
fn new_card_with_a_deleted_id_confirms_no_guess() {
    let (key_without_reveal, number) = (create_key_without_reveal(&ACME), unique_card_number());
    let mut body = card_body(&number);
    body["id"] = json!(format!("again-{}", unique_card_number()));
    let token = SERVER.create_token_id(&ACME.private, &body);
    let session = authenticated_session(&key_without_reveal, &token);
    for guess in [&unique_card_number(), &number] {
        SERVER.delete(&key_without_reveal, &format!("/tokens/{token}")).expect_status(204);
        body["data"]["number"] = json!(guess);
        SERVER.create_token_ok(&key_without_reveal, &body);
        expect_changed_number(&key_without_reveal, &session);
    }
    // A card created from an intent does not confirm the guess either.
    SERVER.delete(&key_without_reveal, &format!("/tokens/{token}")).expect_status(204);
    let intent = SERVER.create_intent_id(&key_without_reveal, &card_body(&number));
    SERVER.create_token_ok(&key_without_reveal, &json!({"token_intent_id": intent, "id": token}));
    expect_changed_number(&key_without_reveal, &session);
}

#[test]
fn create_that_updates_by_default_fingerprint_keeps_the_outcome() {
    let keys = create_updating_tenant();
    let (key_without_reveal, number) = (create_key_without_reveal(&keys), unique_card_number());
    let token = SERVER.token_with_number(&keys, &number);
    let session = authenticated_session(&key_without_reveal, &token);
    let [public_key, session_key] = create_browser_keys(&keys);
    for key in [&key_without_reveal, &keys.private, &public_key, &session_key] {
        let duplicate = SERVER.create_token_ok(key, &card_body(&number));
        assert_eq!(duplicate["id"], token);
        assert_eq!(duplicate["_extras"]["deduplication_behavior"], "update_existing");
        SERVER.get_session(&key_without_reveal, &session).expect_status(200);
    }
}

#[test]
fn create_that_updates_by_metadata_confirms_no_guess() {
    let keys = create_updating_tenant();
    let (key_without_reveal, number) = (create_key_without_reveal(&keys), unique_card_number());
    let token = SERVER.create_token_id(&key_without_reveal, &customer_card_body(&number));
    let session = authenticated_session(&key_without_reveal, &token);
    for guess in [&unique_card_number(), &number] {
        let id = SERVER.create_token_id(&key_without_reveal, &customer_card_body(guess));
        assert_eq!(id, token);
        expect_changed_number(&key_without_reveal, &session);
    }
}

#[test]
fn public_key_create_cannot_update_the_number_of_a_card_with_a_session() {
    let keys = create_updating_tenant();
    let (number, other_number) = (unique_card_number(), unique_card_number());
    let token = SERVER.create_token_id(&keys.public, &customer_card_body(&number));
    for key in &create_browser_keys(&keys) {
        assert_eq!(SERVER.create_token_ok(key, &customer_card_body(&number))["id"], token);
    }
    let session = authenticated_session(&keys.private, &token);
    for key in &create_browser_keys(&keys) {
        // The same number is rejected too. A difference would confirm a guess.
        for number in [&other_number, &number] {
            let response = SERVER.create_token(key, &customer_card_body(number));
            response.expect_problem(409, SESSION_EXISTS);
            let tokenize_body = json!({"first": card_body(&unique_card_number()),
                "second": customer_card_body(number)});
            SERVER.post(key, "/tokenize", &tokenize_body).expect_problem(409, SESSION_EXISTS);
        }
    }
    let stored_token = SERVER.get_token(&keys.private, &token).expect_status(200);
    assert_eq!(stored_token["data"]["number"], number);
    SERVER.get_session(&keys.private, &session).expect_status(200);
    // A backend can replace the number. Then the outcome is no longer returned.
    let id = SERVER.create_token_id(&keys.private, &customer_card_body(&other_number));
    assert_eq!(id, token);
    expect_changed_number(&keys.private, &session);
}

#[test]
fn session_of_an_intent_continues_with_the_existing_duplicate_card() {
    let keys = create_updating_tenant();
    let (key_without_reveal, number) = (create_key_without_reveal(&keys), unique_card_number());
    let token = SERVER.token_with_number(&keys, &number);
    let card_session = authenticated_session(&key_without_reveal, &token);
    let only_creates =
        SERVER.key_with_permissions(&keys.tenant, Private, &[TokenCreate, TokenRead]);
    let mut intent_sessions = Vec::new();
    // The existing card is updated, or only read.
    for key in [&key_without_reveal, &only_creates] {
        let intent = SERVER.create_intent_id(&key_without_reveal, &card_body(&number));
        let session = SERVER.create_browser_session_for(&keys, &intent);
        assert_eq!(SERVER.create_token_ok(key, &json!({"token_intent_id": intent}))["id"], token);
        let response = SERVER.authenticate_as(&key_without_reveal, &session, "Frictionless");
        response.expect_status(200);
        intent_sessions.push(session);
    }
    for session in intent_sessions.iter().chain([&card_session]) {
        SERVER.get_session(&key_without_reveal, session).expect_status(200);
    }
    write_number(&key_without_reveal, &token, &number);
    for session in intent_sessions.iter().chain([&card_session]) {
        expect_changed_number(&key_without_reveal, session);
    }
}

#[test]
fn session_never_confirms_a_number_guessed_after_a_conversion() {
    let (key_without_reveal, number) = (create_key_without_reveal(&ACME), unique_card_number());
    let intent = SERVER.create_intent_id(&ACME.private, &card_body(&number));
    let session = SERVER.create_browser_session_for(&ACME, &intent);
    let token = SERVER.create_token_id(&key_without_reveal, &json!({"token_intent_id": intent}));
    SERVER.get_challenge_result(&key_without_reveal, &session).expect_problem(404, "");
    for guess in [&unique_card_number(), &number] {
        write_number(&key_without_reveal, &token, guess);
        let result = SERVER.get_challenge_result(&key_without_reveal, &session);
        result.expect_problem(409, NUMBER_CHANGED);
    }
}

#[test]
fn repeated_authenticate_is_not_replayed_once_the_number_was_changed() {
    let token = SERVER.card_token(&ACME);
    let session = create_session_for(&ACME.private, &token);
    let path = format!("{SESSIONS}/{session}/authenticate");
    let request = |path: &str| {
        SERVER.request("POST", path).key(&ACME.private).idempotency_key("authenticate once")
    };
    let send_authenticate = || request(&path).json(&payment("Frictionless")).send();
    let first = send_authenticate().expect_status(200);
    assert!(first["authentication_value"].is_string(), "{first}");
    assert_eq!(send_authenticate().expect_status(200), first);
    write_number(&ACME.private, &token, &unique_card_number());
    expect_changed_number(&ACME.private, &session);
    send_authenticate().expect_problem(409, NUMBER_CHANGED);
    // Another route does not replay the response either.
    request("/tokens").json(&card_body(&unique_card_number())).send().expect_status(422);
    SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    assert_eq!(send_authenticate().expect_status(200), first);
}
