//! What is counted of tokens: as many as there are, and each that is used once in a month.

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::{Access, Operation, Seen},
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Mandate, Transform},
    time::{Month, Timestamp},
    token::{Deduplicate, TokenRecord, TokenType, Usage},
};
use scrip_store::{
    SqliteStore,
    sqlite::backup::{copy_database, take_out_access},
};
use scrip_testing::{
    clock::START,
    store_harness::{DAY, StoreHarness, record, revised},
    vault_harness::Engine,
};

on_every_engine! {
    StoreHarness;
    tokens_are_counted_by_type
    a_month_counts_what_is_made_and_what_is_used_once
    an_updated_token_is_active_and_so_is_a_duplicate
    months_are_forgotten_after_a_year
    a_deleted_tenant_is_not_counted
}

fn mandate(desk: &StoreHarness) -> Mandate {
    Mandate::of_operator(Arc::clone(desk.caller.principal().tenant()))
}

async fn usage(desk: &StoreHarness) -> Usage {
    // What is noted without being waited for is written by then.
    show(desk, Seen::new("", "empty")).await;
    desk.store().find_usage(&mandate(desk), Month::of(desk.now())).await.unwrap()
}

async fn show(desk: &StoreHarness, seen: Seen) {
    let (tenant, audit) = (desk.caller.tenant().id, desk.audit(Operation::GetToken));
    desk.store().record_access(Access { tenant, audit, seen: vec![seen] }).await.unwrap();
}

async fn read(desk: &StoreHarness, id: &str) {
    let found = desk.find(id).await.unwrap();
    show(desk, Seen::token(&found.record, Transform::Mask)).await;
}

fn made(desk: &StoreHarness, id: &str) -> TokenRecord {
    TokenRecord { created_at: desk.now(), ..record(id) }
}

fn counts(usage: &Usage) -> Vec<(TokenType, u64)> {
    usage.types.iter().map(|it| (it.token_type, it.count)).collect()
}

async fn tokens_are_counted_by_type(desk: StoreHarness) {
    assert_eq!(usage(&desk).await, Usage::default());
    desk.insert(made(&desk, "one")).await;
    desk.advance(Duration::from_secs(1));
    desk.insert(TokenRecord { token_type: TokenType::Card, ..made(&desk, "two") }).await;
    let ends = TokenRecord { expires_at: Some(desk.now().after(DAY)), ..made(&desk, "three") };
    desk.insert(ends).await;
    let counted = usage(&desk).await;
    assert_eq!(counts(&counted), [(TokenType::Card, 1), (TokenType::Token, 2)]);
    assert_eq!((counted.total(), counted.created), (3, 3));
    assert_eq!(counted.types[1].last_created_at, desk.now());
    // Not twice, not for another tenant, and not what was refused.
    desk.insert_once(made(&desk, "again")).await;
    desk.insert(made(&desk, "one")).await;
    assert_eq!(usage(&desk).await, counted);
    desk.delete("one", 0).await;
    desk.advance(DAY);
    // Until it is removed.
    assert_eq!(usage(&desk).await.total(), 2);
    desk.sweep(desk.now()).await;
    let left = usage(&desk).await;
    assert_eq!(counts(&left), [(TokenType::Card, 1), (TokenType::Token, 0)]);
    assert_eq!(left.created, 3);
    let desk = desk.turned();
    assert_eq!(usage(&desk).await, Usage::default());
}

/// The middle of a month, and the time until the next.
const MONTH: Duration = Duration::from_secs(20 * 24 * 60 * 60);

async fn a_month_counts_what_is_made_and_what_is_used_once(desk: StoreHarness) {
    assert_eq!(Month::of(START), Month(202_701));
    desk.insert(made(&desk, "old")).await;
    desk.insert(TokenRecord { fingerprint: None, ..made(&desk, "other") }).await;
    read(&desk, "old").await;
    let first = usage(&desk).await;
    assert_eq!((first.created, first.active, first.monthly_active()), (2, 0, 2));
    desk.advance(MONTH);
    assert_eq!(Month::of(desk.now()), Month(202_702));
    desk.insert(made(&desk, "new")).await;
    for _ in 0..3 {
        read(&desk, "old").await;
        read(&desk, "new").await;
    }
    let second = usage(&desk).await;
    assert_eq!((second.created, second.active, second.total()), (1, 1, 3));
    // What is gone was active all the same.
    desk.delete("old", 0).await;
    assert_eq!(usage(&desk).await.monthly_active(), 2);
    desk.advance(MONTH + MONTH / 2);
    assert_eq!(usage(&desk).await.monthly_active(), 0);
}

async fn an_updated_token_is_active_and_so_is_a_duplicate(desk: StoreHarness) {
    desk.insert(made(&desk, "one")).await;
    let two = TokenRecord { fingerprint: None, ..made(&desk, "two") };
    desk.insert(two.clone()).await;
    desk.advance(MONTH);
    desk.update(desk.change(revised(&two), Deduplicate::No)).await;
    assert_eq!(usage(&desk).await.active, 1);
    desk.insert_once(made(&desk, "again")).await;
    assert_eq!(usage(&desk).await.active, 2);
    read(&desk, "one").await;
    let after = usage(&desk).await;
    assert_eq!((after.active, after.created), (2, 0));
}

async fn months_are_forgotten_after_a_year(desk: StoreHarness) {
    desk.insert(made(&desk, "one")).await;
    desk.advance(MONTH);
    read(&desk, "one").await;
    let of = async |month| desk.store().find_usage(&mandate(&desk), Month(month)).await.unwrap();
    // The set of a month goes with it, and its count a year later.
    assert_eq!(desk.sweep_usage(Month(202_702)).await, 0);
    assert_eq!(desk.sweep_usage(Month(202_703)).await, 1);
    assert_eq!(of(202_702).await.active, 1);
    assert_eq!(desk.sweep_usage(Month(202_802)).await, 1);
    assert_eq!((of(202_701).await.created, of(202_702).await.active), (0, 1));
    assert_eq!(desk.sweep_usage(Month(202_803)).await, 1);
    assert_eq!((of(202_702).await.active, of(202_702).await.total()), (0, 1));
}

async fn a_deleted_tenant_is_not_counted(desk: StoreHarness) {
    desk.insert(made(&desk, "one")).await;
    desk.advance(MONTH);
    read(&desk, "one").await;
    assert_eq!(usage(&desk).await.monthly_active(), 1);
    let mandate = mandate(&desk);
    delete_tenant(&desk.world.vault, mandate.clone()).await.unwrap();
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&desk.world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    let left = desk.store().find_usage(&mandate, Month::of(desk.now())).await.unwrap();
    assert_eq!(left, Usage::default());
}

#[tokio::test]
async fn the_engine_leaves_nothing_of_a_deleted_tenant() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    desk.insert(made(&desk, "one")).await;
    desk.advance(MONTH);
    read(&desk, "one").await;
    let file = desk.world.file();
    let rows = |file: &std::path::Path, tables: &[&str]| {
        let database = Connection::open(file).unwrap();
        let count = |it: &&str| -> i64 {
            let sql = format!("SELECT count(*) FROM {it}");
            database.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        tables.iter().map(count).collect::<Vec<_>>()
    };
    let (vault, access) = (["usage_types", "usage_months"], ["active_tokens", "active_months"]);
    let log = file.with_file_name("access.db");
    assert_eq!((rows(&file, &vault), rows(&log, &access)), (vec![1, 1], vec![1, 1]));
    delete_tenant(&desk.world.vault, mandate(&desk)).await.unwrap();
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&desk.world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    assert_eq!((rows(&file, &vault), rows(&log, &access)), (vec![0, 0], vec![0, 0]));
}

#[tokio::test]
async fn a_copy_has_the_counts_and_goes_on_counting() {
    let desk = StoreHarness::open(Engine::Sqlite).await;
    desk.insert(made(&desk, "one")).await;
    desk.advance(MONTH);
    read(&desk, "one").await;
    let before = usage(&desk).await;
    assert_eq!((before.total(), before.active), (1, 1));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("scrip.db");
    std::fs::File::create(&copy).unwrap();
    copy_database(&desk.world.file(), &copy, u64::MAX, |_| ()).unwrap();
    take_out_access(&copy, &folder.path().join("access.db")).unwrap();
    let StoreHarness { caller, stranger, world } = desk;
    let world = world.with_store(|| Arc::new(SqliteStore::open(&copy).unwrap()));
    let desk = StoreHarness { caller, stranger, world };
    assert_eq!(usage(&desk).await, before);
    read(&desk, "one").await;
    assert_eq!(usage(&desk).await, before);
    desk.insert(TokenRecord { fingerprint: None, ..made(&desk, "two") }).await;
    desk.delete("one", 0).await;
    let after = usage(&desk).await;
    assert_eq!((after.total(), after.created, after.active), (1, 1, 1));
}

#[test]
fn months() {
    for (unix_ms, month) in [
        (0, 197_001),
        (1_793_491_199_999, 202_610),
        (1_793_491_200_000, 202_611),
        (1_798_761_599_999, 202_612),
        (1_798_761_600_000, 202_701),
    ] {
        assert_eq!(Month::of(Timestamp { unix_ms }), Month(month));
    }
}
