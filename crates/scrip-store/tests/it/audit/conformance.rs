//! The audit log and the read log: their records, the order of records, and pruning.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error,
    audit::{
        AuditTrail, LogKind, LogRecord, ReadRecording,
        verify::{ChainAnchors, Verifier},
    },
    operations::{
        logs::prune_logs::prune_logs,
        tenants::delete_tenant::{delete_tenant, delete_tenant_by_id},
        tokens::{delete_token::delete_token, get_token::get_token},
    },
    policy::{Caller, PolicyPermit, Tenant},
    read_log::ReadLogEntry,
    types::{Operation, Transform},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create},
    vault_harness::{VaultHarness, token_id},
};

const HOUR: Duration = Duration::from_secs(60 * 60);

on_every_engine! {
    VaultHarness;
    token_operations_are_recorded_in_order_in_both_logs
    read_log_entries_of_one_call_are_consecutive
    disabled_read_log_records_no_reads
    records_are_pruned_after_the_retention_quota
    records_of_a_deleted_tenant_are_kept_for_its_retention
    records_of_a_tenant_deleted_without_readable_policy_are_never_pruned
    operator_record_with_a_wrong_clock_does_not_block_pruning
}

async fn create_tenant_with_caller(harness: &VaultHarness) -> (Arc<Tenant>, Caller) {
    let tenant = harness.default_tenant().await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Mask, TOKENS)]))
        .await;
    (tenant, caller)
}

async fn list_records(harness: &VaultHarness, tenant: &Tenant, log: LogKind) -> Vec<LogRecord> {
    harness.vault.store.list_records(log, tenant.id, 0, 1000).await.unwrap()
}

fn summarize(records: &[LogRecord]) -> Vec<String> {
    let summary = |it: &LogRecord| {
        format!("{} {} {} {}", it.sequence, it.actor_kind, it.operation, it.outcome)
    };
    records.iter().map(summary).collect()
}

async fn token_operations_are_recorded_in_order_in_both_logs(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    get_token(&harness.vault, &caller, &id).await.unwrap();
    delete_token(&harness.vault, &caller, &id).await.unwrap();
    assert!(matches!(get_token(&harness.vault, &caller, &id).await, Err(Error::NotFound)));
    let changes = list_records(&harness, &tenant, LogKind::Audit).await;
    let expected = [
        "1 operator create_tenant done",
        "2 operator create_application done",
        "3 application create_token created",
        "4 application delete_token deleted",
    ];
    assert_eq!(summarize(&changes), expected);
    let reads = list_records(&harness, &tenant, LogKind::Read).await;
    assert_eq!(summarize(&reads), ["1 application get_token masked"]);
    assert!(reads.iter().chain(&changes[2..]).all(|it| it.entity == id.as_str()));
    assert_eq!(reads[0].actor, Some(caller.application()));
    assert_eq!((&*reads[0].trace, &*reads[0].address), ("test", "127.0.0.1"));
    assert_eq!(
        summarize(
            &harness.vault.store.list_records(LogKind::Audit, tenant.id, 2, 1).await.unwrap()
        ),
        [expected[2]]
    );

    for (log, records) in [(LogKind::Audit, changes), (LogKind::Read, reads)] {
        let chains = harness.vault.store.list_chains(log).await.unwrap();
        assert_eq!(chains.len(), 1);
        assert_eq!(harness.vault.store.list_heads(log).await.unwrap(), [chains[0].head]);
        assert_eq!(chains[0].oldest_at, records.first().map(|it| it.at));
        let anchors = ChainAnchors {
            heads: chains.iter().map(|it| it.head).collect(),
            ..ChainAnchors::default()
        };
        let key = Arc::clone(harness.vault.audit_trail.key().unwrap());
        let mut verifier = Verifier::new(log, key, anchors, &[]);
        records.iter().for_each(|it| verifier.verify_record(&it.to_row()));
        assert_eq!(verifier.finish(&[tenant.id]).problems, []);
    }
}

async fn read_log_entries_of_one_call_are_consecutive(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    let (_, other_caller) = create_tenant_with_caller(&harness).await;
    let record_reads = async |caller: &Caller, names: &[&str]| {
        let entries = names.iter().map(|it| ReadLogEntry::new(*it, "revealed")).collect();
        harness.vault.record_reads(caller, Operation::Detokenize, entries).await.unwrap();
    };
    record_reads(&caller, &["one", "two"]).await;
    tokio::join!(
        record_reads(&caller, &["three", "four"]),
        record_reads(&other_caller, &["a", "b"]),
        record_reads(&caller, &["five"])
    );
    record_reads(&caller, &[]).await;
    let reads = list_records(&harness, &tenant, LogKind::Read).await;
    assert!(reads.iter().map(|it| it.sequence).eq(1..=5));
    let names: Vec<_> = reads.iter().map(|it| it.entity.as_str()).collect();
    assert_eq!(names[..2], ["one", "two"]);
    let index_of_three = names.iter().position(|it| *it == "three").unwrap();
    assert_eq!(names[index_of_three + 1], "four");
    assert_eq!(list_records(&harness, other_caller.tenant(), LogKind::Read).await.len(), 2);
}

async fn disabled_read_log_records_no_reads(mut harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    let key = Arc::clone(harness.vault.audit_trail.key().unwrap());
    harness.vault.audit_trail = Arc::new(AuditTrail::new(ReadRecording::Off));
    harness.vault.audit_trail.set_key(&key);
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    get_token(&harness.vault, &caller, &id).await.unwrap();
    assert_eq!(list_records(&harness, &tenant, LogKind::Read).await, []);
    assert_eq!(list_records(&harness, &tenant, LogKind::Audit).await.len(), 3);
}

/// Prunes both logs until no record is due for pruning.
async fn prune(harness: &VaultHarness) {
    for chain in prune_logs(&harness.vault, &harness.directory().await).await.unwrap() {
        while harness.vault.store.prune_chain(chain.clone()).await.unwrap() > 0 {}
    }
}

async fn count_records(harness: &VaultHarness, tenant: &Tenant) -> [usize; 2] {
    [
        list_records(harness, tenant, LogKind::Audit).await.len(),
        list_records(harness, tenant, LogKind::Read).await.len(),
    ]
}

async fn records_are_pruned_after_the_retention_quota(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    let create_and_read = async || {
        let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
        get_token(&harness.vault, &caller, &id).await.unwrap();
    };
    for _ in 0..200 {
        create_and_read().await;
    }
    harness.clock.advance(23 * HOUR);
    create_and_read().await;
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [203, 201]);
    // The retention of one day has not passed yet.
    harness.clock.advance(HOUR);
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [203, 201]);
    harness.clock.advance(Duration::from_millis(1));
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [1, 1]);
    create_and_read().await;
    let changes = list_records(&harness, &tenant, LogKind::Audit).await;
    assert!(changes.iter().map(|it| it.sequence).eq([203, 204]));
    harness.clock.advance(48 * HOUR);
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [0, 0]);
    // The chain continues with the next number.
    create_and_read().await;
    assert_eq!(list_records(&harness, &tenant, LogKind::Audit).await[0].sequence, 205);
    assert_eq!(list_records(&harness, &tenant, LogKind::Read).await[0].sequence, 203);
}

async fn records_of_a_deleted_tenant_are_kept_for_its_retention(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    get_token(&harness.vault, &caller, &id).await.unwrap();
    delete_tenant(&harness.vault, PolicyPermit::for_operator(Arc::clone(&tenant))).await.unwrap();
    harness.purge_tenants().await;
    assert_eq!(count_records(&harness, &tenant).await, [4, 1]);
    harness.clock.advance(24 * HOUR);
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [4, 1]);
    harness.clock.advance(HOUR);
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [0, 0]);
    for log in LogKind::ALL {
        assert_eq!(harness.vault.store.list_chains(log).await.unwrap().len(), 1);
    }
}

async fn records_of_a_tenant_deleted_without_readable_policy_are_never_pruned(
    harness: VaultHarness,
) {
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    assert!(get_token(&harness.vault, &caller, &token_id("none")).await.is_err());
    delete_tenant_by_id(&harness.vault, tenant.id, None).await.unwrap();
    harness.clock.advance(24 * 365 * HOUR);
    prune(&harness).await;
    assert_eq!(count_records(&harness, &tenant).await, [3, 0]);
}

/// An operator command uses the clock of its machine, which can be wrong. Records of a server have
/// reliable times.
async fn operator_record_with_a_wrong_clock_does_not_block_pruning(harness: VaultHarness) {
    let wrong_time = START.plus(24 * 1000 * HOUR);
    harness.clock.set(wrong_time);
    let (tenant, caller) = create_tenant_with_caller(&harness).await;
    prune(&harness).await;
    assert_eq!(list_records(&harness, &tenant, LogKind::Audit).await.len(), 2);
    harness.clock.set(START);
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    harness.clock.advance(24 * HOUR);
    prune(&harness).await;
    assert_eq!(
        list_records(&harness, &tenant, LogKind::Audit).await.len(),
        3,
        "no record is due for pruning"
    );

    harness.clock.set(wrong_time);
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    harness.clock.set(START.plus(HOUR));
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    harness.clock.advance(48 * HOUR);
    prune(&harness).await;
    let remaining: Vec<_> = list_records(&harness, &tenant, LogKind::Audit)
        .await
        .iter()
        .map(|it| (it.sequence, it.at))
        .collect();
    assert_eq!(remaining, [(4, wrong_time), (5, START.plus(HOUR))]);
}
