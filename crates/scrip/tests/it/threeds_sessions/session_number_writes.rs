//! Writes of a number that a 3-D Secure session was created for: what they end, and what they must not tell.

use scrip_core::policy::{
    ApplicationKind::Private,
    DeduplicationBehavior,
    Permission::{
        ThreeDsSessionAuthenticate, ThreeDsSessionCreate, ThreeDsSessionRead, TokenCreate,
        TokenDelete, TokenIntentCreate, TokenRead, TokenUpdate,
    },
    TenantSettings,
};
use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{
        ACME, SHARED_SERVER, TenantApiKeys, TestResponse, card_body, text_field, unique_card_number,
    },
    threeds_sessions::requests::{SESSIONS, browser_info},
};

const NUMBER_CHANGED: &str = "number of the card was changed";
const SESSION_EXISTS: &str = "3-D Secure session";

/// A backend with plain permissions: it sees masks.
fn masked_key(keys: &TenantApiKeys) -> String {
    let tokens = [TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenIntentCreate];
    let sessions = [ThreeDsSessionCreate, ThreeDsSessionAuthenticate, ThreeDsSessionRead];
    SHARED_SERVER.key_with_permissions(
        &keys.tenant,
        Private,
        &[tokens.as_slice(), &sessions].concat(),
    )
}

/// A tenant whose creates update the token that is there already.
fn updating_tenant() -> TenantApiKeys {
    SHARED_SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    })
}

/// A public key and an access session, both with the rights of a browser.
fn browser_keys(keys: &TenantApiKeys) -> [String; 2] {
    let started =
        SHARED_SERVER.request("POST", "/sessions").key(&keys.public).send().expect_status(201);
    let lent = json!({"nonce": started["nonce"], "permissions": ["token:create", "token:update"]});
    SHARED_SERVER.post(&keys.private, "/sessions/authorize", &lent).expect_status(204);
    [keys.public.clone(), text_field(&started, "session_key")]
}

fn create_session_for(key: &str, token: &str) -> String {
    text_field(
        &SHARED_SERVER
            .create_session(key, &json!({"token_id": token, "device_info": browser_info()})),
        "id",
    )
}

fn authenticated_session(key: &str, token: &str) -> String {
    let session = create_session_for(key, token);
    SHARED_SERVER.authenticate(key, &session, &payment("Frictionless")).expect_status(200);
    session
}

fn get_session(key: &str, session: &str) -> TestResponse {
    SHARED_SERVER.get_path(key, &format!("{SESSIONS}/{session}"))
}

fn write_number(key: &str, token: &str, number: &str) {
    SHARED_SERVER.patch_token(key, token, &json!({"data": {"number": number}})).expect_status(200);
}

/// A card that deduplication finds by its customer, whatever its number is.
fn customer_card_body(number: &str) -> Value {
    let mut body = card_body(number);
    body["fingerprint_expression"] = json!("{{ metadata.customer }}");
    body["metadata"] = json!({"customer": "c1"});
    body
}

#[test]
fn session_never_confirms_a_number_guessed_without_a_reveal_right() {
    let (masked, number) = (masked_key(&ACME), unique_card_number());
    let token = SHARED_SERVER.token_with_number(&ACME, &number);
    let session = create_session_for(&masked, &token);
    SHARED_SERVER.get_challenge_result(&masked, &session).expect_problem(404, "");
    let outcome = authenticated_session(&masked, &token);
    let challenged = SHARED_SERVER.start_challenge(&ACME, create_session_for(&masked, &token));
    SHARED_SERVER.send_result(&challenged, "Y");
    // The last guess is right.
    for guess in [&unique_card_number(), &unique_card_number(), &number] {
        write_number(&masked, &token, guess);
        SHARED_SERVER.get_challenge_result(&masked, &session).expect_problem(409, NUMBER_CHANGED);
        SHARED_SERVER
            .get_challenge_result(&masked, &challenged)
            .expect_problem(409, NUMBER_CHANGED);
        SHARED_SERVER
            .authenticate(&masked, &session, &payment("Frictionless"))
            .expect_problem(409, NUMBER_CHANGED);
        get_session(&masked, &outcome).expect_problem(409, NUMBER_CHANGED);
        get_session(&masked, &challenged).expect_problem(409, NUMBER_CHANGED);
    }
    assert!(SHARED_SERVER.directory_servers.exchange(&session).is_none(), "nothing was sent");
    // A new session is for the number as it was written last.
    get_session(&masked, &authenticated_session(&masked, &token)).expect_status(200);
}

#[test]
fn same_number_written_with_a_reveal_right_keeps_the_outcome() {
    let number = unique_card_number();
    let token = SHARED_SERVER.token_with_number(&ACME, &number);
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
    let (masked, number) = (masked_key(&ACME), unique_card_number());
    let mut body = card_body(&number);
    body["id"] = json!(format!("again-{}", unique_card_number()));
    let token = text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &body), "id");
    let session = authenticated_session(&masked, &token);
    for guess in [&unique_card_number(), &number] {
        SHARED_SERVER.delete(&masked, &format!("/tokens/{token}")).expect_status(204);
        body["data"]["number"] = json!(guess);
        SHARED_SERVER.create_token_ok(&masked, &body);
        get_session(&masked, &session).expect_problem(409, NUMBER_CHANGED);
    }
    // A card that was made of an intent does not confirm it either.
    SHARED_SERVER.delete(&masked, &format!("/tokens/{token}")).expect_status(204);
    let intent = text_field(
        &SHARED_SERVER.post(&masked, "/token-intents", &card_body(&number)).expect_status(201),
        "id",
    );
    SHARED_SERVER.create_token_ok(&masked, &json!({"token_intent_id": intent, "id": token}));
    get_session(&masked, &session).expect_problem(409, NUMBER_CHANGED);
}

#[test]
fn create_that_updates_by_default_fingerprint_keeps_the_outcome() {
    let keys = updating_tenant();
    let (masked, number) = (masked_key(&keys), unique_card_number());
    let token = SHARED_SERVER.token_with_number(&keys, &number);
    let session = authenticated_session(&masked, &token);
    let [public, lent] = browser_keys(&keys);
    for key in [&masked, &keys.private, &public, &lent] {
        let again = SHARED_SERVER.create_token_ok(key, &card_body(&number));
        assert_eq!(again["id"], token);
        assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
        get_session(&masked, &session).expect_status(200);
    }
}

#[test]
fn create_that_updates_by_metadata_confirms_no_guess() {
    let keys = updating_tenant();
    let (masked, number) = (masked_key(&keys), unique_card_number());
    let token =
        text_field(&SHARED_SERVER.create_token_ok(&masked, &customer_card_body(&number)), "id");
    let session = authenticated_session(&masked, &token);
    for guess in [&unique_card_number(), &number] {
        assert_eq!(SHARED_SERVER.create_token_ok(&masked, &customer_card_body(guess))["id"], token);
        get_session(&masked, &session).expect_problem(409, NUMBER_CHANGED);
    }
}

#[test]
fn public_key_create_cannot_update_the_number_of_a_card_with_a_session() {
    let keys = updating_tenant();
    let (number, other) = (unique_card_number(), unique_card_number());
    let token = text_field(
        &SHARED_SERVER.create_token_ok(&keys.public, &customer_card_body(&number)),
        "id",
    );
    for key in &browser_keys(&keys) {
        assert_eq!(SHARED_SERVER.create_token_ok(key, &customer_card_body(&number))["id"], token);
    }
    let session = authenticated_session(&keys.private, &token);
    for key in &browser_keys(&keys) {
        // The same number too: the difference would tell whether a guess is right.
        for number in [&other, &number] {
            SHARED_SERVER
                .create_token(key, &customer_card_body(number))
                .expect_problem(409, SESSION_EXISTS);
            let many = json!({"first": card_body(&unique_card_number()), "second": customer_card_body(number)});
            SHARED_SERVER.post(key, "/tokenize", &many).expect_problem(409, SESSION_EXISTS);
        }
    }
    let kept = SHARED_SERVER.get_token(&keys.private, &token).expect_status(200);
    assert_eq!(kept["data"]["number"], number);
    get_session(&keys.private, &session).expect_status(200);
    // A backend replaces it, and the outcome is not shown any more.
    assert_eq!(
        SHARED_SERVER.create_token_ok(&keys.private, &customer_card_body(&other))["id"],
        token
    );
    get_session(&keys.private, &session).expect_problem(409, NUMBER_CHANGED);
}

#[test]
fn session_of_an_intent_continues_with_the_existing_duplicate_card() {
    let keys = updating_tenant();
    let (masked, number) = (masked_key(&keys), unique_card_number());
    let token = SHARED_SERVER.token_with_number(&keys, &number);
    let earlier = authenticated_session(&masked, &token);
    let only_creates =
        SHARED_SERVER.key_with_permissions(&keys.tenant, Private, &[TokenCreate, TokenRead]);
    let mut later = Vec::new();
    // The card is updated, or only read.
    for key in [&masked, &only_creates] {
        let intent = text_field(
            &SHARED_SERVER.post(&masked, "/token-intents", &card_body(&number)).expect_status(201),
            "id",
        );
        let session = SHARED_SERVER.create_browser_session_for(&keys, &intent);
        assert_eq!(
            SHARED_SERVER.create_token_ok(key, &json!({"token_intent_id": intent}))["id"],
            token
        );
        SHARED_SERVER.authenticate(&masked, &session, &payment("Frictionless")).expect_status(200);
        later.push(session);
    }
    for session in later.iter().chain([&earlier]) {
        get_session(&masked, session).expect_status(200);
    }
    write_number(&masked, &token, &number);
    for session in later.iter().chain([&earlier]) {
        get_session(&masked, session).expect_problem(409, NUMBER_CHANGED);
    }
}

#[test]
fn session_never_confirms_a_number_guessed_after_a_conversion() {
    let (masked, number) = (masked_key(&ACME), unique_card_number());
    let intent = text_field(
        &SHARED_SERVER
            .post(&ACME.private, "/token-intents", &card_body(&number))
            .expect_status(201),
        "id",
    );
    let session = SHARED_SERVER.create_browser_session_for(&ACME, &intent);
    let token = text_field(
        &SHARED_SERVER.create_token_ok(&masked, &json!({"token_intent_id": intent})),
        "id",
    );
    SHARED_SERVER.get_challenge_result(&masked, &session).expect_problem(404, "");
    for guess in [&unique_card_number(), &number] {
        write_number(&masked, &token, guess);
        SHARED_SERVER.get_challenge_result(&masked, &session).expect_problem(409, NUMBER_CHANGED);
    }
}

#[test]
fn repeated_authenticate_is_not_replayed_once_the_number_was_changed() {
    let token = SHARED_SERVER.card_token(&ACME);
    let session = create_session_for(&ACME.private, &token);
    let path = format!("{SESSIONS}/{session}/authenticate");
    let ask = |path: &str| {
        SHARED_SERVER.request("POST", path).key(&ACME.private).idempotency_key("authenticate once")
    };
    let authenticate = || ask(&path).json(&payment("Frictionless")).send();
    let first = authenticate().expect_status(200);
    assert!(first["authentication_value"].is_string(), "{first}");
    assert_eq!(authenticate().expect_status(200), first);
    write_number(&ACME.private, &token, &unique_card_number());
    get_session(&ACME.private, &session).expect_problem(409, NUMBER_CHANGED);
    authenticate().expect_problem(409, NUMBER_CHANGED);
    // An idempotency key brings back its answer on every route.
    ask("/tokens")
        .json(&card_body(&unique_card_number()))
        .send_for("POST", &path)
        .expect_problem(409, NUMBER_CHANGED);
    SHARED_SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    assert_eq!(authenticate().expect_status(200), first);
}
