//! Writes of nodes with outdated keys: after a suspension, a node continues with the keys that it
//! loaded before.

use scrip_core::{
    Error,
    card::TokenType,
    change::ChangeOutcome,
    keys::{
        RotatedTable,
        key_rotation::{KeyRotation, RotationProgress},
    },
    operations::{
        key_rotations::finish_key_rotation::finish_key_rotation,
        token_intents::create_token_intent::create_token_intent,
        tokens::delete_token::delete_token, webhooks::create_webhook::create_webhook,
    },
    policy::PolicyPermit,
    token::NewTokenIntent,
    types::Plaintext,
};
use scrip_testing::{
    requests::{card, card_number, create},
    vault::webhook_draft,
    vault_harness::Engine,
};
use serde_json::json;

use crate::key_rotation::harness::RotationHarness;

/// The in-memory store has no other nodes.
macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::RotationHarness::open(super::Engine::Sqlite).await).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::RotationHarness::open(super::Engine::Postgres).await).await;
            })*
        }
    };
}

on_both_engines! {
    write_with_a_destroyed_key_is_rejected
    write_with_the_old_key_after_a_pass_starts_another_pass
    event_with_a_destroyed_key_is_rejected
    policy_change_with_the_old_key_is_rejected
    node_with_outdated_keys_does_not_replace_a_newer_rotation
    altered_or_lost_progress_starts_again
}

fn new_intent() -> NewTokenIntent {
    NewTokenIntent {
        token_type: TokenType::Card,
        data: Plaintext::new(json!({"number": card_number(8)})).into(),
        containers: None,
        authentication: None,
    }
}

async fn write_with_a_destroyed_key_is_rejected(harness: RotationHarness) {
    let outdated_caller = harness.caller().await;
    harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    harness.promote().await;
    harness.reseal_and_finish().await;
    let (vault, caller) = (harness.vault(), harness.caller().await);
    // On PostgreSQL, these writes share a transaction.
    let (late, current, second) = tokio::join!(
        create(vault, &outdated_caller, card(&card_number(5))),
        create(vault, &caller, card(&card_number(6))),
        create(vault, &caller, card(&card_number(7))),
    );
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    current.unwrap();
    second.unwrap();
    let intent = create_token_intent(vault, &outdated_caller, new_intent(), None).await;
    assert!(matches!(intent, Err(Error::Unavailable(_))), "{intent:?}");
    create_token_intent(vault, &caller, new_intent(), None).await.unwrap();
    let counts = harness.counts().await;
    assert!(counts.iter().all(|it| it.version == 2), "{counts:?}");
    assert_eq!(counts.iter().find(|it| it.column == "tokens.body").unwrap().rows, 5);
}

async fn write_with_the_old_key_after_a_pass_starts_another_pass(harness: RotationHarness) {
    let outdated_caller = harness.caller().await;
    harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    // Before the promotion, the old version is the current one.
    create(harness.vault(), &outdated_caller, card(&card_number(4))).await.unwrap();
    assert_eq!(harness.rotation().await.progress, RotationProgress::default());
    harness.promote().await;
    let counted = harness.reseal_all().await;
    assert_eq!((counted.progress.pass, counted.progress.table), (1, None));
    // A node counts the values now, and then another node with old keys writes one.
    create(harness.vault(), &outdated_caller, card(&card_number(5))).await.unwrap();
    let progress = harness.rotation().await.progress;
    assert_eq!((progress.pass, progress.table), (2, Some(RotatedTable::Tokens)));
    // Later writes do not start the pass again.
    create(harness.vault(), &outdated_caller, card(&card_number(6))).await.unwrap();
    assert_eq!(harness.rotation().await.progress, progress);
    assert_eq!(harness.reseal_all().await.progress.resealed, 6);
    let tenant = harness.tenant().await;
    let finished = finish_key_rotation(harness.vault(), &tenant, &counted).await;
    assert!(matches!(finished, Err(Error::Conflict { .. })), "{finished:?}");
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
    assert!(harness.rotation().await.finished_at.is_none());
    assert_eq!(harness.finish().await, []);
    assert_eq!(harness.tenant().await.keys.versions(), [2]);
}

/// The deletion of a token writes no sealed value but its event.
async fn event_with_a_destroyed_key_is_rejected(harness: RotationHarness) {
    let policy = harness.create_policy().await;
    let cards = harness.create_cards(0..1).await;
    let outdated_caller = harness.caller().await;
    harness.start().await.unwrap();
    harness.promote().await;
    harness.reseal_and_finish().await;
    let late = delete_token(harness.vault(), &outdated_caller, &cards[0]).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    harness.check_cards(&cards).await;
    delete_token(harness.vault(), &harness.caller().await, &cards[0]).await.unwrap();
    assert_eq!(harness.open_deliveries(&policy).await, 2, "its creation and its deletion");
}

async fn policy_change_with_the_old_key_is_rejected(harness: RotationHarness) {
    let outdated_permit = PolicyPermit::for_operator(harness.tenant().await);
    harness.start().await.unwrap();
    harness.promote().await;
    let vault = harness.vault();
    let late = create_webhook(vault, outdated_permit, webhook_draft("orders"), None).await;
    assert!(matches!(late.map(drop), Err(Error::Unavailable(_))));
    let permit = PolicyPermit::for_operator(harness.tenant().await);
    create_webhook(vault, permit, webhook_draft("orders"), None).await.unwrap();
    harness.reseal_and_finish().await;
}

async fn node_with_outdated_keys_does_not_replace_a_newer_rotation(harness: RotationHarness) {
    harness.start().await.unwrap();
    harness.promote().await;
    harness.reseal_and_finish().await;
    assert_eq!(harness.start().await.unwrap().to_version, 3);
    let now = harness.vault().clock.now();
    let outdated = KeyRotation::new(harness.id, 2, now);
    let outcome = harness.vault().store.insert_key_rotation(outdated).await.unwrap();
    assert_eq!(outcome, ChangeOutcome::Stale);
    assert_eq!(harness.rotation().await.to_version, 3);
}

/// An attacker alters or deletes the row after the first step.
async fn altered_or_lost_progress_starts_again(harness: RotationHarness) {
    let cards = harness.create_cards(0..5).await;
    let alterations = [
        "DELETE FROM key_rotations",
        "UPDATE key_rotations SET table_name = 'x'",
        "UPDATE key_rotations SET table_name = 'deliveries', last_key = 'x'",
        "UPDATE key_rotations SET table_name = NULL, last_key = 'x'",
        "UPDATE key_rotations SET pass = -1",
        "UPDATE key_rotations SET to_version = 99",
        "UPDATE key_rotations SET finished_at = 1",
    ];
    for alteration in alterations {
        let version = harness.start().await.unwrap().to_version;
        harness.promote().await;
        harness.execute(alteration);
        let rotation = KeyRotation::new(harness.id, version, harness.vault().clock.now());
        let outcome = harness.vault().store.insert_key_rotation(rotation.clone()).await.unwrap();
        assert_eq!(outcome, ChangeOutcome::Done, "{alteration}");
        assert_eq!(harness.rotation().await, rotation, "{alteration}");
        harness.mark_promoted().await;
        harness.reseal_all().await;
        assert_eq!(harness.finish().await, [], "{alteration}");
        harness.check_cards(&cards).await;
    }
}
