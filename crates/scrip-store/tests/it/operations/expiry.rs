//! When a token may expire, and by which reading of the clock it is removed.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    operations::{
        token_intents::{
            create_token_intent::create_token_intent, get_token_intent::get_token_intent,
        },
        tokens::expire_token::{expire_token, expire_token_intent},
    },
    policy::{Caller, Permission, TenantSettings, Transform},
    time::{Clock, Timestamp},
    token::{NewTokenIntent, Plaintext, TokenPatch, TokenType},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create, expect_invalid_field, get, update},
    vault_harness::VaultHarness,
};
use serde_json::json;

on_every_engine! {
    VaultHarness;
    expiry_of_the_current_millisecond_is_refused
    tokens_are_removed_by_the_earliest_reading_of_the_clock
    token_intents_are_removed_by_the_earliest_reading_of_the_clock
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const MOMENT: Duration = Duration::from_millis(1);

async fn caller_of(world: &VaultHarness) -> Caller {
    let tenant = world.tenant(TenantSettings::default()).await;
    let rules = [
        access_rule("/", Transform::Reveal, TOKENS),
        access_rule(
            "/",
            Transform::Mask,
            &[Permission::TokenIntentCreate, Permission::TokenIntentRead],
        ),
    ];
    world.caller(&tenant, access_with_rules(rules)).await
}

async fn expiry_of_the_current_millisecond_is_refused(world: VaultHarness) {
    let (vault, caller) = (&world.vault, caller_of(&world).await);
    let now = world.clock.now();
    let expiring = |at: Timestamp| {
        let mut new = card(VISA);
        new.expires_at = Some(at);
        new
    };
    assert_eq!(expect_invalid_field(create(vault, &caller, expiring(now)).await), "expires_at");
    let id = create(vault, &caller, expiring(now.plus(MOMENT))).await.unwrap().token.id;
    let ending = |at: Timestamp| TokenPatch { expires_at: Some(Some(at)), ..TokenPatch::default() };
    assert_eq!(expect_invalid_field(update(vault, &caller, &id, ending(now)).await), "expires_at");
    update(vault, &caller, &id, ending(now.plus(2 * MOMENT))).await.unwrap();
}

/// A clock that was moved ahead: how much of the move is true is not known yet.
struct DoubtedClock {
    earliest: Timestamp,
    now: Timestamp,
}

impl Clock for DoubtedClock {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn earliest(&self) -> Timestamp {
        self.earliest
    }
}

/// The same vault with a clock whose readings differ.
fn doubting(world: &VaultHarness, earliest: Timestamp, now: Timestamp) -> Vault {
    Vault { clock: Arc::new(DoubtedClock { earliest, now }), ..world.vault.clone() }
}

async fn tokens_are_removed_by_the_earliest_reading_of_the_clock(world: VaultHarness) {
    let caller = caller_of(&world).await;
    let start = world.clock.now();
    let end = start.plus(HOUR);
    let mut new = card(VISA);
    new.expires_at = Some(end);
    let id = create(&world.vault, &caller, new).await.unwrap().token.id;
    let moved = doubting(&world, end.minus(MOMENT), end.plus(HOUR));
    assert_eq!(expire_token(&moved).await.unwrap(), 0);
    get(&world.vault, &caller, &id).await;
    let certain = doubting(&world, end, end.plus(HOUR));
    assert_eq!(expire_token(&certain).await.unwrap(), 1);
}

async fn token_intents_are_removed_by_the_earliest_reading_of_the_clock(world: VaultHarness) {
    let caller = caller_of(&world).await;
    let new = NewTokenIntent {
        token_type: TokenType::Card,
        data: Plaintext::new(json!({"number": VISA})),
        containers: None,
        authentication: None,
    };
    let intent = create_token_intent(&world.vault, &caller, new, None).await.unwrap();
    let end = intent.expires_at;
    let moved = doubting(&world, end.minus(MOMENT), end.plus(HOUR));
    assert_eq!(expire_token_intent(&moved).await.unwrap(), 0);
    get_token_intent(&world.vault, &caller, intent.id).await.unwrap();
    let certain = doubting(&world, end, end.plus(HOUR));
    assert_eq!(expire_token_intent(&certain).await.unwrap(), 1);
}
