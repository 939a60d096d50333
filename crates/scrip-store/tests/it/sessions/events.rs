//! Events of 3DS sessions: numbered in commit order, and deleted when they are old.

use scrip_testing::{clock::START, store_harness::StoreHarness, vault_harness::Engine};

use crate::sessions::conformance::{MINUTE, MOMENT, next_revision};

on_every_engine! {
    StoreHarness;
    session_events_are_listed_in_commit_order
    event_numbers_are_not_reused
    old_session_events_are_deleted
}

async fn session_events_are_listed_in_commit_order(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    harness
        .insert_threeds_session(harness.threeds_session_write(first.clone(), &[1]))
        .await
        .unwrap();
    harness.advance(MINUTE);
    let second = next_revision(&first, None);
    harness.update_threeds_session(harness.threeds_session_write(second.clone(), &[3, 2])).await;
    // Setting the clock back does not change the order.
    harness.vault_harness.clock.set(START);
    harness
        .update_threeds_session(harness.threeds_session_write(next_revision(&second, None), &[0]))
        .await;
    let events = harness.list_threeds_events(0, 9).await;
    let drawn: Vec<_> = events.iter().map(|(_, it)| it.id.as_bytes()[0]).collect();
    assert_eq!(drawn, [1, 3, 2, 0]);
    assert!(events.windows(2).all(|it| it[0].0 < it[1].0));
    assert_eq!(events[0].1, harness.threeds_event_record(1));
    assert_eq!(harness.list_threeds_events(0, 2).await, events[..2]);
    assert_eq!(harness.list_threeds_events(events[1].0, 1).await, events[2..3]);
    assert_eq!(harness.list_threeds_events(events[3].0, 9).await, []);
    assert_eq!(harness.list_threeds_events(0, 0).await, []);
}

/// A consumer continues after the last event that it read.
async fn event_numbers_are_not_reused(harness: StoreHarness) {
    harness
        .insert_threeds_session(
            harness.threeds_session_write(harness.threeds_session_record(1), &[1, 2]),
        )
        .await
        .unwrap();
    let seen = harness.list_threeds_events(0, 9).await.last().unwrap().0;
    harness.advance(MINUTE);
    assert_eq!(harness.store().delete_expired_threeds_events(harness.now()).await.unwrap(), 2);
    assert_eq!(harness.threeds_row_counts().await, [1, 0]);
    harness
        .insert_threeds_session(
            harness.threeds_session_write(harness.threeds_session_record(2), &[3]),
        )
        .await
        .unwrap();
    assert_eq!(harness.list_threeds_events(seen, 9).await.len(), 1);
}

async fn old_session_events_are_deleted(harness: StoreHarness) {
    for number in 0..200 {
        harness
            .insert_threeds_session(
                harness.threeds_session_write(
                    harness.threeds_session_record(number),
                    &[number, number],
                ),
            )
            .await
            .unwrap();
        harness.advance(MOMENT);
    }
    let before = START.plus(MOMENT * 149);
    let (mut deleted, mut steps) = (0, 0);
    loop {
        match harness.store().delete_expired_threeds_events(before).await.unwrap() {
            0 => break,
            some => (deleted, steps) = (deleted + some, steps + 1),
        }
    }
    assert!(deleted == 300 && steps > 0);
    let left = harness.list_threeds_events(0, 1000).await;
    assert_eq!((left.len(), left[0].1.at), (100, START.plus(MOMENT * 150)));
    assert_eq!(harness.threeds_row_counts().await, [200, 100]);
}

/// A counter that was set back does not block events: the next number follows the highest existing
/// one.
#[tokio::test]
async fn altered_event_counter_does_not_block_new_events() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    harness
        .insert_threeds_session(
            harness.threeds_session_write(harness.threeds_session_record(1), &[1, 2]),
        )
        .await
        .unwrap();
    let attacker = rusqlite::Connection::open(harness.vault_harness.file()).unwrap();
    attacker.execute("UPDATE threeds_event_state SET last_seq = -5", []).unwrap();
    harness
        .insert_threeds_session(
            harness.threeds_session_write(harness.threeds_session_record(2), &[3]),
        )
        .await
        .unwrap();
    let numbers: Vec<_> = harness.list_threeds_events(0, 9).await.iter().map(|it| it.0).collect();
    assert_eq!(numbers, [1, 2, 3]);
}
