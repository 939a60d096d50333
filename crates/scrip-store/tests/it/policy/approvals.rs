//! Dual control and its requests behave the same on every engine.

use scrip_core::{
    Timestamp,
    approval::{
        ActionText, ApprovalChange, ApprovalId, StoredApprovals, StoredDualControl,
        ledger::{ApprovalLedger, ApprovalSigner, DualControlStatus, NewApproval},
    },
    change::ChangeOutcome,
    policy::Directory,
    types::id::VaultId,
};
use scrip_seal::Mac;
use scrip_testing::{clock::START, vault_harness::VaultHarness};
use uuid::Uuid;

on_every_engine! {
    VaultHarness;
    requests_are_stored_approved_and_removed
    stale_change_writes_nothing
    approval_is_used_by_only_one_of_two_concurrent_requests
    replayed_request_is_not_a_member
    altered_state_counts_as_on_until_it_is_replaced
}

const VAULT: VaultId = VaultId(Uuid::from_u128(7));

fn signer(directory: &Directory) -> ApprovalSigner<'_> {
    ApprovalSigner { key: directory.audit_key(), vault: VAULT }
}

async fn load(harness: &VaultHarness, directory: &Directory) -> ApprovalLedger {
    ApprovalLedger::verify(load_stored(harness).await, signer(directory))
}

async fn load_stored(harness: &VaultHarness) -> StoredApprovals {
    harness.vault.store.load_approvals().await.unwrap()
}

async fn write(harness: &VaultHarness, change: ApprovalChange) -> ChangeOutcome {
    harness.vault.store.change_approvals(change).await.unwrap()
}

fn new_request(id: &str, now: Timestamp) -> NewApproval {
    let action = ActionText::parse("backup {\"file\":\"/b\"}").unwrap();
    NewApproval { id: ApprovalId::parse(id).unwrap(), action, uid: 4_000_000_000, now }
}

/// Switches dual control on and stores an approved request.
async fn approved_request(harness: &VaultHarness, directory: &Directory) -> ApprovalId {
    let signer = signer(directory);
    let ledger = load(harness, directory).await;
    assert_eq!(write(harness, ledger.switch(signer, true, START)).await, ChangeOutcome::Done);
    let ledger = load(harness, directory).await;
    let added = ledger.add(signer, new_request("aaaaaaaa", START));
    assert_eq!(write(harness, added).await, ChangeOutcome::Done);
    let ledger = load(harness, directory).await;
    let approval = ledger.approve(signer, &ledger.requests()[0], 2, START);
    assert_eq!(write(harness, approval).await, ChangeOutcome::Done);
    ApprovalId::parse("aaaaaaaa").unwrap()
}

async fn requests_are_stored_approved_and_removed(harness: VaultHarness) {
    let directory = harness.directory().await;
    assert_eq!(load_stored(&harness).await, StoredApprovals::default());
    let id = approved_request(&harness, &directory).await;
    let ledger = load(&harness, &directory).await;
    assert_eq!((ledger.status(), ledger.sequence()), (DualControlStatus::On, 3));
    let second = new_request("bbbbbbbb", Timestamp { unix_ms: START.unix_ms + 1 });
    write(&harness, ledger.add(signer(&directory), second)).await;
    let ledger = load(&harness, &directory).await;
    let [first, second] = ledger.requests() else { panic!("{ledger:?}") };
    assert_eq!((first.requested_by, first.approved_by), (4_000_000_000, Some(2)));
    assert_eq!((second.approved_by, second.approved_at), (None, None));
    assert_eq!((first.id.text(), second.id.text()), ("aaaaaaaa", "bbbbbbbb"));
    write(&harness, ledger.remove(signer(&directory), vec![id], START)).await;
    let ledger = load(&harness, &directory).await;
    assert_eq!(ledger.requests().len(), 1);
    write(&harness, ledger.switch(signer(&directory), false, START)).await;
    let ledger = load(&harness, &directory).await;
    assert_eq!((ledger.status(), ledger.requests()), (DualControlStatus::Off, [].as_slice()));
    assert_eq!(load_stored(&harness).await.requests, [], "switching off removes the rows");
}

async fn stale_change_writes_nothing(harness: VaultHarness) {
    let directory = harness.directory().await;
    let before = load(&harness, &directory).await;
    let id = approved_request(&harness, &directory).await;
    let stored = load_stored(&harness).await;
    let added = before.add(signer(&directory), new_request("cccccccc", START));
    assert_eq!(write(&harness, added).await, ChangeOutcome::Stale);
    let removed =
        ApprovalChange { deleted: vec![id], ..before.switch(signer(&directory), false, START) };
    assert_eq!(write(&harness, removed).await, ChangeOutcome::Stale);
    assert_eq!(load_stored(&harness).await, stored);
}

async fn approval_is_used_by_only_one_of_two_concurrent_requests(harness: VaultHarness) {
    let directory = harness.directory().await;
    let id = approved_request(&harness, &directory).await;
    let ledger = load(&harness, &directory).await;
    let change = || ledger.remove(signer(&directory), vec![id.clone()], START);
    let store = &harness.vault.store;
    let (one, two) =
        tokio::join!(store.change_approvals(change()), store.change_approvals(change()));
    let outcomes = [one.unwrap(), two.unwrap()];
    let done = outcomes.iter().filter(|it| **it == ChangeOutcome::Done).count();
    assert_eq!(done, 1, "{outcomes:?}");
}

/// A person with access to the database inserts the used row again.
async fn replayed_request_is_not_a_member(harness: VaultHarness) {
    let directory = harness.directory().await;
    let id = approved_request(&harness, &directory).await;
    let copy = load_stored(&harness).await.requests[0].clone();
    let ledger = load(&harness, &directory).await;
    write(&harness, ledger.remove(signer(&directory), vec![id], START)).await;
    let stored = load_stored(&harness).await;
    let StoredDualControl::Present(dual_control) = stored.dual_control.clone() else {
        panic!("{stored:?}")
    };
    let expected = stored.dual_control;
    let put = Some(copy);
    let replay = ApprovalChange { expected, dual_control, put, deleted: Vec::new() };
    assert_eq!(write(&harness, replay).await, ChangeOutcome::Done);
    assert_eq!(load_stored(&harness).await.requests.len(), 1, "the control: the row is there");
    let ledger = load(&harness, &directory).await;
    assert_eq!((ledger.requests().len(), ledger.ignored()), (0, 1));
}

async fn altered_state_counts_as_on_until_it_is_replaced(harness: VaultHarness) {
    let directory = harness.directory().await;
    approved_request(&harness, &directory).await;
    let stored = load_stored(&harness).await;
    let StoredDualControl::Present(mut dual_control) = stored.dual_control.clone() else {
        panic!("{stored:?}")
    };
    dual_control.is_on = false;
    dual_control.mac = Mac([0; 32]);
    let expected = stored.dual_control;
    let forged = ApprovalChange { expected, dual_control, put: None, deleted: Vec::new() };
    assert_eq!(write(&harness, forged).await, ChangeOutcome::Done);
    let ledger = load(&harness, &directory).await;
    assert_eq!((ledger.status(), ledger.ignored()), (DualControlStatus::Altered, 1));
    let request = new_request("dddddddd", START);
    assert_eq!(write(&harness, ledger.add(signer(&directory), request)).await, ChangeOutcome::Done);
    let ledger = load(&harness, &directory).await;
    assert_eq!(ledger.status(), DualControlStatus::On, "a change never switches it off");
    // The row of another vault.
    let other = ApprovalSigner { vault: VaultId(Uuid::from_u128(8)), ..signer(&directory) };
    let ledger = ApprovalLedger::verify(load_stored(&harness).await, other);
    assert_eq!(ledger.status(), DualControlStatus::Altered);
}
