//! The counts of the guessing budget, as every engine keeps them.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::delete_tenant::delete_tenant,
    policy::{
        Mandate,
        guessing_budget::{Bucket, GuessRecord},
    },
    time::Timestamp,
};
use scrip_testing::store_harness::{DAY, StoreHarness};

on_every_engine! {
    StoreHarness;
    guesses_are_found_by_tenant_and_bucket
    guesses_counted_again_keep_the_later_time
    expired_guesses_are_not_found_and_are_swept
    guesses_of_a_deleted_tenant_are_purged
}

fn record(bucket: u8, number: u8, at: Timestamp) -> GuessRecord {
    let bucket = Bucket([bucket; 17]);
    GuessRecord { bucket, number: [number; 16], at, expires_at: at.after(DAY) }
}

async fn found(desk: &StoreHarness, buckets: &[u8]) -> Vec<(u8, u8, Timestamp)> {
    let buckets: Vec<_> = buckets.iter().map(|it| Bucket([*it; 17])).collect();
    let tenant = desk.caller.tenant().id;
    let records = desk.store().find_guesses(tenant, &buckets, desk.now()).await.unwrap();
    let mut found: Vec<_> =
        records.iter().map(|it| (it.bucket.0[0], it.number[0], it.at)).collect();
    found.sort_unstable();
    found
}

async fn insert(desk: &StoreHarness, records: Vec<GuessRecord>) {
    desk.store().insert_guesses(desk.caller.tenant().id, records).await.unwrap();
}

async fn guesses_are_found_by_tenant_and_bucket(desk: StoreHarness) {
    let now = desk.now();
    insert(&desk, vec![record(1, 1, now), record(1, 2, now), record(2, 1, now)]).await;
    assert_eq!(found(&desk, &[1]).await, [(1, 1, now), (1, 2, now)]);
    assert_eq!(found(&desk, &[2, 3]).await, [(2, 1, now)]);
    assert_eq!(found(&desk, &[]).await, []);
    let desk = desk.turned();
    assert_eq!(found(&desk, &[1, 2]).await, [], "another tenant has none");
}

async fn guesses_counted_again_keep_the_later_time(desk: StoreHarness) {
    let (first, later) = (desk.now(), desk.now().after(Duration::from_secs(5)));
    insert(&desk, vec![record(1, 1, later), record(1, 2, first)]).await;
    insert(&desk, vec![record(1, 1, first), record(1, 2, later)]).await;
    assert_eq!(found(&desk, &[1]).await, [(1, 1, later), (1, 2, later)]);
}

async fn expired_guesses_are_not_found_and_are_swept(desk: StoreHarness) {
    insert(&desk, vec![record(1, 1, desk.now())]).await;
    desk.advance(Duration::from_secs(60));
    insert(&desk, vec![record(1, 2, desk.now())]).await;
    let second = desk.now();
    desk.advance(DAY - Duration::from_secs(60));
    assert_eq!(found(&desk, &[1]).await, [(1, 2, second)]);
    assert_eq!(desk.store().sweep_guesses(desk.now()).await.unwrap(), 1);
    assert_eq!(desk.store().sweep_guesses(desk.now()).await.unwrap(), 0);
    assert_eq!(found(&desk, &[1]).await, [(1, 2, second)]);
}

async fn guesses_of_a_deleted_tenant_are_purged(desk: StoreHarness) {
    insert(&desk, vec![record(1, 1, desk.now())]).await;
    let mandate = Mandate::of_operator(Arc::clone(desk.caller.principal().tenant()));
    delete_tenant(&desk.world.vault, mandate).await.unwrap();
    desk.advance(Duration::from_secs(120));
    let vault = &desk.world.vault;
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(vault, &[]).await.unwrap()
        > 0
    {}
    assert_eq!(found(&desk, &[1]).await, []);
}
