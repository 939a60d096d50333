//! Valid expiry times of a token, and the clock reading that decides its deletion.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Timestamp, Vault,
    card::TokenType,
    operations::{
        token_intents::{
            create_token_intent::create_token_intent, get_token_intent::get_token_intent,
        },
        tokens::expire_token::{expire_token, expire_token_intent},
    },
    policy::Caller,
    token::{NewTokenIntent, TokenPatch},
    types::{Permission, Plaintext, Transform, time::Clock},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create, expect_invalid_field, get, update},
    vault_harness::VaultHarness,
};
use serde_json::json;

on_every_engine! {
    VaultHarness;
    token_expiry_in_the_current_millisecond_is_rejected
    tokens_are_deleted_by_the_earliest_reading_of_the_clock
    token_intents_are_deleted_by_the_earliest_reading_of_the_clock
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const MILLISECOND: Duration = Duration::from_millis(1);

async fn create_caller(harness: &VaultHarness) -> Caller {
    let tenant = harness.default_tenant().await;
    let rules = [
        access_rule("/", Transform::Reveal, TOKENS),
        access_rule(
            "/",
            Transform::Mask,
            &[Permission::TokenIntentCreate, Permission::TokenIntentRead],
        ),
    ];
    harness.caller(&tenant, access_with_rules(rules)).await
}

async fn token_expiry_in_the_current_millisecond_is_rejected(harness: VaultHarness) {
    let (vault, caller) = (&harness.vault, create_caller(&harness).await);
    let now = harness.clock.now();
    let card_expiring_at = |expires_at: Timestamp| {
        let mut token = card(VISA);
        token.expires_at = Some(expires_at);
        token
    };
    let field = expect_invalid_field(create(vault, &caller, card_expiring_at(now)).await);
    assert_eq!(field, "expires_at");
    let id =
        create(vault, &caller, card_expiring_at(now.plus(MILLISECOND))).await.unwrap().token.id;
    let expiry_patch = |expires_at: Timestamp| TokenPatch {
        expires_at: Some(Some(expires_at)),
        ..TokenPatch::default()
    };
    let field = expect_invalid_field(update(vault, &caller, &id, expiry_patch(now)).await);
    assert_eq!(field, "expires_at");
    update(vault, &caller, &id, expiry_patch(now.plus(2 * MILLISECOND))).await.unwrap();
}

/// A clock that jumped ahead. The jump is not confirmed yet.
struct UnconfirmedClock {
    earliest: Timestamp,
    now: Timestamp,
}

impl Clock for UnconfirmedClock {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn earliest(&self) -> Timestamp {
        self.earliest
    }
}

/// The same vault with a clock that has two different readings.
fn with_unconfirmed_clock(harness: &VaultHarness, earliest: Timestamp, now: Timestamp) -> Vault {
    Vault { clock: Arc::new(UnconfirmedClock { earliest, now }), ..harness.vault.clone() }
}

async fn tokens_are_deleted_by_the_earliest_reading_of_the_clock(harness: VaultHarness) {
    let directory = harness.shared_directory().await;
    let caller = create_caller(&harness).await;
    let start = harness.clock.now();
    let expires_at = start.plus(HOUR);
    let mut token = card(VISA);
    token.expires_at = Some(expires_at);
    let id = create(&harness.vault, &caller, token).await.unwrap().token.id;
    let unconfirmed =
        with_unconfirmed_clock(&harness, expires_at.minus(MILLISECOND), expires_at.plus(HOUR));
    assert_eq!(expire_token(&unconfirmed, &directory).await.unwrap(), 0);
    get(&harness.vault, &caller, &id).await;
    let confirmed = with_unconfirmed_clock(&harness, expires_at, expires_at.plus(HOUR));
    assert_eq!(expire_token(&confirmed, &directory).await.unwrap(), 1);
}

async fn token_intents_are_deleted_by_the_earliest_reading_of_the_clock(harness: VaultHarness) {
    let directory = harness.shared_directory().await;
    let caller = create_caller(&harness).await;
    let new_intent = NewTokenIntent {
        token_type: TokenType::Card,
        data: Plaintext::new(json!({"number": VISA})).into(),
        containers: None,
        authentication: None,
    };
    let intent = create_token_intent(&harness.vault, &caller, new_intent, None).await.unwrap();
    let expires_at = intent.expires_at;
    let unconfirmed =
        with_unconfirmed_clock(&harness, expires_at.minus(MILLISECOND), expires_at.plus(HOUR));
    assert_eq!(expire_token_intent(&unconfirmed, &directory).await.unwrap(), 0);
    get_token_intent(&harness.vault, &caller, intent.id).await.unwrap();
    let confirmed = with_unconfirmed_clock(&harness, expires_at, expires_at.plus(HOUR));
    assert_eq!(expire_token_intent(&confirmed, &directory).await.unwrap(), 1);
}
