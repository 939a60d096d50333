//! Usage counters: the number of tokens, and each active token once per month.

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    Timestamp,
    card::TokenType,
    operations::tenants::delete_tenant::delete_tenant,
    policy::PolicyPermit,
    read_log::{ReadLogBatch, ReadLogEntry},
    store::TenantUsage,
    token::TokenRecord,
    types::{Operation, Transform, time::Month},
};
use scrip_store::{
    SqliteStore,
    sqlite::backup::{copy_database, extract_read_log},
};
use scrip_testing::{
    clock::START,
    store_harness::{DAY, StoreHarness, revised_record, token_record},
    vault_harness::Engine,
};

on_every_engine! {
    StoreHarness;
    usage_counts_tokens_by_type
    monthly_usage_counts_created_tokens_and_active_tokens_once
    updated_and_deduplicated_tokens_are_active
    monthly_usage_is_deleted_after_a_year
    deleted_tenant_has_no_usage
}

fn policy_permit(harness: &StoreHarness) -> PolicyPermit {
    PolicyPermit::for_operator(Arc::clone(harness.caller.principal().tenant()))
}

async fn find_usage(harness: &StoreHarness) -> TenantUsage {
    // With this entry, the store also writes the queued token activity.
    record_read(harness, ReadLogEntry::new("", "empty")).await;
    harness
        .store()
        .find_usage(&policy_permit(harness), Month::from_timestamp(harness.now()))
        .await
        .unwrap()
}

async fn record_read(harness: &StoreHarness, entry: ReadLogEntry) {
    let (tenant, audit) = (harness.caller.tenant().id, harness.audit(Operation::GetToken));
    harness
        .store()
        .append_read_log(ReadLogBatch {
            tenant,
            audit,
            entries: vec![entry],
            deliveries: Vec::new(),
        })
        .await
        .unwrap();
}

async fn read_token(harness: &StoreHarness, id: &str) {
    let token = harness.find(id).await.unwrap();
    record_read(harness, ReadLogEntry::for_token(&token.record, Transform::Mask)).await;
}

fn token_created_now(harness: &StoreHarness, id: &str) -> TokenRecord {
    TokenRecord { created_at: harness.now(), ..token_record(id) }
}

fn type_counts(usage: &TenantUsage) -> Vec<(TokenType, u64)> {
    usage.types.iter().map(|it| (it.token_type, it.count)).collect()
}

async fn usage_counts_tokens_by_type(harness: StoreHarness) {
    assert_eq!(find_usage(&harness).await, TenantUsage::default());
    harness.insert(token_created_now(&harness, "one")).await;
    harness.advance(Duration::from_secs(1));
    harness
        .insert(TokenRecord { token_type: TokenType::Card, ..token_created_now(&harness, "two") })
        .await;
    let expiring = TokenRecord {
        expires_at: Some(harness.now().plus(DAY)),
        ..token_created_now(&harness, "three")
    };
    harness.insert(expiring).await;
    let usage = find_usage(&harness).await;
    assert_eq!(type_counts(&usage), [(TokenType::Card, 1), (TokenType::Token, 2)]);
    assert_eq!((usage.total(), usage.created), (3, 3));
    assert_eq!(usage.types[1].last_created_at, harness.now());
    // Duplicates, other tenants and rejected writes are not counted.
    harness.insert_deduplicated(token_created_now(&harness, "again")).await;
    harness.insert(token_created_now(&harness, "one")).await;
    assert_eq!(find_usage(&harness).await, usage);
    harness.delete("one", 0).await;
    harness.advance(DAY);
    // A token counts until it is deleted.
    assert_eq!(find_usage(&harness).await.total(), 2);
    harness.delete_expired_tokens(harness.now()).await;
    let remaining = find_usage(&harness).await;
    assert_eq!(type_counts(&remaining), [(TokenType::Card, 1), (TokenType::Token, 0)]);
    assert_eq!(remaining.created, 3);
    let harness = harness.with_callers_swapped();
    assert_eq!(find_usage(&harness).await, TenantUsage::default());
}

/// Long enough to advance from the middle of a month into the next.
const MONTH: Duration = Duration::from_secs(20 * 24 * 60 * 60);

async fn monthly_usage_counts_created_tokens_and_active_tokens_once(harness: StoreHarness) {
    assert_eq!(Month::from_timestamp(START), Month(202_701));
    harness.insert(token_created_now(&harness, "old")).await;
    harness.insert(TokenRecord { fingerprint: None, ..token_created_now(&harness, "other") }).await;
    read_token(&harness, "old").await;
    let first = find_usage(&harness).await;
    assert_eq!((first.created, first.active, first.monthly_active()), (2, 0, 2));
    harness.advance(MONTH);
    assert_eq!(Month::from_timestamp(harness.now()), Month(202_702));
    harness.insert(token_created_now(&harness, "new")).await;
    for _ in 0..3 {
        read_token(&harness, "old").await;
        read_token(&harness, "new").await;
    }
    let second = find_usage(&harness).await;
    assert_eq!((second.created, second.active, second.total()), (1, 1, 3));
    // A deleted token was still active.
    harness.delete("old", 0).await;
    assert_eq!(find_usage(&harness).await.monthly_active(), 2);
    harness.advance(MONTH + MONTH / 2);
    assert_eq!(find_usage(&harness).await.monthly_active(), 0);
}

async fn insert_and_read_a_month_later(harness: &StoreHarness) {
    harness.insert(token_created_now(harness, "one")).await;
    harness.advance(MONTH);
    read_token(harness, "one").await;
}

async fn updated_and_deduplicated_tokens_are_active(harness: StoreHarness) {
    harness.insert(token_created_now(&harness, "one")).await;
    let second_token = TokenRecord { fingerprint: None, ..token_created_now(&harness, "two") };
    harness.insert(second_token.clone()).await;
    harness.advance(MONTH);
    harness.revise(revised_record(&second_token)).await;
    assert_eq!(find_usage(&harness).await.active, 1);
    harness.insert_deduplicated(token_created_now(&harness, "again")).await;
    assert_eq!(find_usage(&harness).await.active, 2);
    read_token(&harness, "one").await;
    let usage = find_usage(&harness).await;
    assert_eq!((usage.active, usage.created), (2, 0));
}

async fn monthly_usage_is_deleted_after_a_year(harness: StoreHarness) {
    insert_and_read_a_month_later(&harness).await;
    let find_usage_of = async |month| {
        harness.store().find_usage(&policy_permit(&harness), Month(month)).await.unwrap()
    };
    // The active tokens of a month are deleted first, and their count a year later.
    assert_eq!(harness.delete_old_usage(Month(202_702)).await, 0);
    assert_eq!(harness.delete_old_usage(Month(202_703)).await, 1);
    assert_eq!(find_usage_of(202_702).await.active, 1);
    assert_eq!(harness.delete_old_usage(Month(202_802)).await, 1);
    assert_eq!((find_usage_of(202_701).await.created, find_usage_of(202_702).await.active), (0, 1));
    assert_eq!(harness.delete_old_usage(Month(202_803)).await, 1);
    assert_eq!((find_usage_of(202_702).await.active, find_usage_of(202_702).await.total()), (0, 1));
}

async fn deleted_tenant_has_no_usage(harness: StoreHarness) {
    insert_and_read_a_month_later(&harness).await;
    assert_eq!(find_usage(&harness).await.monthly_active(), 1);
    let permit = policy_permit(&harness);
    delete_tenant(&harness.vault_harness.vault, permit.clone()).await.unwrap();
    harness.vault_harness.purge_tenants().await;
    let remaining =
        harness.store().find_usage(&permit, Month::from_timestamp(harness.now())).await.unwrap();
    assert_eq!(remaining, TenantUsage::default());
}

#[tokio::test]
async fn purge_removes_all_usage_rows_of_a_deleted_tenant() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    insert_and_read_a_month_later(&harness).await;
    let file = harness.vault_harness.file();
    let count_rows = |file: &std::path::Path, tables: &[&str]| {
        let connection = Connection::open(file).unwrap();
        let count = |it: &&str| -> i64 {
            let sql = format!("SELECT count(*) FROM {it}");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        tables.iter().map(count).collect::<Vec<_>>()
    };
    let (vault_tables, read_log_tables) =
        (["usage_types", "usage_months"], ["active_tokens", "active_months"]);
    let read_log = file.with_file_name("read_log.db");
    let counts = (count_rows(&file, &vault_tables), count_rows(&read_log, &read_log_tables));
    assert_eq!(counts, (vec![1, 1], vec![1, 1]));
    delete_tenant(&harness.vault_harness.vault, policy_permit(&harness)).await.unwrap();
    harness.vault_harness.purge_tenants().await;
    let counts = (count_rows(&file, &vault_tables), count_rows(&read_log, &read_log_tables));
    assert_eq!(counts, (vec![0, 0], vec![0, 0]));
}

#[tokio::test]
async fn restored_backup_keeps_and_continues_usage_counts() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    insert_and_read_a_month_later(&harness).await;
    let usage_before = find_usage(&harness).await;
    assert_eq!((usage_before.total(), usage_before.active), (1, 1));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("scrip.db");
    std::fs::File::create(&copy).unwrap();
    copy_database(&harness.vault_harness.file(), &copy, u64::MAX, |_| ()).unwrap();
    extract_read_log(&copy, &folder.path().join("read_log.db")).unwrap();
    let StoreHarness { caller, stranger, vault_harness } = harness;
    let vault_harness = vault_harness.with_store(|| Arc::new(SqliteStore::open(&copy).unwrap()));
    let harness = StoreHarness { caller, stranger, vault_harness };
    assert_eq!(find_usage(&harness).await, usage_before);
    read_token(&harness, "one").await;
    assert_eq!(find_usage(&harness).await, usage_before);
    harness.insert(TokenRecord { fingerprint: None, ..token_created_now(&harness, "two") }).await;
    harness.delete("one", 0).await;
    let usage_after = find_usage(&harness).await;
    assert_eq!((usage_after.total(), usage_after.created, usage_after.active), (1, 1, 1));
}

#[test]
fn timestamps_map_to_utc_months() {
    for (unix_ms, month) in [
        (0, 197_001),
        (1_793_491_199_999, 202_610),
        (1_793_491_200_000, 202_611),
        (1_798_761_599_999, 202_612),
        (1_798_761_600_000, 202_701),
    ] {
        assert_eq!(Month::from_timestamp(Timestamp { unix_ms }), Month(month));
    }
}
