//! Writes of a number that a 3-D Secure session was created for: what they end, and what they must not tell.

use scrip_core::policy::{
    ApplicationKind::Private,
    DeduplicationBehavior,
    Permission::{
        SessionAuthenticate, SessionCreate, SessionRead, TokenCreate, TokenDelete,
        TokenIntentCreate, TokenRead, TokenUpdate,
    },
    Settings,
};
use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, Keys, Reply, SHARED, card, new_number, text},
    sessions_3ds::requests::{SESSIONS, browser},
};

const CHANGED: &str = "number of the card was changed";
const NAMED: &str = "3-D Secure session";

/// A backend with plain permissions: it sees masks.
fn masked_key(keys: &Keys) -> String {
    let tokens = [TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenIntentCreate];
    let sessions = [SessionCreate, SessionAuthenticate, SessionRead];
    SHARED.permissions(&keys.tenant, Private, &[tokens.as_slice(), &sessions].concat())
}

/// A tenant whose creates update the token that is there already.
fn updating() -> Keys {
    SHARED.tenant(Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..Settings::default()
    })
}

/// A public key and an access session, both with the rights of a browser.
fn browsers(keys: &Keys) -> [String; 2] {
    let started = SHARED.ask("POST", "/sessions").key(&keys.public).send().is(201);
    let lent = json!({"nonce": started["nonce"], "permissions": ["token:create", "token:update"]});
    SHARED.post(&keys.private, "/sessions/authorize", &lent).is(204);
    [keys.public.clone(), text(&started, "session_key")]
}

fn session_of(key: &str, token: &str) -> String {
    text(&SHARED.session(key, &json!({"token_id": token, "device_info": browser()})), "id")
}

fn authenticated_session(key: &str, token: &str) -> String {
    let session = session_of(key, token);
    SHARED.authenticate(key, &session, &payment("Frictionless")).is(200);
    session
}

fn read(key: &str, session: &str) -> Reply {
    SHARED.fetch(key, &format!("{SESSIONS}/{session}"))
}

fn write_number(key: &str, token: &str, number: &str) {
    SHARED.patch(key, token, &json!({"data": {"number": number}})).is(200);
}

/// A card that deduplication finds by its customer, whatever its number is.
fn card_of_customer(number: &str) -> Value {
    let mut body = card(number);
    body["fingerprint_expression"] = json!("{{ metadata.customer }}");
    body["metadata"] = json!({"customer": "c1"});
    body
}

#[test]
fn number_guessed_without_a_reveal_right_is_never_confirmed_by_a_session() {
    let (masked, number) = (masked_key(&ACME), new_number());
    let token = SHARED.numbered_token(&ACME, &number);
    let session = session_of(&masked, &token);
    SHARED.challenge_result(&masked, &session).refused(404, "");
    let outcome = authenticated_session(&masked, &token);
    let challenged = SHARED.challenged(&ACME, session_of(&masked, &token));
    SHARED.tell_result(&challenged, "Y");
    // The last guess is right.
    for guess in [&new_number(), &new_number(), &number] {
        write_number(&masked, &token, guess);
        SHARED.challenge_result(&masked, &session).refused(409, CHANGED);
        SHARED.challenge_result(&masked, &challenged).refused(409, CHANGED);
        SHARED.authenticate(&masked, &session, &payment("Frictionless")).refused(409, CHANGED);
        read(&masked, &outcome).refused(409, CHANGED);
        read(&masked, &challenged).refused(409, CHANGED);
    }
    assert!(SHARED.scripted.exchange(&session).is_none(), "nothing was sent");
    // A new session is for the number as it was written last.
    read(&masked, &authenticated_session(&masked, &token)).is(200);
}

#[test]
fn same_number_written_with_a_reveal_right_keeps_the_outcome() {
    let number = new_number();
    let token = SHARED.numbered_token(&ACME, &number);
    let session = authenticated_session(&ACME.private, &token);
    write_number(&ACME.private, &token, &number);
    read(&ACME.private, &session).is(200);
    write_number(&ACME.private, &token, &new_number());
    read(&ACME.private, &session).refused(409, CHANGED);
    write_number(&ACME.private, &token, &number);
    read(&ACME.private, &session).is(200);
}

#[test]
fn card_created_again_under_the_id_of_a_deleted_one_confirms_no_guess() {
    let (masked, number) = (masked_key(&ACME), new_number());
    let mut body = card(&number);
    body["id"] = json!(format!("again-{}", new_number()));
    let token = text(&SHARED.created(&ACME.private, &body), "id");
    let session = authenticated_session(&masked, &token);
    for guess in [&new_number(), &number] {
        SHARED.remove(&masked, &format!("/tokens/{token}")).is(204);
        body["data"]["number"] = json!(guess);
        SHARED.created(&masked, &body);
        read(&masked, &session).refused(409, CHANGED);
    }
    // A card that was made of an intent does not confirm it either.
    SHARED.remove(&masked, &format!("/tokens/{token}")).is(204);
    let intent = text(&SHARED.post(&masked, "/token-intents", &card(&number)).is(201), "id");
    SHARED.created(&masked, &json!({"token_intent_id": intent, "id": token}));
    read(&masked, &session).refused(409, CHANGED);
}

#[test]
fn create_that_updates_by_the_types_own_fingerprint_keeps_the_outcome() {
    let keys = updating();
    let (masked, number) = (masked_key(&keys), new_number());
    let token = SHARED.numbered_token(&keys, &number);
    let session = authenticated_session(&masked, &token);
    let [public, lent] = browsers(&keys);
    for key in [&masked, &keys.private, &public, &lent] {
        let again = SHARED.created(key, &card(&number));
        assert_eq!(again["id"], token);
        assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
        read(&masked, &session).is(200);
    }
}

#[test]
fn create_that_updates_by_metadata_confirms_no_guess() {
    let keys = updating();
    let (masked, number) = (masked_key(&keys), new_number());
    let token = text(&SHARED.created(&masked, &card_of_customer(&number)), "id");
    let session = authenticated_session(&masked, &token);
    for guess in [&new_number(), &number] {
        assert_eq!(SHARED.created(&masked, &card_of_customer(guess))["id"], token);
        read(&masked, &session).refused(409, CHANGED);
    }
}

#[test]
fn public_key_cannot_replace_the_number_of_a_card_with_a_session_by_a_create_that_updates() {
    let keys = updating();
    let (number, other) = (new_number(), new_number());
    let token = text(&SHARED.created(&keys.public, &card_of_customer(&number)), "id");
    for key in &browsers(&keys) {
        assert_eq!(SHARED.created(key, &card_of_customer(&number))["id"], token);
    }
    let session = authenticated_session(&keys.private, &token);
    for key in &browsers(&keys) {
        // The same number too: the difference would tell whether a guess is right.
        for number in [&other, &number] {
            SHARED.create(key, &card_of_customer(number)).refused(409, NAMED);
            let many = json!({"first": card(&new_number()), "second": card_of_customer(number)});
            SHARED.post(key, "/tokenize", &many).refused(409, NAMED);
        }
    }
    let kept = SHARED.get(&keys.private, &token).is(200);
    assert_eq!(kept["data"]["number"], number);
    read(&keys.private, &session).is(200);
    // A backend replaces it, and the outcome is not shown any more.
    assert_eq!(SHARED.created(&keys.private, &card_of_customer(&other))["id"], token);
    read(&keys.private, &session).refused(409, CHANGED);
}

#[test]
fn session_of_an_intent_goes_on_with_the_card_that_was_there_already() {
    let keys = updating();
    let (masked, number) = (masked_key(&keys), new_number());
    let token = SHARED.numbered_token(&keys, &number);
    let earlier = authenticated_session(&masked, &token);
    let only_creates = SHARED.permissions(&keys.tenant, Private, &[TokenCreate, TokenRead]);
    let mut later = Vec::new();
    // The card is updated, or only read.
    for key in [&masked, &only_creates] {
        let intent = text(&SHARED.post(&masked, "/token-intents", &card(&number)).is(201), "id");
        let session = SHARED.browser_session_of(&keys, &intent);
        assert_eq!(SHARED.created(key, &json!({"token_intent_id": intent}))["id"], token);
        SHARED.authenticate(&masked, &session, &payment("Frictionless")).is(200);
        later.push(session);
    }
    for session in later.iter().chain([&earlier]) {
        read(&masked, session).is(200);
    }
    write_number(&masked, &token, &number);
    for session in later.iter().chain([&earlier]) {
        read(&masked, session).refused(409, CHANGED);
    }
}

#[test]
fn number_guessed_after_a_conversion_is_never_confirmed_by_a_session() {
    let (masked, number) = (masked_key(&ACME), new_number());
    let intent = text(&SHARED.post(&ACME.private, "/token-intents", &card(&number)).is(201), "id");
    let session = SHARED.browser_session_of(&ACME, &intent);
    let token = text(&SHARED.created(&masked, &json!({"token_intent_id": intent})), "id");
    SHARED.challenge_result(&masked, &session).refused(404, "");
    for guess in [&new_number(), &number] {
        write_number(&masked, &token, guess);
        SHARED.challenge_result(&masked, &session).refused(409, CHANGED);
    }
}

#[test]
fn repeated_authenticate_is_not_replayed_once_the_number_was_changed() {
    let token = SHARED.card_token(&ACME);
    let session = session_of(&ACME.private, &token);
    let path = format!("{SESSIONS}/{session}/authenticate");
    let ask = |path: &str| SHARED.ask("POST", path).key(&ACME.private).once("authenticate once");
    let authenticate = || ask(&path).json(&payment("Frictionless")).send();
    let first = authenticate().is(200);
    assert!(first["authentication_value"].is_string(), "{first}");
    assert_eq!(authenticate().is(200), first);
    write_number(&ACME.private, &token, &new_number());
    read(&ACME.private, &session).refused(409, CHANGED);
    authenticate().refused(409, CHANGED);
    // An idempotency key brings back its answer on every route.
    ask("/tokens").json(&card(&new_number())).send_for("POST", &path).refused(409, CHANGED);
    SHARED.remove(&ACME.private, &format!("/tokens/{token}")).is(204);
    assert_eq!(authenticate().is(200), first);
}
