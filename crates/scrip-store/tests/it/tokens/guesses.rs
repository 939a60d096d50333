//! Counters of the guessing budget on every engine.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Timestamp,
    equality::{GuessBucket, GuessRecord},
    operations::tenants::delete_tenant::delete_tenant,
    policy::PolicyPermit,
};
use scrip_testing::store_harness::{DAY, StoreHarness};

on_every_engine! {
    StoreHarness;
    guesses_are_found_by_tenant_and_bucket
    guesses_counted_again_keep_the_later_time
    expired_guesses_are_not_found_and_are_deleted
    guesses_of_a_deleted_tenant_are_purged
}

fn guess_record(bucket: u8, number: u8, counted_at: Timestamp) -> GuessRecord {
    let bucket = GuessBucket([bucket; 17]);
    GuessRecord {
        bucket,
        number_digest: [number; 16],
        counted_at,
        expires_at: counted_at.plus(DAY),
    }
}

async fn find_guesses(harness: &StoreHarness, buckets: &[u8]) -> Vec<(u8, u8, Timestamp)> {
    let buckets: Vec<_> = buckets.iter().map(|it| GuessBucket([*it; 17])).collect();
    let tenant = harness.caller.tenant().id;
    let records = harness.store().find_guesses(tenant, &buckets, harness.now()).await.unwrap();
    let mut guesses: Vec<_> =
        records.iter().map(|it| (it.bucket.0[0], it.number_digest[0], it.counted_at)).collect();
    guesses.sort_unstable();
    guesses
}

async fn insert_guesses(harness: &StoreHarness, records: Vec<GuessRecord>) {
    harness.store().insert_guesses(harness.caller.tenant().id, records).await.unwrap();
}

async fn guesses_are_found_by_tenant_and_bucket(harness: StoreHarness) {
    let now = harness.now();
    insert_guesses(
        &harness,
        vec![guess_record(1, 1, now), guess_record(1, 2, now), guess_record(2, 1, now)],
    )
    .await;
    assert_eq!(find_guesses(&harness, &[1]).await, [(1, 1, now), (1, 2, now)]);
    assert_eq!(find_guesses(&harness, &[2, 3]).await, [(2, 1, now)]);
    assert_eq!(find_guesses(&harness, &[]).await, []);
    let harness = harness.with_callers_swapped();
    assert_eq!(find_guesses(&harness, &[1, 2]).await, [], "another tenant has none");
}

async fn guesses_counted_again_keep_the_later_time(harness: StoreHarness) {
    let (first, later) = (harness.now(), harness.now().plus(Duration::from_secs(5)));
    insert_guesses(&harness, vec![guess_record(1, 1, later), guess_record(1, 2, first)]).await;
    insert_guesses(&harness, vec![guess_record(1, 1, first), guess_record(1, 2, later)]).await;
    assert_eq!(find_guesses(&harness, &[1]).await, [(1, 1, later), (1, 2, later)]);
}

async fn expired_guesses_are_not_found_and_are_deleted(harness: StoreHarness) {
    insert_guesses(&harness, vec![guess_record(1, 1, harness.now())]).await;
    harness.advance(Duration::from_secs(60));
    insert_guesses(&harness, vec![guess_record(1, 2, harness.now())]).await;
    let second = harness.now();
    harness.advance(DAY - Duration::from_secs(60));
    assert_eq!(find_guesses(&harness, &[1]).await, [(1, 2, second)]);
    assert_eq!(harness.store().delete_expired_guesses(harness.now()).await.unwrap(), 1);
    assert_eq!(harness.store().delete_expired_guesses(harness.now()).await.unwrap(), 0);
    assert_eq!(find_guesses(&harness, &[1]).await, [(1, 2, second)]);
}

async fn guesses_of_a_deleted_tenant_are_purged(harness: StoreHarness) {
    insert_guesses(&harness, vec![guess_record(1, 1, harness.now())]).await;
    let permit = PolicyPermit::for_operator(Arc::clone(harness.caller.principal().tenant()));
    delete_tenant(&harness.vault_harness.vault, permit).await.unwrap();
    harness.advance(Duration::from_secs(120));
    let vault = &harness.vault_harness.vault;
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(vault, &[]).await.unwrap()
        > 0
    {}
    assert_eq!(find_guesses(&harness, &[1]).await, []);
}
