//! Two nodes on one database, and 64 clients that want the same things at the same time.
//!
//! Each slot is one thing to be had, visited by 16 clients in a row, on both nodes: so they meet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use scrip_testing::{postgres::cluster::Cluster, requests::card_number};
use serde_json::{Value, json};

use crate::{
    RunLength,
    nodes::{FinalResponse, NodeAccess, RetryingClient, TwoNodeVault},
    report::{ConsistencyViolation, RunReport},
    token_histories::{check_counts_and_chain, check_recorded},
};

const CLIENTS: usize = 64;
const CLIENTS_PER_SLOT: usize = 16;
/// What visitors of slots ask for, by the slot's number.
const SLOT_KINDS: [SlotKind; 6] = [
    SlotKind::KeyReuse,
    SlotKind::DuplicateCard,
    SlotKind::IntentReuse,
    SlotKind::IntentAndKeyReuse,
    SlotKind::PatchReplay,
    SlotKind::RepeatedDelete,
];
/// Requests of one visitor of each kind.
const REQUESTS: usize = 1 + 1 + 2 + 2 + 3 + 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    /// All create a token with one idempotency key.
    KeyReuse,
    /// Each creates a token of the same card with a key of its own, deduplicated.
    DuplicateCard,
    /// Each converts the same intent with a key of its own.
    IntentReuse,
    /// All convert the same intent with one key.
    IntentAndKeyReuse,
    /// All patch one token with one key.
    PatchReplay,
    /// Each deletes the same token.
    RepeatedDelete,
}

/// What a visitor was told last.
#[derive(Debug)]
struct SlotResult {
    status: u16,
    had_unknown_outcome: bool,
    body: Value,
}

/// What everybody adds to.
#[derive(Default)]
struct SharedResults {
    visits: AtomicUsize,
    slots: Mutex<BTreeMap<usize, Vec<SlotResult>>>,
    /// Ids of tokens that nobody deletes.
    undeleted_ids: Mutex<BTreeSet<String>>,
    done: AtomicBool,
}

pub(crate) fn two_nodes_under_contention(length: RunLength) -> (RunReport, bool) {
    let vault = TwoNodeVault::create(Cluster::start(&[]));
    let (board, mut report) = (SharedResults::default(), RunReport::default());
    let whole = SLOT_KINDS.len() * CLIENTS_PER_SLOT;
    let visits_max = (length.operations * SLOT_KINDS.len() / REQUESTS).div_ceil(whole) * whole;
    thread::scope(|scope| {
        let (board, door) = (&board, &vault.nodes_access);
        let client = |at| scope.spawn(move || run_client(door, at, board, visits_max));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let listers: Vec<_> =
            (0..2).map(|at| scope.spawn(move || list_repeatedly(door, at, board))).collect();
        for client in clients {
            report.merge(&client.join().expect("a client does not panic"));
        }
        board.done.store(true, Ordering::Relaxed);
        for lister in listers {
            report.merge(&lister.join().expect("a lister does not panic"));
        }
    });
    check_results(&vault, &board, &mut report);
    let enough = report.count("answers") >= length.operations;
    // Clean means little unless they got in each other's way.
    let passed = report.is_clean() && enough && report.count("in flight") > 0;
    (report, passed)
}

fn run_client(
    nodes: &NodeAccess,
    node: usize,
    results: &SharedResults,
    visits_max: usize,
) -> RunReport {
    let mut client = RetryingClient::new(nodes, node);
    loop {
        let visit = results.visits.fetch_add(1, Ordering::Relaxed);
        if visit >= visits_max {
            return client.report;
        }
        let (slot, visitor) = (visit / CLIENTS_PER_SLOT, visit % CLIENTS_PER_SLOT);
        let told = run_slot(&mut client, slot, visitor);
        let body: Value = serde_json::from_str(&told.response.body).unwrap_or_default();
        if let (201, Some(id), true) =
            (told.response.status, body["id"].as_str(), slot_kind(slot) != SlotKind::RepeatedDelete)
        {
            results.undeleted_ids.lock().expect("nobody panics").insert(id.to_owned());
        }
        let visit = SlotResult {
            status: told.response.status,
            had_unknown_outcome: told.had_unknown_outcome,
            body,
        };
        results.slots.lock().expect("nobody panics").entry(slot).or_default().push(visit);
    }
}

fn slot_kind(slot: usize) -> SlotKind {
    SLOT_KINDS[slot % SLOT_KINDS.len()]
}

/// The last answer is the one that counts; the others must succeed.
fn run_slot(client: &mut RetryingClient<'_>, slot: usize, client_number: usize) -> FinalResponse {
    let number = card_number(u64::try_from(slot).expect("a number"));
    let new = json!({ "type": "card", "data": { "number": number, "cvc": "123" } });
    let own = format!("{slot}-{client_number}");
    match slot_kind(slot) {
        SlotKind::KeyReuse => post(client, "/tokens", &format!("once-{slot}"), &new),
        SlotKind::DuplicateCard => {
            let mut new = new;
            new["deduplicate_token"] = json!(true);
            post(client, "/tokens", &format!("shared-{own}"), &new)
        }
        SlotKind::IntentReuse => {
            let intent = create_ok(client, "/token-intents", &format!("intent-{slot}"), &new);
            let convert = json!({ "token_intent_id": intent });
            post(client, "/tokens", &format!("convert-{own}"), &convert)
        }
        SlotKind::IntentAndKeyReuse => {
            let intent = create_ok(client, "/token-intents", &format!("intent-{slot}"), &new);
            let convert = json!({ "token_intent_id": intent });
            post(client, "/tokens", &format!("convert-{slot}"), &convert)
        }
        SlotKind::PatchReplay => {
            let id = create_ok(client, "/tokens", &format!("once-{slot}"), &new);
            let key = format!("patch-{slot}");
            let headers = [
                ("Content-Type", "application/merge-patch+json"),
                ("BT-IDEMPOTENCY-KEY", key.as_str()),
            ];
            let body = json!({ "metadata": { "by": own } }).to_string();
            let patched = client.send_with_retries(&format!("PATCH /tokens/{id}"), &headers, &body);
            let read = client.send_with_retries(&format!("GET /tokens/{id}"), &[], "");
            let read: Value = serde_json::from_str(&read.response.body).unwrap_or_default();
            let told: Value = serde_json::from_str(&patched.response.body).unwrap_or_default();
            if read["metadata"] != told["metadata"] {
                client.report.add_violation(ConsistencyViolation::WrongContent);
            }
            patched
        }
        SlotKind::RepeatedDelete => {
            let id = create_ok(client, "/tokens", &format!("once-{slot}"), &new);
            client.send_with_retries(&format!("DELETE /tokens/{id}"), &[], "")
        }
    }
}

fn post(client: &mut RetryingClient<'_>, path: &str, key: &str, body: &Value) -> FinalResponse {
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key)];
    client.send_with_retries(&format!("POST {path}"), &headers, &body.to_string())
}

/// The id of what must have been made.
fn create_ok(client: &mut RetryingClient<'_>, path: &str, key: &str, body: &Value) -> String {
    let created = post(client, path, key, body).response;
    client.report.expect_status("make", created.status, 201);
    let created: Value = serde_json::from_str(&created.body).unwrap_or_default();
    created["id"].as_str().unwrap_or_default().to_owned()
}

/// Goes through all pages while others write. What was there before the first page and stays must
/// be on one of them, and nothing on two.
fn list_repeatedly(nodes: &NodeAccess, node: usize, results: &SharedResults) -> RunReport {
    let mut client = RetryingClient::new(nodes, node);
    while !results.done.load(Ordering::Relaxed) {
        let there = results.undeleted_ids.lock().expect("nobody panics").clone();
        let listed = list_all_pages(&mut client);
        if !there.is_subset(&listed) {
            client.report.add_violation(ConsistencyViolation::WrongListPage);
        }
        client.report.add("walks");
        thread::sleep(Duration::from_secs(2));
    }
    client.report
}

fn list_all_pages(client: &mut RetryingClient<'_>) -> BTreeSet<String> {
    let (mut listed, mut start) = (BTreeSet::new(), String::new());
    loop {
        let page =
            client.send_with_retries(&format!("GET /v2/tokens?size=100{start}"), &[], "").response;
        client.report.expect_status("list", page.status, 200);
        let page: Value = serde_json::from_str(&page.body).unwrap_or_default();
        for token in page["data"].as_array().into_iter().flatten() {
            if !listed.insert(token["id"].as_str().unwrap_or_default().to_owned()) {
                client.report.add_violation(ConsistencyViolation::WrongListPage);
            }
        }
        let Some(next) = page["pagination"]["next"].as_str() else { return listed };
        start = format!("&start={next}");
    }
}

fn check_results(vault: &TwoNodeVault, results: &SharedResults, report: &mut RunReport) {
    let slots = results.slots.lock().expect("nobody panics");
    for (slot, visits) in &*slots {
        check_slot(slot_kind(*slot), visits, report);
    }
    let doubled = "SELECT count(*) FROM tokens GROUP BY tenant, fingerprint HAVING count(*) > 1";
    for _ in vault.cluster.query_primary(doubled) {
        report.add_violation(ConsistencyViolation::CreatedTwice);
    }
    let lasting = results.undeleted_ids.lock().expect("nobody panics");
    let rows: BTreeSet<String> =
        vault.cluster.query_primary("SELECT id FROM tokens").into_iter().collect();
    // Those of patched tokens are known to their visitors only.
    let patched = slots.iter().filter(|(slot, _)| slot_kind(**slot) == SlotKind::PatchReplay);
    let patched = patched.filter_map(|(_, it)| Some(it.first()?.body["id"].as_str()?.to_owned()));
    let known: BTreeSet<String> = lasting.iter().cloned().chain(patched).collect();
    if rows != known {
        report.add_violation(ConsistencyViolation::UnknownRows);
    }
    let mut client = RetryingClient::new(&vault.nodes_access, 0);
    if list_all_pages(&mut client) != rows {
        report.add_violation(ConsistencyViolation::WrongListPage);
    }
    report.merge(&client.report);
    let each = slots.len() / SLOT_KINDS.len();
    report.add_many("slots", slots.len());
    let effects = [
        ("create_token", "created", 6 * each),
        ("create_token", "deduplicated", (CLIENTS_PER_SLOT - 1) * each),
        ("create_token_intent", "created", 2 * each),
        ("convert_token_intent", "converted", 2 * each),
        ("update_token", "updated", each),
        ("delete_token", "deleted", each),
    ];
    for (operation, outcome, effects) in effects {
        check_recorded(vault, operation, outcome, effects, report);
    }
    check_counts_and_chain(vault, report);
}

/// Whether all that were told something were told the same, or only one that it was the one.
fn check_slot(kind: SlotKind, results: &[SlotResult], report: &mut RunReport) {
    let count = |status| results.iter().filter(|it| it.status == status).count();
    let (expected, others, finding) = match kind {
        SlotKind::KeyReuse | SlotKind::IntentAndKeyReuse => {
            ((201, CLIENTS_PER_SLOT), 201, ConsistencyViolation::ResponseChanged)
        }
        SlotKind::DuplicateCard => {
            ((201, CLIENTS_PER_SLOT), 201, ConsistencyViolation::DuplicateTokens)
        }
        SlotKind::PatchReplay => {
            ((200, CLIENTS_PER_SLOT), 200, ConsistencyViolation::ResponseChanged)
        }
        SlotKind::IntentReuse => ((201, 1), 400, ConsistencyViolation::IntentConvertedWrongly),
        SlotKind::RepeatedDelete => ((204, 1), 404, ConsistencyViolation::CreatedTwice),
    };
    for visit in results {
        if visit.status != expected.0 {
            report.expect_status("visit", visit.status, others);
        }
    }
    // Somebody who was not sure and found it deleted may have done it.
    let unsure =
        kind == SlotKind::RepeatedDelete && results.iter().any(|it| it.had_unknown_outcome);
    if count(expected.0) != expected.1 && !unsure {
        report.add_violation(finding);
    }
    let shown = |it: &SlotResult| match kind {
        // A remembered answer has no code.
        SlotKind::KeyReuse | SlotKind::IntentAndKeyReuse | SlotKind::PatchReplay => {
            without_cvc(&it.body)
        }
        SlotKind::DuplicateCard => it.body["id"].clone(),
        SlotKind::IntentReuse | SlotKind::RepeatedDelete => Value::Null,
    };
    let mut shown = results.iter().map(shown);
    let first = shown.next();
    if shown.any(|it| Some(it) != first) {
        report.add_violation(finding);
    }
}

fn without_cvc(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(data) = body["data"].as_object_mut() {
        data.remove("cvc");
    }
    body
}
