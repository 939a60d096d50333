//! 3DS sessions and their events: written in one transaction.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    disclosure::Deduplicate,
    idempotency::{ClaimOutcome, IdempotencyRecord},
    operations::tenants::delete_tenant::delete_tenant,
    policy::PolicyPermit,
    store::ExpiringEntity,
    threeds::{ThreeDsSessionCard, ThreeDsSessionRecord, ThreeDsSessionWrite},
    token::TokenRecord,
    token_batch::{
        BatchOutcome, CvcChange, TokenBatch, TokenWrite, UpdateToken, WriteConflict, WriteOutcome,
    },
    types::{Operation, Permission},
};
use scrip_seal::Sealed;
use scrip_testing::{
    clock::START,
    store_harness::{
        StoreHarness, no_events, revised_record, sessions::threeds_session_id, token_record,
    },
    vault_harness::Engine,
};

on_every_engine! {
    StoreHarness;
    session_is_found_by_its_tenant_and_by_notifications
    session_id_is_unique_across_tenants
    inserting_a_session_for_another_tenant_fails
    session_update_requires_the_next_revision
    session_update_keeps_creator_and_creation_time
    session_update_with_another_tenant_is_stale
    session_expires_at_its_exact_time
    expired_sessions_are_swept_with_an_audit_record_each
    deleting_a_tenant_purges_its_sessions_and_events
    session_writes_fail_after_tenant_deletion
    idempotency_record_commits_with_its_session
    failed_session_write_leaves_nothing
    guarded_token_update_is_rejected_while_a_session_names_the_token
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const MOMENT: Duration = Duration::from_millis(1);

pub(crate) fn next_revision(
    before: &ThreeDsSessionRecord,
    ends_at: Option<Timestamp>,
) -> ThreeDsSessionRecord {
    let body = Sealed::from_stored(vec![9; 50]);
    ThreeDsSessionRecord {
        deletes_at: ends_at,
        revision: before.revision + 1,
        body,
        ..before.clone()
    }
}

async fn session_is_found_by_its_tenant_and_by_notifications(harness: StoreHarness) {
    let session = harness.threeds_session_record(1);
    harness.insert_session(session.clone(), &[]).await.unwrap();
    assert_eq!(harness.find_threeds_session(1).await, Some(session.clone()));
    assert_eq!(harness.find_notified_threeds_session(1).await, Some(session.clone()));
    assert_eq!(harness.find_threeds_session(2).await, None);
    assert_eq!(harness.find_notified_threeds_session(2).await, None);
    let expected = [
        "create_threeds_session".to_owned(),
        threeds_session_id(1).to_string(),
        "created".to_owned(),
    ];
    assert_eq!(harness.threeds_session_records().await, [expected]);
    assert_eq!(harness.threeds_row_counts().await, [1, 0]);
    let harness = harness.with_callers_swapped();
    assert_eq!(harness.find_threeds_session(1).await, None, "another tenant");
    assert_eq!(harness.find_notified_threeds_session(1).await, Some(session), "without a tenant");
}

async fn session_id_is_unique_across_tenants(harness: StoreHarness) {
    harness.insert_session(harness.threeds_session_record(1), &[]).await.unwrap();
    harness.insert_session(harness.threeds_session_record(1), &[1]).await.unwrap_err();
    let first = harness.find_threeds_session(1).await;
    let harness = harness.with_callers_swapped();
    harness.insert_session(harness.threeds_session_record(1), &[1]).await.unwrap_err();
    assert_eq!(harness.find_notified_threeds_session(1).await, first);
    assert_eq!(harness.threeds_row_counts().await, [1, 0]);
    assert!(harness.threeds_session_records().await.is_empty());
}

async fn inserting_a_session_for_another_tenant_fails(harness: StoreHarness) {
    let theirs = harness.stranger.tenant().id;
    let session = ThreeDsSessionRecord { tenant: theirs, ..harness.threeds_session_record(1) };
    harness.insert_session(session, &[1]).await.unwrap_err();
    assert_eq!(harness.threeds_row_counts().await, [0, 0]);
}

async fn session_update_requires_the_next_revision(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    harness.insert_session(first.clone(), &[]).await.unwrap();
    let second = next_revision(&first, None);
    let records = harness.threeds_session_records().await.len();
    for revision in [i64::MIN, -1, 0, 1, 3, i64::MAX] {
        let stale = ThreeDsSessionRecord { revision, ..second.clone() };
        assert_eq!(harness.update_session(stale, &[1]).await, ChangeOutcome::Stale);
    }
    assert_eq!(
        (harness.threeds_row_counts().await, harness.threeds_session_records().await.len()),
        ([1, 0], records)
    );
    assert_eq!(harness.find_threeds_session(1).await, Some(first));
    let write = ThreeDsSessionWrite {
        audit: harness.audit(Operation::UpdateThreeDsSession),
        outcome: "updated",
        ..harness.threeds_session_write(second.clone(), &[1])
    };
    assert_eq!(harness.update_threeds_session(write).await, ChangeOutcome::Done);
    assert_eq!(harness.find_threeds_session(1).await, Some(second.clone()));
    let expected = [
        "update_threeds_session".to_owned(),
        threeds_session_id(1).to_string(),
        "updated".to_owned(),
    ];
    assert_eq!(harness.threeds_session_records().await.last(), Some(&expected));
    // The slower write finds the session changed.
    assert_eq!(harness.update_session(second, &[2]).await, ChangeOutcome::Stale);
    assert_eq!(harness.threeds_row_counts().await, [1, 1]);
    let absent = next_revision(&harness.threeds_session_record(2), None);
    assert_eq!(harness.update_session(absent, &[3]).await, ChangeOutcome::Stale);
}

async fn session_update_keeps_creator_and_creation_time(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    harness.insert_session(first.clone(), &[]).await.unwrap();
    let created_by = harness.stranger.application();
    let created_at = START.plus(MINUTE);
    let second = ThreeDsSessionRecord { created_by, created_at, ..next_revision(&first, None) };
    assert_eq!(harness.update_session(second.clone(), &[]).await, ChangeOutcome::Done);
    let ThreeDsSessionRecord { created_by, created_at, .. } = first;
    let expected = ThreeDsSessionRecord { created_by, created_at, ..second };
    assert_eq!(harness.find_threeds_session(1).await, Some(expected));
}

async fn session_update_with_another_tenant_is_stale(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    harness.insert_session(first.clone(), &[]).await.unwrap();
    let theirs = ThreeDsSessionRecord {
        tenant: harness.stranger.tenant().id,
        ..next_revision(&first, None)
    };
    assert_eq!(harness.update_session(theirs, &[1]).await, ChangeOutcome::Stale);
    let found = (harness.find_threeds_session(1).await, harness.threeds_row_counts().await);
    assert_eq!(found, (Some(first), [1, 0]));
}

async fn session_expires_at_its_exact_time(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    harness.insert_session(first.clone(), &[]).await.unwrap();
    harness.advance(MINUTE - MOMENT);
    assert!(
        harness.find_threeds_session(1).await.is_some()
            && harness.find_notified_threeds_session(1).await.is_some()
    );
    harness.advance(MOMENT);
    assert_eq!(
        (harness.find_threeds_session(1).await, harness.find_notified_threeds_session(1).await),
        (None, None)
    );
    // The row still exists: a client that was sent to a challenge can still write the result.
    let lasting = next_revision(&first, None);
    assert_eq!(harness.update_session(lasting, &[]).await, ChangeOutcome::Done);
    harness.advance(1_000_000 * MINUTE);
    assert!(
        harness.find_threeds_session(1).await.is_some(),
        "an authenticated session should stay"
    );
    assert_eq!(harness.delete_expired_threeds_sessions(harness.now()).await, 0);
}

async fn expired_sessions_are_swept_with_an_audit_record_each(harness: StoreHarness) {
    for number in 0..100_u8 {
        let ends_at = match number % 3 {
            0 => None,
            1 => Some(START.plus(MINUTE + MOMENT * (u32::from(number) * 7 % 100))),
            _ => Some(START.plus(5 * MINUTE)),
        };
        let session =
            ThreeDsSessionRecord { deletes_at: ends_at, ..harness.threeds_session_record(number) };
        harness.insert_session(session, &[number]).await.unwrap();
    }
    assert_eq!(harness.delete_expired_threeds_sessions(START.plus(MINUTE - MOMENT)).await, 0);
    harness.advance(2 * MINUTE);
    assert_eq!(harness.delete_expired_threeds_sessions(harness.now()).await, 33);
    assert_eq!(harness.threeds_row_counts().await, [67, 100], "the events should stay");
    let mut expired: Vec<u8> = (0..100).filter(|it| it % 3 == 1).collect();
    expired.sort_by_key(|it| u32::from(*it) * 7 % 100);
    let expired: Vec<_> =
        expired.into_iter().map(|it| threeds_session_id(it).to_string()).collect();
    let records = harness.threeds_session_records().await;
    let (operation, outcome) = ("expire_threeds_session".to_owned(), "expired".to_owned());
    let expected: Vec<_> =
        expired.iter().map(|it| [operation.clone(), it.clone(), outcome.clone()]).collect();
    assert_eq!(records[100..], expected);
    assert_eq!(harness.delete_expired_threeds_sessions(harness.now()).await, 0);
}

async fn deleting_a_tenant_purges_its_sessions_and_events(harness: StoreHarness) {
    for number in 1..=3 {
        harness
            .insert_session(harness.threeds_session_record(number), &[number, number + 10])
            .await
            .unwrap();
    }
    let harness = harness.with_callers_swapped();
    harness.insert_session(harness.threeds_session_record(4), &[4]).await.unwrap();
    let tenant = Arc::clone(harness.stranger.principal().tenant());
    delete_tenant(&harness.vault_harness.vault, PolicyPermit::for_operator(tenant)).await.unwrap();
    harness.vault_harness.purge_tenants().await;
    assert_eq!(harness.threeds_row_counts().await, [1, 1]);
    assert!(harness.find_threeds_session(4).await.is_some());
    assert_eq!(harness.find_notified_threeds_session(1).await, None);
    let events: Vec<_> = harness.list_deliveries().await.iter().map(|it| it.event).collect();
    assert_eq!(events, [harness.new_delivery(4).event]);
}

async fn session_writes_fail_after_tenant_deletion(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    harness.insert_session(first.clone(), &[]).await.unwrap();
    let tenant = Arc::clone(harness.caller.principal().tenant());
    delete_tenant(&harness.vault_harness.vault, PolicyPermit::for_operator(tenant)).await.unwrap();
    harness.insert_session(harness.threeds_session_record(2), &[2]).await.unwrap_err();
    let update = harness.threeds_session_write(next_revision(&first, None), &[1]);
    harness.store().update_threeds_session(update).await.unwrap_err();
    harness.vault_harness.purge_tenants().await;
    assert_eq!(harness.threeds_row_counts().await, [0, 0]);
}

fn response_without_tokens(harness: &StoreHarness, digest: u8) -> Option<IdempotencyRecord> {
    Some(IdempotencyRecord { token_data: vec![], ..harness.idempotency_record([digest; 32]) })
}

async fn idempotency_record_commits_with_its_session(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    let write = harness.threeds_session_write(first.clone(), &[]);
    let response = response_without_tokens(&harness, 1);
    harness
        .insert_threeds_session(ThreeDsSessionWrite { idempotency: response, ..write })
        .await
        .unwrap();
    let write = harness.threeds_session_write(next_revision(&first, None), &[]);
    let response = response_without_tokens(&harness, 2);
    harness.update_threeds_session(ThreeDsSessionWrite { idempotency: response, ..write }).await;
    // A stale write creates no event.
    let write = harness.threeds_session_write(next_revision(&first, None), &[]);
    let response = response_without_tokens(&harness, 3);
    harness.update_threeds_session(ThreeDsSessionWrite { idempotency: response, ..write }).await;
    for (digest, is_known) in [(1, true), (2, true), (3, false)] {
        let known = matches!(harness.claim_digest([digest; 32]).await, ClaimOutcome::Completed(_));
        assert_eq!(known, is_known, "{digest}");
    }
}

async fn failed_session_write_leaves_nothing(harness: StoreHarness) {
    let first = harness.threeds_session_record(1);
    let write = harness.threeds_session_write(first.clone(), &[1]);
    let response = response_without_tokens(&harness, 1);
    harness
        .insert_threeds_session(ThreeDsSessionWrite { idempotency: response, ..write })
        .await
        .unwrap();
    let before = (
        harness.threeds_row_counts().await,
        harness.threeds_session_records().await,
        harness.list_deliveries().await,
    );
    // The idempotency record is written last and conflicts with an existing one.
    let write = harness.threeds_session_write(harness.threeds_session_record(2), &[2]);
    let response = response_without_tokens(&harness, 1);
    harness
        .insert_threeds_session(ThreeDsSessionWrite { idempotency: response, ..write })
        .await
        .unwrap_err();
    let write = harness.threeds_session_write(next_revision(&first, None), &[3]);
    let response = response_without_tokens(&harness, 1);
    harness
        .store()
        .update_threeds_session(ThreeDsSessionWrite { idempotency: response, ..write })
        .await
        .unwrap_err();
    assert_eq!(
        (
            harness.threeds_row_counts().await,
            harness.threeds_session_records().await,
            harness.list_deliveries().await
        ),
        before
    );
    assert_eq!(harness.find_threeds_session(1).await, Some(first));
}

/// Rows of a tenant without an audit record stay; the rows of other tenants are deleted.
#[tokio::test]
async fn unrecordable_expired_session_does_not_block_other_tenants() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    for number in 0..20 {
        harness.insert_session(harness.threeds_session_record(number), &[]).await.unwrap();
    }
    let ours = harness.tenant().0.simple().to_string();
    let harness = harness.with_callers_swapped();
    let last = ThreeDsSessionRecord {
        deletes_at: Some(START.plus(2 * MINUTE)),
        ..harness.threeds_session_record(99)
    };
    harness.insert_session(last, &[]).await.unwrap();
    let attacker = rusqlite::Connection::open(harness.vault_harness.file()).unwrap();
    let rejected = format!(
        "CREATE TRIGGER refused BEFORE INSERT ON log_records WHEN NEW.tenant = x'{ours}'
        BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    attacker.execute_batch(&rejected).unwrap();
    harness.advance(3 * MINUTE);
    let delete_expired = async || {
        let events = harness.expiry_events(Operation::ExpireThreeDsSession).await;
        let (kind, audit) = (ExpiringEntity::ThreeDsSession, events.audit.clone());
        harness.store().delete_expired(kind, harness.now(), audit, events).await
    };
    assert_eq!(delete_expired().await.unwrap(), 1);
    assert!(delete_expired().await.is_err(), "the remaining rows should be reported");
    assert_eq!(harness.threeds_row_counts().await, [20, 0]);
    attacker.execute_batch("DROP TRIGGER refused").unwrap();
    assert_eq!(harness.delete_expired_threeds_sessions(harness.now()).await, 20);
}

/// Checked in the transaction of the write, so no session can be added in between.
async fn guarded_token_update_is_rejected_while_a_session_names_the_token(harness: StoreHarness) {
    let update = async |before: &TokenRecord, unless_named| {
        let update = UpdateToken {
            permit: harness.permit(Permission::TokenUpdate),
            token: revised_record(before),
            cvc: CvcChange::Keep,
            intent: None,
            deduplicate: Deduplicate::No,
            reject_if_in_session_at: unless_named,
            audit: harness.audit(Operation::UpdateToken),
            events: no_events(),
        };
        let batch = TokenBatch { writes: vec![TokenWrite::Update(update)], build_record: None };
        harness.store().write_tokens(harness.lookup_permit(), batch).await.unwrap()
    };
    let (named, free) = (token_record("named"), token_record("free"));
    let free = TokenRecord { fingerprint: None, ..free };
    for token in [&named, &free] {
        harness.insert(token.clone()).await;
    }
    let card = ThreeDsSessionCard::Token(named.id.clone());
    harness
        .insert_session(ThreeDsSessionRecord { card, ..harness.threeds_session_record(1) }, &[])
        .await
        .unwrap();
    let rejected = BatchOutcome::Rejected(vec![(0, WriteConflict::UsedBySession)]);
    let updated = BatchOutcome::Written(vec![WriteOutcome::Updated]);
    assert_eq!(update(&named, Some(harness.now())).await, rejected);
    assert_eq!(harness.find("named").await.unwrap().record, named);
    assert_eq!(update(&free, Some(harness.now())).await, updated);
    assert_eq!(update(&named, None).await, updated);
    // An expired session does not count.
    let named = revised_record(&named);
    assert_eq!(update(&named, Some(START.plus(MINUTE - MOMENT))).await, rejected);
    assert_eq!(update(&named, Some(START.plus(MINUTE))).await, updated);
}
