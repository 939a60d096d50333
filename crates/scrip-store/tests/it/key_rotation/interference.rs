//! Clients, other nodes, operators and attackers during a rotation.

use std::time::Duration;

use rusqlite::Connection;
use scrip_core::{
    change::ChangeOutcome,
    keys::{ResealedRow, RotatedTable, key_rotation::RotationProgress},
    operations::key_rotations::reseal_rows::{reseal_rows, start_next_pass},
    store::{RotationLease, RotationMark, RotationStep},
};
use scrip_testing::{
    requests::{card_number, data_patch, get, update, visible_data},
    vault_harness::Engine,
};
use serde_json::json;
use uuid::Uuid;

use crate::key_rotation::harness::RotationHarness;

on_every_engine! {
    RotationHarness;
    change_by_a_client_during_a_step_is_not_lost
    step_from_an_outdated_position_changes_nothing
    paused_rotation_does_not_advance
    lease_gives_a_rotation_to_one_node
    next_pass_has_a_higher_number_and_keeps_the_count
    lost_progress_does_not_lose_a_row
}

/// The rows of a step as a background task has computed them.
async fn compute_step(harness: &RotationHarness) -> Vec<ResealedRow> {
    let store = &harness.vault().store;
    let rows = store.list_sealed_rows(harness.id, RotatedTable::Tokens, None, 100).await.unwrap();
    let keys = &harness.tenant().await.keys;
    rows.rows.iter().filter_map(|it| it.reseal(keys, harness.id).unwrap()).collect()
}

async fn advance(harness: &RotationHarness, rows: Vec<ResealedRow>) -> ChangeOutcome {
    let before = harness.rotation().await.progress;
    let step = RotationStep { tenant: harness.id, after: before.after_rows(None, 0), before, rows };
    harness.vault().store.advance_key_rotation(step).await.unwrap()
}

async fn change_by_a_client_during_a_step_is_not_lost(harness: RotationHarness) {
    let cards = harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    harness.promote().await;
    let rows = compute_step(&harness).await;
    assert_eq!(rows.len(), 3);
    let (vault, caller) = (harness.vault(), harness.caller().await);
    let patch = data_patch(json!({"number": card_number(77)}));
    update(vault, &caller, &cards[1], patch).await.unwrap();
    assert_eq!(advance(&harness, rows).await, ChangeOutcome::Done);
    assert_eq!(harness.rotation().await.progress.resealed, 2, "the changed row is new already");
    let view = get(vault, &harness.caller().await, &cards[1]).await;
    assert_eq!(visible_data(&view).unwrap()["number"], card_number(77));
    harness.reseal_and_finish().await;
}

async fn step_from_an_outdated_position_changes_nothing(harness: RotationHarness) {
    harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    harness.promote().await;
    let before = harness.rotation().await.progress;
    let rows = compute_step(&harness).await;
    assert_eq!(advance(&harness, Vec::new()).await, ChangeOutcome::Done);
    let position = harness.rotation().await.progress;
    let after = before.after_rows(rows.last().map(|it| it.key.clone()), 0);
    let step = RotationStep { tenant: harness.id, before, after, rows };
    let outcome = harness.vault().store.advance_key_rotation(step).await.unwrap();
    assert_eq!(outcome, ChangeOutcome::Stale);
    assert_eq!(harness.rotation().await.progress, position);
    assert_eq!(compute_step(&harness).await.len(), 3, "the rows of the step are not written");
}

async fn paused_rotation_does_not_advance(harness: RotationHarness) {
    harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    harness.promote().await;
    let store = &harness.vault().store;
    let mark = async |mark| store.mark_key_rotation(harness.id, mark).await.unwrap();
    assert_eq!(mark(RotationMark::Paused).await, ChangeOutcome::Done);
    assert_eq!(mark(RotationMark::Paused).await, ChangeOutcome::Stale);
    let mut rotation = harness.rotation().await;
    assert!(rotation.is_paused);
    let tenant = harness.tenant().await;
    let step = reseal_rows(harness.vault(), &tenant, &mut rotation, 100).await.unwrap();
    assert!(step.is_stale);
    assert_eq!(harness.rotation().await.progress, RotationProgress::default());
    assert_eq!(mark(RotationMark::Resumed).await, ChangeOutcome::Done);
    harness.reseal_and_finish().await;
    assert_eq!(mark(RotationMark::Paused).await, ChangeOutcome::Stale, "the rotation is finished");
}

async fn lease_gives_a_rotation_to_one_node(harness: RotationHarness) {
    harness.start().await.unwrap();
    let claim = async |node: u128| {
        let now = harness.vault().clock.now();
        let until = now.plus(Duration::from_secs(30));
        let lease = RotationLease { node: Uuid::from_u128(node), now, until };
        harness.vault().store.claim_key_rotation(harness.id, lease).await.unwrap()
    };
    assert_eq!(claim(1).await, ChangeOutcome::Done);
    assert_eq!(claim(2).await, ChangeOutcome::Stale);
    assert_eq!(claim(1).await, ChangeOutcome::Done);
    harness.vault_harness.clock.advance(Duration::from_secs(31));
    assert_eq!(claim(2).await, ChangeOutcome::Done);
    assert_eq!(claim(1).await, ChangeOutcome::Stale);
}

async fn next_pass_has_a_higher_number_and_keeps_the_count(harness: RotationHarness) {
    harness.create_cards(0..3).await;
    harness.start().await.unwrap();
    harness.promote().await;
    let mut rotation = harness.reseal_all().await;
    start_next_pass(harness.vault(), &mut rotation).await.unwrap();
    assert_eq!(harness.rotation().await, rotation);
    let progress = &rotation.progress;
    assert_eq!((progress.pass, progress.resealed), (2, 3));
    assert_eq!(harness.reseal_all().await.progress.resealed, 3);
}

/// An attacker moves the progress to the end, or rows of an old version appear behind it.
async fn lost_progress_does_not_lose_a_row(harness: RotationHarness) {
    let cards = harness.create_cards(0..5).await;
    harness.start().await.unwrap();
    harness.promote().await;
    for _ in RotatedTable::ALL {
        assert_eq!(advance(&harness, Vec::new()).await, ChangeOutcome::Done);
    }
    assert_eq!(harness.rotation().await.progress.table, None);
    assert_eq!(harness.finish().await.len(), 1);
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
    start_next_pass(harness.vault(), &mut harness.rotation().await).await.unwrap();
    harness.reseal_and_finish().await;
    harness.check_cards(&cards).await;
}

#[tokio::test]
async fn altered_row_keeps_the_old_version() {
    let harness = RotationHarness::open(Engine::Sqlite).await;
    let cards = harness.create_cards(0..3).await;
    let connection = Connection::open(harness.vault_harness.file()).unwrap();
    let sql = "UPDATE tokens SET expires_at = 1 WHERE id = ?1";
    assert_eq!(connection.execute(sql, [cards[1].as_str()]).unwrap(), 1);
    harness.start().await.unwrap();
    harness.promote().await;
    let rotation = harness.reseal_all().await;
    assert_eq!((rotation.progress.resealed, rotation.progress.unopened), (2, 1));
    assert_eq!(harness.finish().await.len(), 1);
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
}

#[tokio::test]
async fn altered_sealing_version_is_detected() {
    let harness = RotationHarness::open(Engine::Sqlite).await;
    harness.start().await.unwrap();
    let connection = Connection::open(harness.vault_harness.file()).unwrap();
    for version in ["2", "9", "NULL"] {
        connection.execute(&format!("UPDATE tenants SET sealing_version = {version}"), []).unwrap();
        let directory = harness.vault_harness.directory().await;
        assert!(directory.tenant(harness.id).is_none(), "{version}");
        let alterations = directory.alterations();
        assert!(alterations[0].description.contains("the row of the tenant"), "{alterations:?}");
    }
    connection.execute("UPDATE tenants SET sealing_version = 1", []).unwrap();
    assert_eq!(harness.tenant().await.keys.versions(), [1, 2]);
}
