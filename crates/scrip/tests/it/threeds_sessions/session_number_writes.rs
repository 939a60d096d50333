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
use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{
        ACME, SERVER, TenantApiKeys, TestResponse, card_body, text_field, unique_card_number,
    },
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
    let session = SERVER.post_empty(&keys.public, "/sessions").expect_status(201);
    let authorization =
        json!({"nonce": session["nonce"], "permissions": ["token:create", "token:update"]});
    SERVER.post(&keys.private, "/sessions/authorize", &authorization).expect_status(204);
    [keys.public.clone(), text_field(&session, "session_key")]
}

fn create_session_for(key: &str, token: &str) -> String {
    text_field(
        &SERVER.create_session(key, &json!({"token_id": token, "device_info": browser_info()})),
        "id",
    )
}

fn authenticated_session(key: &str, token: &str) -> String {
    let session = create_session_for(key, token);
    SERVER.authenticate(key, &session, &payment("Frictionless")).expect_status(200);
    session
}

fn get_session(key: &str, session: &str) -> TestResponse {
    SERVER.get_path(key, &format!("{SESSIONS}/{session}"))
}

fn write_number(key: &str, token: &str, number: &str) {
    SERVER.patch_token(key, token, &json!({"data": {"number": number}})).expect_status(200);
}

/// Returns the body of a card that is deduplicated by its customer, independent of its number.
fn customer_card_body(number: &str) -> Value {
    let mut body = card_body(number);
    body["fingerprint_expression"] = json!("{{ metadata.customer }}");
    body["metadata"] = json!({"customer": "c1"});
    body
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
        SERVER
            .get_challenge_result(&key_without_reveal, &session)
            .expect_problem(409, NUMBER_CHANGED);
        SERVER
            .get_challenge_result(&key_without_reveal, &challenged_session)
            .expect_problem(409, NUMBER_CHANGED);
        SERVER
            .authenticate(&key_without_reveal, &session, &payment("Frictionless"))
            .expect_problem(409, NUMBER_CHANGED);
        get_session(&key_without_reveal, &outcome).expect_problem(409, NUMBER_CHANGED);
        get_session(&key_without_reveal, &challenged_session).expect_problem(409, NUMBER_CHANGED);
    }
    assert!(
        SERVER.directory_servers.exchange(&session).is_none(),
        "a message was sent to the directory server"
    );
    // A new session is bound to the number that was written last.
    get_session(&key_without_reveal, &authenticated_session(&key_without_reveal, &token))
        .expect_status(200);
}

#[test]
fn same_number_written_with_a_reveal_right_keeps_the_outcome() {
    let number = unique_card_number();
    let token = SERVER.token_with_number(&ACME, &number);
    let session = authenticated_session(&ACME.private, &token);
    write_number(&ACME.private, &token, &number);
    get_session(&ACME.private, &session).expect_status(200);
    write_number(&ACME.private, &token, &unique_card_number());
    get_session(&ACME.private, &session).expect_problem(409, NUMBER_CHANGED);
    write_number(&ACME.private, &token, &number);
    get_session(&ACME.private, &session).expect_status(200);
}

#[test]
fn new_card_with_a_deleted_id_confirms_no_guess() {
    let (key_without_reveal, number) = (create_key_without_reveal(&ACME), unique_card_number());
    let mut body = card_body(&number);
    body["id"] = json!(format!("again-{}", unique_card_number()));
    let token = text_field(&SERVER.create_token_ok(&ACME.private, &body), "id");
    let session = authenticated_session(&key_without_reveal, &token);
    for guess in [&unique_card_number(), &number] {
        SERVER.delete(&key_without_reveal, &format!("/tokens/{token}")).expect_status(204);
        body["data"]["number"] = json!(guess);
        SERVER.create_token_ok(&key_without_reveal, &body);
        get_session(&key_without_reveal, &session).expect_problem(409, NUMBER_CHANGED);
    }
    // A card created from an intent does not confirm the guess either.
    SERVER.delete(&key_without_reveal, &format!("/tokens/{token}")).expect_status(204);
    let intent = text_field(
        &SERVER.post(&key_without_reveal, "/token-intents", &card_body(&number)).expect_status(201),
        "id",
    );
    SERVER.create_token_ok(&key_without_reveal, &json!({"token_intent_id": intent, "id": token}));
    get_session(&key_without_reveal, &session).expect_problem(409, NUMBER_CHANGED);
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
        get_session(&key_without_reveal, &session).expect_status(200);
    }
}

#[test]
fn create_that_updates_by_metadata_confirms_no_guess() {
    let keys = create_updating_tenant();
    let (key_without_reveal, number) = (create_key_without_reveal(&keys), unique_card_number());
    let token = text_field(
        &SERVER.create_token_ok(&key_without_reveal, &customer_card_body(&number)),
        "id",
    );
    let session = authenticated_session(&key_without_reveal, &token);
    for guess in [&unique_card_number(), &number] {
        assert_eq!(
            SERVER.create_token_ok(&key_without_reveal, &customer_card_body(guess))["id"],
            token
        );
        get_session(&key_without_reveal, &session).expect_problem(409, NUMBER_CHANGED);
    }
}

#[test]
fn public_key_create_cannot_update_the_number_of_a_card_with_a_session() {
    let keys = create_updating_tenant();
    let (number, other_number) = (unique_card_number(), unique_card_number());
    let token =
        text_field(&SERVER.create_token_ok(&keys.public, &customer_card_body(&number)), "id");
    for key in &create_browser_keys(&keys) {
        assert_eq!(SERVER.create_token_ok(key, &customer_card_body(&number))["id"], token);
    }
    let session = authenticated_session(&keys.private, &token);
    for key in &create_browser_keys(&keys) {
        // The same number is rejected too. A difference would confirm a guess.
        for number in [&other_number, &number] {
            SERVER
                .create_token(key, &customer_card_body(number))
                .expect_problem(409, SESSION_EXISTS);
            let tokenize_body = json!({"first": card_body(&unique_card_number()),
                "second": customer_card_body(number)});
            SERVER.post(key, "/tokenize", &tokenize_body).expect_problem(409, SESSION_EXISTS);
        }
    }
    let stored_token = SERVER.get_token(&keys.private, &token).expect_status(200);
    assert_eq!(stored_token["data"]["number"], number);
    get_session(&keys.private, &session).expect_status(200);
    // A backend can replace the number. Then the outcome is no longer returned.
    assert_eq!(
        SERVER.create_token_ok(&keys.private, &customer_card_body(&other_number))["id"],
        token
    );
    get_session(&keys.private, &session).expect_problem(409, NUMBER_CHANGED);
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
        let intent = text_field(
            &SERVER
                .post(&key_without_reveal, "/token-intents", &card_body(&number))
                .expect_status(201),
            "id",
        );
        let session = SERVER.create_browser_session_for(&keys, &intent);
        assert_eq!(SERVER.create_token_ok(key, &json!({"token_intent_id": intent}))["id"], token);
        SERVER
            .authenticate(&key_without_reveal, &session, &payment("Frictionless"))
            .expect_status(200);
        intent_sessions.push(session);
    }
    for session in intent_sessions.iter().chain([&card_session]) {
        get_session(&key_without_reveal, session).expect_status(200);
    }
    write_number(&key_without_reveal, &token, &number);
    for session in intent_sessions.iter().chain([&card_session]) {
        get_session(&key_without_reveal, session).expect_problem(409, NUMBER_CHANGED);
    }
}

#[test]
fn session_never_confirms_a_number_guessed_after_a_conversion() {
    let (key_without_reveal, number) = (create_key_without_reveal(&ACME), unique_card_number());
    let intent = text_field(
        &SERVER.post(&ACME.private, "/token-intents", &card_body(&number)).expect_status(201),
        "id",
    );
    let session = SERVER.create_browser_session_for(&ACME, &intent);
    let token = text_field(
        &SERVER.create_token_ok(&key_without_reveal, &json!({"token_intent_id": intent})),
        "id",
    );
    SERVER.get_challenge_result(&key_without_reveal, &session).expect_problem(404, "");
    for guess in [&unique_card_number(), &number] {
        write_number(&key_without_reveal, &token, guess);
        SERVER
            .get_challenge_result(&key_without_reveal, &session)
            .expect_problem(409, NUMBER_CHANGED);
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
    get_session(&ACME.private, &session).expect_problem(409, NUMBER_CHANGED);
    send_authenticate().expect_problem(409, NUMBER_CHANGED);
    // Another route does not replay the response either.
    request("/tokens").json(&card_body(&unique_card_number())).send().expect_status(422);
    SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    assert_eq!(send_authenticate().expect_status(200), first);
}
