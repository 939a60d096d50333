//! Dual control with several users.

mod refusals;

use std::{
    collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration,
};

use scrip_api::app::App;
use scrip_core::{
    Timestamp,
    approval::{ApprovalChange, DualControlRecord, StoredApprovals, StoredDualControl},
    audit::LogKind,
    change::ChangeOutcome,
    types::id::{TenantId, UnlockId, VaultId},
    unlock::{UnlockKind, UnlockRecord, UnlockState, VaultIdentity},
};
use scrip_seal::{Mac, WrappingKey};
use scrip_testing::{
    vault::root_key,
    vault_harness::{Engine, VaultHarness},
};
use uuid::Uuid;

use super::*;
use crate::{
    clock::ticks, config::load::tests::load, files::head_file::ServerHeadFile,
    unlock::shares::ShareCount,
};

const SERVER: u32 = 500;
const ALICE: u32 = 1001;
const BOB: u32 = 1002;

struct ControlHarness {
    harness: VaultHarness,
    app: Arc<App>,
    handler: ControlHandler,
}

fn new_handler(app: &Arc<App>, is_set: bool) -> ControlHandler {
    let settings = load("", &[]).unwrap();
    ControlHandler {
        actions: ActionRunner {
            app: Arc::clone(app),
            database: None,
            head_file: Arc::new(ServerHeadFile::new(settings.head_file())),
            refusals: Arc::default(),
        },
        manager: Some(Arc::new(KeyManager::new(Arc::clone(app), &settings))),
        dual_control: Some(Arc::new(DualControl::new(Arc::clone(app), is_set))),
        server_uid: SERVER,
        rates: Arc::default(),
    }
}

impl ControlHarness {
    /// A vault with dual control on, without the setting.
    async fn on() -> Self {
        let it = Self::off().await;
        it.expect(ControlRequest::SwitchOn {}, SERVER).await;
        it
    }

    async fn off() -> Self {
        let harness = VaultHarness::open(Engine::Memory).await;
        let identity = VaultIdentity { id: VaultId(Uuid::from_u128(7)), key_version: 1 };
        let method = UnlockRecord {
            id: UnlockId(Uuid::from_u128(1)),
            kind: UnlockKind::File,
            label: "file".to_owned(),
            parameters: "{}".to_owned(),
            wrapped: vec![7; 100],
            key_version: 1,
            created_at: Timestamp { unix_ms: 1_000 },
            checked_at: None,
            state: UnlockState::Active,
            mac: Mac([3; 32]),
        };
        harness.vault.store.adopt_vault(identity, method).await.unwrap();
        let directory = harness.directory().await;
        harness.vault.audit_trail.set_key(directory.audit_key());
        let app = App::new(harness.vault.clone(), directory, Arc::new(root_key()), ticks);
        let app = Arc::new(app);
        let handler = new_handler(&app, false);
        Self { harness, app, handler }
    }

    /// The same store after a restart of the server.
    fn restarted(self, is_set: bool) -> Self {
        let handler = new_handler(&self.app, is_set);
        Self { handler, ..self }
    }

    async fn expect(&self, request: ControlRequest, uid: u32) -> Value {
        let response = self.handler.handle(request, uid).await;
        let ControlResponse::Result(value) = response else { panic!("{response:?}") };
        value
    }

    async fn expect_waiting(&self, request: ControlRequest, uid: u32) -> ApprovalTicket {
        let response = self.handler.handle(request, uid).await;
        let ControlResponse::Waiting(ticket) = response else { panic!("{response:?}") };
        ticket
    }

    async fn expect_error(&self, request: ControlRequest, uid: u32, expected: &str) {
        let response = self.handler.handle(request, uid).await;
        let ControlResponse::Error(text) = response else { panic!("{response:?}") };
        assert!(text.contains(expected), "{text}");
    }

    async fn tickets(&self) -> Vec<ApprovalTicket> {
        serde_json::from_value(self.expect(ControlRequest::ListApprovals {}, BOB).await).unwrap()
    }

    async fn stored(&self) -> StoredApprovals {
        self.harness.vault.store.load_approvals().await.unwrap()
    }

    /// Writes rows as a person with access to the database.
    async fn alter(&self, change: impl FnOnce(&StoredApprovals) -> ApprovalChange) {
        let change = change(&self.stored().await);
        let outcome = self.harness.vault.store.change_approvals(change).await.unwrap();
        assert_eq!(outcome, ChangeOutcome::Done);
    }
}

fn use_approval(action: &str) -> ControlRequest {
    ControlRequest::UseApproval { action: action.to_owned() }
}

fn add_file(path: &Path) -> ControlRequest {
    let parameters = json!({ "path": path }).as_object().cloned().unwrap();
    ControlRequest::AddMethod { kind: "file".to_owned(), label: "x".to_owned(), parameters }
}

fn approve(ticket: &ApprovalTicket) -> ControlRequest {
    ControlRequest::Approve { id: ticket.id.clone(), action: ticket.action.clone() }
}

fn reject(ticket: &ApprovalTicket) -> ControlRequest {
    ControlRequest::Reject { id: ticket.id.clone(), action: ticket.action.clone() }
}

fn state(stored: &StoredApprovals) -> DualControlRecord {
    let StoredDualControl::Present(it) = &stored.dual_control else { panic!("{stored:?}") };
    it.clone()
}

/// Puts rows back without a change of the state.
fn unchanged(stored: &StoredApprovals) -> ApprovalChange {
    ApprovalChange {
        expected: stored.dual_control.clone(),
        dual_control: state(stored),
        put: None,
        deleted: Vec::new(),
    }
}

#[tokio::test]
async fn approval_is_used_once_by_its_requester_for_its_action() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("key create {1}"), ALICE).await;
    let again = it.expect_waiting(use_approval("key create {1}"), ALICE).await;
    assert_eq!(ticket, again, "the same command has one request");
    it.expect(approve(&ticket), BOB).await;
    let other_action = it.expect_waiting(use_approval("key create {2}"), ALICE).await;
    let other_user = it.expect_waiting(use_approval("key create {1}"), SERVER).await;
    let ids = [&ticket, &other_action, &other_user].map(|it| it.id.clone());
    assert_eq!(BTreeSet::from(ids).len(), 3);
    assert_eq!(it.expect(use_approval("key create {1}"), ALICE).await, json!(true));
    let new = it.expect_waiting(use_approval("key create {1}"), ALICE).await;
    assert_ne!(new.id, ticket.id, "the approval is used");
    it.expect_error(approve(&ticket), BOB, "does not exist").await;
}

#[tokio::test]
async fn no_user_approves_an_own_request() {
    let it = ControlHarness::on().await;
    for uid in [ALICE, SERVER, 0] {
        let ticket = it.expect_waiting(use_approval("backup {}"), uid).await;
        it.expect_error(approve(&ticket), uid, "another user must approve it").await;
        assert_eq!(it.expect_waiting(use_approval("backup {}"), uid).await, ticket);
        it.expect(approve(&ticket), BOB).await;
        it.expect_error(approve(&ticket), ALICE + BOB, "is approved already").await;
    }
}

#[tokio::test]
async fn approval_needs_the_shown_action() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("export {1}"), ALICE).await;
    let shown = ApprovalTicket { action: "export {2}".to_owned(), ..ticket.clone() };
    it.expect_error(approve(&shown), BOB, "has another action").await;
    it.expect_error(reject(&shown), BOB, "has another action").await;
    it.expect(reject(&ticket), BOB).await;
    assert_eq!(it.tickets().await, []);
}

#[tokio::test]
async fn requests_and_approvals_expire() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("backup {}"), ALICE).await;
    it.expect(approve(&ticket), BOB).await;
    it.harness.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(it.tickets().await, []);
    let new = it.expect_waiting(use_approval("backup {}"), ALICE).await;
    assert_ne!(new.id, ticket.id);
    assert_eq!(it.stored().await.requests.len(), 1, "the expired row is removed");
    it.harness.clock.advance(Duration::from_secs(24 * 60 * 60));
    it.expect_error(approve(&new), BOB, "has expired").await;
}

#[tokio::test]
async fn requests_are_bounded() {
    let it = ControlHarness::on().await;
    for number in 0..20 {
        it.expect_waiting(use_approval(&format!("backup {number}")), ALICE).await;
    }
    it.expect_error(use_approval("backup"), ALICE, "too many open requests").await;
    for number in 0..80 {
        it.expect_waiting(use_approval("backup"), 2000 + number).await;
    }
    it.expect_error(use_approval("backup"), BOB, "too many open requests").await;
    it.expect_error(use_approval(&"x".repeat(5000)), SERVER, "too long").await;
    it.expect_error(use_approval("a\u{1b}[2J"), SERVER, "not printable").await;
}

#[tokio::test]
async fn changes_over_the_socket_wait_for_a_second_operator() {
    let it = ControlHarness::on().await;
    let remove = |id: &str| ControlRequest::RemoveMethod { id: id.to_owned() };
    let ticket = it.expect_waiting(remove("1"), SERVER).await;
    assert_eq!(ticket.action, r#"keys remove {"id":"1"}"#);
    it.expect(approve(&ticket), BOB).await;
    it.expect_error(remove("1"), SERVER, "this is not the id of an unlock method").await;
    it.expect_waiting(remove("1"), SERVER).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    WrappingKey::create_file(&path).unwrap();
    let ticket = it.expect_waiting(add_file(&path), SERVER).await;
    let parameters = json!({ "path": path });
    let expected = format!(r#"keys add {{"kind":"file","label":"x","parameters":{parameters}}}"#);
    assert_eq!(ticket.action, expected);
    let ticket =
        it.expect_waiting(ControlRequest::RotateVault { count: None, compromised: false }, 0).await;
    assert!(ticket.action.starts_with("keys rotate vault {"), "{}", ticket.action);
}

#[tokio::test]
async fn change_that_cannot_succeed_is_refused_before_an_approval_is_requested() {
    let it = ControlHarness::on().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    it.expect_error(add_file(&path), ALICE, "the server cannot use this key").await;
    WrappingKey::create_file(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    it.expect_error(add_file(&path), SERVER, "is accessible to other users").await;
    // Other users would learn which files exist.
    let response = it.handler.handle(add_file(&path), ALICE).await;
    let ControlResponse::Error(unreadable) = response else { panic!("{response:?}") };
    let response = it.handler.handle(add_file(&folder.path().join("missing")), ALICE).await;
    let ControlResponse::Error(missing) = response else { panic!("{response:?}") };
    assert_eq!(unreadable, missing);
    let recipient = "age1hl629fjyxgp0mr78xrlx82dwej7fswctfd575qfh9hjgsvwslypsqlcvm0".to_owned();
    let count = ShareCount { shares: 2, threshold: 2, recipients: vec![recipient; 2] };
    let add = ControlRequest::AddShares { label: "x".to_owned(), count: count.clone() };
    let rotate = ControlRequest::RotateVault { count: Some(count), compromised: false };
    for request in [add, rotate] {
        it.expect_error(request, ALICE, "two shares for one recipient").await;
    }
    assert_eq!(it.tickets().await, []);
}

#[tokio::test]
async fn operators_change_nothing_while_dual_control_is_off() {
    let it = ControlHarness::off().await;
    let expected = "only the user of the server";
    it.expect_error(ControlRequest::RemoveMethod { id: "1".to_owned() }, BOB, expected).await;
    it.expect_error(ControlRequest::RotateVault { count: None, compromised: false }, BOB, expected)
        .await;
    it.expect_error(ControlRequest::SwitchOn {}, BOB, expected).await;
    it.expect_error(use_approval("backup"), BOB, expected).await;
    it.expect_error(use_approval("backup"), ALICE, expected).await;
    let records =
        it.harness.vault.store.list_records(LogKind::Read, TenantId::VAULT, 0, 100).await.unwrap();
    let refused: Vec<_> = records.iter().filter(|it| it.outcome == "refused").collect();
    assert_eq!(refused.len(), 2, "one record for each user in a minute");
    assert_eq!(refused[0].entity, r#"keys remove {"id":"1"}"#);
    assert_eq!(it.tickets().await, []);
    it.expect(ControlRequest::ListMethods {}, BOB).await;
    assert_eq!(it.expect(ControlRequest::DualControl {}, BOB).await["is_on"], false);
    assert_eq!(it.expect(use_approval("backup"), SERVER).await, json!(false));
    assert_eq!(it.stored().await, StoredApprovals::default(), "nothing is stored while it is off");
}

#[tokio::test]
async fn switching_off_needs_an_approval() {
    let it = ControlHarness::on().await;
    let off = || ControlRequest::SwitchOff {};
    let ticket = it.expect_waiting(off(), SERVER).await;
    it.expect_error(approve(&ticket), SERVER, "another user must approve it").await;
    it.expect(approve(&ticket), BOB).await;
    it.expect(off(), SERVER).await;
    assert_eq!(it.expect(use_approval("backup"), SERVER).await, json!(false));
    let it = it.restarted(false);
    assert_eq!(it.expect(use_approval("backup"), SERVER).await, json!(false));
}

#[tokio::test]
async fn setting_switches_on_and_never_off() {
    let it = ControlHarness::off().await.restarted(true);
    it.expect_waiting(use_approval("backup"), SERVER).await;
    it.expect_error(ControlRequest::SwitchOff {}, SERVER, "keys.dual_control is true").await;
    it.handler.dual_control.as_ref().unwrap().start().await.unwrap();
    let it = it.restarted(false);
    it.handler.dual_control.as_ref().unwrap().start().await.unwrap();
    assert_eq!(it.expect(ControlRequest::DualControl {}, BOB).await["is_on"], true);
    it.expect_waiting(use_approval("backup"), SERVER).await;
}

/// The deleted row is inserted again, as it was before the use.
#[tokio::test]
async fn replayed_row_of_a_used_approval_is_ignored() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("backup"), ALICE).await;
    it.expect(approve(&ticket), BOB).await;
    let copy = it.stored().await.requests[0].clone();
    assert_eq!(it.expect(use_approval("backup"), ALICE).await, json!(true));
    it.alter(|stored| ApprovalChange { put: Some(copy), ..unchanged(stored) }).await;
    let new = it.expect_waiting(use_approval("backup"), ALICE).await;
    assert_ne!(new.id, ticket.id);
    assert_eq!(it.tickets().await.len(), 1);
}

/// Both tables are restored to the time before the use.
#[tokio::test]
async fn rolled_back_tables_are_ignored_by_a_running_server() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("backup"), ALICE).await;
    it.expect(approve(&ticket), BOB).await;
    let before = it.stored().await;
    assert_eq!(it.expect(use_approval("backup"), ALICE).await, json!(true));
    let put = Some(before.requests[0].clone());
    let old_state = state(&before);
    it.alter(|stored| ApprovalChange { dual_control: old_state, put, ..unchanged(stored) }).await;
    let new = it.expect_waiting(use_approval("backup"), ALICE).await;
    assert_ne!(new.id, ticket.id);
}

#[tokio::test]
async fn forged_approvals_are_ignored() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("backup"), ALICE).await;
    let request = it.stored().await.requests[0].clone();
    let mut forged = request.clone();
    forged.approved_by = Some(BOB);
    forged.approved_at = Some(forged.requested_at);
    it.alter(|stored| ApprovalChange { put: Some(forged), ..unchanged(stored) }).await;
    let new = it.expect_waiting(use_approval("backup"), ALICE).await;
    assert_ne!(new.id, ticket.id, "the altered request is lost");
}

/// A row that the vault signed becomes the row of another user, action or time.
#[tokio::test]
async fn altered_columns_of_an_approval_are_detected() {
    type Alter = fn(&mut scrip_core::approval::ApprovalRecord);
    let alterations: [Alter; 5] = [
        |it| it.requested_by = SERVER,
        |it| it.action = ActionText::parse("export").unwrap(),
        |it| it.expires_at = it.expires_at.plus(Duration::from_secs(1)),
        |it| it.requested_at = it.requested_at.plus(Duration::from_secs(1)),
        |it| it.approved_by = Some(SERVER),
    ];
    for alter in alterations {
        let it = ControlHarness::on().await;
        let ticket = it.expect_waiting(use_approval("backup"), ALICE).await;
        it.expect(approve(&ticket), BOB).await;
        let mut row = it.stored().await.requests[0].clone();
        alter(&mut row);
        it.alter(|stored| ApprovalChange { put: Some(row), ..unchanged(stored) }).await;
        assert_eq!(it.tickets().await, []);
        for (action, uid) in [("backup", ALICE), ("backup", SERVER), ("export", ALICE)] {
            it.expect_waiting(use_approval(action), uid).await;
        }
    }
}

#[tokio::test]
async fn database_writer_cannot_switch_dual_control_off() {
    type Alter = fn(&mut DualControlRecord);
    let alterations: [Alter; 3] = [
        |it| it.is_on = false,
        |it| {
            it.is_on = false;
            it.mac = Mac([0; 32]);
        },
        |it| it.sequence += 1,
    ];
    for alter in alterations {
        let it = ControlHarness::on().await.restarted(false);
        it.alter(|stored| {
            let mut dual_control = state(stored);
            alter(&mut dual_control);
            ApprovalChange { dual_control, ..unchanged(stored) }
        })
        .await;
        let report = it.expect(ControlRequest::DualControl {}, BOB).await;
        assert_eq!((&report["is_on"], &report["is_altered"]), (&json!(true), &json!(true)));
        it.expect_waiting(use_approval("backup"), SERVER).await;
        let it = it.restarted(false);
        let report = it.expect(ControlRequest::DualControl {}, BOB).await;
        assert_eq!(report["is_on"], true, "the repaired row says on");
    }
}

#[tokio::test]
async fn concurrent_commands_use_an_approval_once() {
    let it = ControlHarness::on().await;
    let ticket = it.expect_waiting(use_approval("backup"), ALICE).await;
    it.expect(approve(&ticket), BOB).await;
    // Two nodes on one store.
    let other = new_handler(&it.app, false);
    let (one, two) = tokio::join!(
        it.handler.handle(use_approval("backup"), ALICE),
        other.handle(use_approval("backup"), ALICE)
    );
    let granted = [&one, &two].into_iter().filter(|it| matches!(it, ControlResponse::Result(_)));
    assert_eq!(granted.count(), 1, "{one:?} {two:?}");
}

#[tokio::test]
async fn request_names_what_the_requester_gets_in_clear() {
    let it = ControlHarness::on().await;
    let count = ShareCount { shares: 2, threshold: 2, recipients: Vec::new() };
    let add = ControlRequest::AddShares { label: "x".to_owned(), count };
    let ticket = it.expect_waiting(add, SERVER).await;
    assert!(
        ticket.action.contains(r#""clear_shares":"all to the requester""#),
        "{}",
        ticket.action
    );
    let rotate = ControlRequest::RotateVault { count: None, compromised: true };
    let ticket = it.expect_waiting(rotate, SERVER).await;
    assert!(ticket.action.contains(r#""new_api_keys":"to the requester""#), "{}", ticket.action);
}

#[tokio::test]
async fn missing_approval_of_an_action_stores_no_request() {
    let it = ControlHarness::on().await;
    let dual_control = it.handler.dual_control.as_ref().unwrap();
    let action = ActionText::new("tenant create", &json!({})).unwrap();
    assert_eq!(dual_control.use_approval(ALICE, &action).await.unwrap(), ApprovalUse::Missing);
    assert_eq!(it.tickets().await, []);
    let ticket = dual_control.request(ALICE, &action).await.unwrap().unwrap();
    assert_eq!(dual_control.use_approval(ALICE, &action).await.unwrap(), ApprovalUse::Missing);
    it.expect(approve(&ticket), BOB).await;
    assert_eq!(dual_control.use_approval(ALICE, &action).await.unwrap(), ApprovalUse::Used);
    assert_eq!(dual_control.use_approval(ALICE, &action).await.unwrap(), ApprovalUse::Missing);
    assert_eq!(it.tickets().await, []);
}
