//! Two nodes on one database, and 64 clients that compete for the same entities.
//!
//! A slot is one entity. 16 consecutive clients on both nodes visit it, so that they conflict.

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
/// The requests of the visitors of a slot, by slot number.
const SLOT_KINDS: [SlotKind; 6] = [
    SlotKind::KeyReuse,
    SlotKind::DuplicateCard,
    SlotKind::IntentReuse,
    SlotKind::IntentAndKeyReuse,
    SlotKind::PatchReplay,
    SlotKind::RepeatedDelete,
];
/// The number of requests of one visitor of each kind.
const REQUESTS: usize = 1 + 1 + 2 + 2 + 3 + 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    /// All create a token with one idempotency key.
    KeyReuse,
    /// Each creates a deduplicated token of the same card with a different key.
    DuplicateCard,
    /// Each converts the same intent with a different key.
    IntentReuse,
    /// All convert the same intent with one key.
    IntentAndKeyReuse,
    /// All patch one token with one key.
    PatchReplay,
    /// Each deletes the same token.
    RepeatedDelete,
}

/// The last response to a visitor.
#[derive(Debug)]
struct SlotResult {
    status: u16,
    had_unknown_outcome: bool,
    body: Value,
}

/// Results that all clients add to.
#[derive(Default)]
struct SharedResults {
    visits: AtomicUsize,
    slots: Mutex<BTreeMap<usize, Vec<SlotResult>>>,
    /// Ids of tokens that no client deletes.
    undeleted_ids: Mutex<BTreeSet<String>>,
    done: AtomicBool,
}

pub(crate) fn two_nodes_under_contention(length: RunLength) -> (RunReport, bool) {
    let vault = TwoNodeVault::create(Cluster::start(&[]));
    let (results, mut report) = (SharedResults::default(), RunReport::default());
    let client_count = SLOT_KINDS.len() * CLIENTS_PER_SLOT;
    let visits_max =
        (length.operations * SLOT_KINDS.len() / REQUESTS).div_ceil(client_count) * client_count;
    thread::scope(|scope| {
        let (results, nodes) = (&results, &vault.nodes_access);
        let client = |index| scope.spawn(move || run_client(nodes, index, results, visits_max));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let listers: Vec<_> = (0..2)
            .map(|index| scope.spawn(move || list_repeatedly(nodes, index, results)))
            .collect();
        for client in clients {
            report.merge(&client.join().expect("a client thread panicked"));
        }
        results.done.store(true, Ordering::Relaxed);
        for lister in listers {
            report.merge(&lister.join().expect("a listing thread panicked"));
        }
    });
    check_results(&vault, &results, &mut report);
    let has_enough_responses = report.count("responses") >= length.operations;
    // A clean run proves little unless the clients conflicted.
    let passed = report.is_clean() && has_enough_responses && report.count("in flight") > 0;
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
        let result = run_slot(&mut client, slot, visitor);
        let body: Value = serde_json::from_str(&result.response.body).unwrap_or_default();
        if let (201, Some(id), true) = (
            result.response.status,
            body["id"].as_str(),
            slot_kind(slot) != SlotKind::RepeatedDelete,
        ) {
            results.undeleted_ids.lock().expect("no thread panicked").insert(id.to_owned());
        }
        let visit = SlotResult {
            status: result.response.status,
            had_unknown_outcome: result.had_unknown_outcome,
            body,
        };
        results.slots.lock().expect("no thread panicked").entry(slot).or_default().push(visit);
    }
}

fn slot_kind(slot: usize) -> SlotKind {
    SLOT_KINDS[slot % SLOT_KINDS.len()]
}

/// Only the last response is compared. The others must succeed.
fn run_slot(client: &mut RetryingClient<'_>, slot: usize, client_number: usize) -> FinalResponse {
    let number = card_number(u64::try_from(slot).expect("a number"));
    let new = json!({ "type": "card", "data": { "number": number, "cvc": "123" } });
    let own_id = format!("{slot}-{client_number}");
    match slot_kind(slot) {
        SlotKind::KeyReuse => post(client, "/tokens", &format!("once-{slot}"), &new),
        SlotKind::DuplicateCard => {
            let mut new = new;
            new["deduplicate_token"] = json!(true);
            post(client, "/tokens", &format!("shared-{own_id}"), &new)
        }
        SlotKind::IntentReuse => {
            let intent = create_ok(client, "/token-intents", &format!("intent-{slot}"), &new);
            let conversion_body = json!({ "token_intent_id": intent });
            post(client, "/tokens", &format!("convert-{own_id}"), &conversion_body)
        }
        SlotKind::IntentAndKeyReuse => {
            let intent = create_ok(client, "/token-intents", &format!("intent-{slot}"), &new);
            let conversion_body = json!({ "token_intent_id": intent });
            post(client, "/tokens", &format!("convert-{slot}"), &conversion_body)
        }
        SlotKind::PatchReplay => {
            let id = create_ok(client, "/tokens", &format!("once-{slot}"), &new);
            let key = format!("patch-{slot}");
            let headers = [
                ("Content-Type", "application/merge-patch+json"),
                ("BT-IDEMPOTENCY-KEY", key.as_str()),
            ];
            let body = json!({ "metadata": { "by": own_id } }).to_string();
            let patched = client.send_with_retries(&format!("PATCH /tokens/{id}"), &headers, &body);
            let read = client.send_with_retries(&format!("GET /tokens/{id}"), &[], "");
            let read: Value = serde_json::from_str(&read.response.body).unwrap_or_default();
            let expected: Value = serde_json::from_str(&patched.response.body).unwrap_or_default();
            if read["metadata"] != expected["metadata"] {
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

/// Creates an entity, which must succeed, and returns its id.
fn create_ok(client: &mut RetryingClient<'_>, path: &str, key: &str, body: &Value) -> String {
    let created = post(client, path, key, body).response;
    client.report.expect_status("make", created.status, 201);
    let created: Value = serde_json::from_str(&created.body).unwrap_or_default();
    created["id"].as_str().unwrap_or_default().to_owned()
}

/// Reads all pages while others write. Every token that existed before the first page and is not
/// deleted must be on exactly one page.
fn list_repeatedly(nodes: &NodeAccess, node: usize, results: &SharedResults) -> RunReport {
    let mut client = RetryingClient::new(nodes, node);
    while !results.done.load(Ordering::Relaxed) {
        let ids_before = results.undeleted_ids.lock().expect("no thread panicked").clone();
        let listed_ids = list_all_pages(&mut client);
        if !ids_before.is_subset(&listed_ids) {
            client.report.add_violation(ConsistencyViolation::WrongListPage);
        }
        client.report.add("walks");
        thread::sleep(Duration::from_secs(2));
    }
    client.report
}

fn list_all_pages(client: &mut RetryingClient<'_>) -> BTreeSet<String> {
    let (mut listed_ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page =
            client.send_with_retries(&format!("GET /v2/tokens?size=100{cursor}"), &[], "").response;
        client.report.expect_status("list", page.status, 200);
        let page: Value = serde_json::from_str(&page.body).unwrap_or_default();
        for token in page["data"].as_array().into_iter().flatten() {
            if !listed_ids.insert(token["id"].as_str().unwrap_or_default().to_owned()) {
                client.report.add_violation(ConsistencyViolation::WrongListPage);
            }
        }
        let Some(next) = page["pagination"]["next"].as_str() else { return listed_ids };
        cursor = format!("&start={next}");
    }
}

fn check_results(vault: &TwoNodeVault, results: &SharedResults, report: &mut RunReport) {
    let slots = results.slots.lock().expect("no thread panicked");
    for (slot, visits) in &*slots {
        check_slot(slot_kind(*slot), visits, report);
    }
    let duplicates = "SELECT count(*) FROM tokens GROUP BY tenant, fingerprint HAVING count(*) > 1";
    for _ in vault.cluster.query_primary(duplicates) {
        report.add_violation(ConsistencyViolation::CreatedTwice);
    }
    let undeleted_ids = results.undeleted_ids.lock().expect("no thread panicked");
    let rows: BTreeSet<String> =
        vault.cluster.query_primary("SELECT id FROM tokens").into_iter().collect();
    // Only their visitors know the ids of patched tokens.
    let patched = slots.iter().filter(|(slot, _)| slot_kind(**slot) == SlotKind::PatchReplay);
    let patched = patched.filter_map(|(_, it)| Some(it.first()?.body["id"].as_str()?.to_owned()));
    let known_ids: BTreeSet<String> = undeleted_ids.iter().cloned().chain(patched).collect();
    if rows != known_ids {
        report.add_violation(ConsistencyViolation::UnknownRows);
    }
    let mut client = RetryingClient::new(&vault.nodes_access, 0);
    if list_all_pages(&mut client) != rows {
        report.add_violation(ConsistencyViolation::WrongListPage);
    }
    report.merge(&client.report);
    let slots_per_kind = slots.len() / SLOT_KINDS.len();
    report.add_many("slots", slots.len());
    let expected_records = [
        ("create_token", "created", 6 * slots_per_kind),
        ("create_token", "deduplicated", (CLIENTS_PER_SLOT - 1) * slots_per_kind),
        ("create_token_intent", "created", 2 * slots_per_kind),
        ("convert_token_intent", "converted", 2 * slots_per_kind),
        ("update_token", "updated", slots_per_kind),
        ("delete_token", "deleted", slots_per_kind),
    ];
    for (operation, outcome, expected_count) in expected_records {
        check_recorded(vault, operation, outcome, expected_count, report);
    }
    check_counts_and_chain(vault, report);
}

/// Checks that all visitors got the same response, or that exactly one of them succeeded.
fn check_slot(kind: SlotKind, results: &[SlotResult], report: &mut RunReport) {
    let count = |status| results.iter().filter(|it| it.status == status).count();
    let (expected, other_statuses, finding) = match kind {
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
            report.expect_status("visit", visit.status, other_statuses);
        }
    }
    // A client with an unknown outcome that then found the token deleted may have deleted it
    // itself.
    let is_unsure =
        kind == SlotKind::RepeatedDelete && results.iter().any(|it| it.had_unknown_outcome);
    if count(expected.0) != expected.1 && !is_unsure {
        report.add_violation(finding);
    }
    let compared = |it: &SlotResult| match kind {
        // A stored response has no CVC.
        SlotKind::KeyReuse | SlotKind::IntentAndKeyReuse | SlotKind::PatchReplay => {
            without_cvc(&it.body)
        }
        SlotKind::DuplicateCard => it.body["id"].clone(),
        SlotKind::IntentReuse | SlotKind::RepeatedDelete => Value::Null,
    };
    let mut compared = results.iter().map(compared);
    let first = compared.next();
    if compared.any(|it| Some(it) != first) {
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
