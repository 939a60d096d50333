//! Events of 3DS sessions are written with the change of the session.

use scrip_core::change::ChangeOutcome;
use scrip_testing::store_harness::StoreHarness;

use crate::sessions::conformance::next_revision;

on_every_engine! {
    StoreHarness;
    deliveries_of_session_events_are_written_with_the_session
    stale_session_change_writes_no_deliveries
}

async fn list_numbers(harness: &StoreHarness) -> Vec<u8> {
    harness.list_deliveries().await.iter().map(|it| it.event.0.as_bytes()[15]).collect()
}

async fn deliveries_of_session_events_are_written_with_the_session(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    let write = harness.threeds_session_write(first.clone(), &[1]);
    harness.insert_threeds_session(write).await.unwrap();
    assert_eq!(list_numbers(&harness).await, [1]);
    let second = next_revision(&first, None);
    harness.update_session(second, &[3, 2]).await;
    assert_eq!(list_numbers(&harness).await, [1, 2, 3]);
}

async fn stale_session_change_writes_no_deliveries(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    let write = harness.threeds_session_write(first.clone(), &[]);
    harness.insert_threeds_session(write).await.unwrap();
    let outcome = harness.update_session(first, &[1]).await;
    assert_eq!(outcome, ChangeOutcome::Stale);
    assert!(list_numbers(&harness).await.is_empty());
}
