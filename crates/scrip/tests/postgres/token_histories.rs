//! The requests of the clients, the responses, and checks that the vault matches them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use scrip_testing::{process::client::HttpResponse, requests::card_number};
use serde_json::{Value, json};

use crate::{
    nodes::{NodeAccess, RetryingClient, TwoNodeVault},
    report::{ConsistencyViolation, RunReport},
};

const JSON: (&str, &str) = ("Content-Type", "application/json");
/// The first number of cards that several histories share.
const SHARED_CARDS_START: u64 = 1 << 40;

/// How a token is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CreateKind {
    Card,
    /// Deduplicated. Several histories have the same card.
    Deduplicated,
    /// By converting an intent.
    Intent,
}

/// One token and everything acknowledged about it.
#[derive(Debug)]
pub(crate) struct TokenHistory {
    number: u64,
    created: Option<CreatedToken>,
    patched: bool,
    deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CreatedToken {
    id: String,
    fingerprint: String,
}

impl TokenHistory {
    fn kind(&self) -> CreateKind {
        match self.number % 8 {
            3 => CreateKind::Deduplicated,
            6 => CreateKind::Intent,
            _ => CreateKind::Card,
        }
    }

    fn own_card_number(&self) -> String {
        match self.kind() {
            CreateKind::Deduplicated => card_number(SHARED_CARDS_START + self.number / 64),
            CreateKind::Card | CreateKind::Intent => card_number(self.number),
        }
    }

    /// Sends the same bytes every time.
    fn create(&self, client: &mut RetryingClient<'_>) -> HttpResponse {
        let data =
            json!({ "number": self.own_card_number(), "expiration_month": 12, "cvc": "123" });
        let metadata = json!({ "note": "first" });
        let body = match self.kind() {
            CreateKind::Card => json!({ "type": "card", "data": data, "metadata": metadata }),
            CreateKind::Deduplicated => {
                json!({ "type": "card", "data": data, "metadata": metadata, "deduplicate_token": true })
            }
            CreateKind::Intent => {
                let (key, body) =
                    (format!("intent-{}", self.number), json!({ "type": "card", "data": data }));
                let headers = [JSON, ("BT-IDEMPOTENCY-KEY", key.as_str())];
                let intent =
                    client.send_with_retries("POST /token-intents", &headers, &body.to_string());
                client.report.expect_status("intend", intent.response.status, 201);
                let intent: Value = serde_json::from_str(&intent.response.body).unwrap_or_default();
                json!({ "token_intent_id": intent["id"], "metadata": metadata })
            }
        };
        let key = format!("deed-{}", self.number);
        let headers = [JSON, ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let created = client.send_with_retries("POST /tokens", &headers, &body.to_string());
        client.report.expect_status("create", created.response.status, 201);
        if created.had_unknown_outcome {
            client.report.add("unsure");
            // A stored response has no CVC, so a response without one is a replay.
            if self.kind() == CreateKind::Card && !created.response.body.contains("\"cvc\"") {
                client.report.add("replayed");
            }
        }
        created.response
    }

    fn patch(&mut self, client: &mut RetryingClient<'_>, id: &str) {
        let key = format!("patch-{}", self.number);
        let headers = [
            ("Content-Type", "application/merge-patch+json"),
            ("BT-IDEMPOTENCY-KEY", key.as_str()),
        ];
        let body = json!({ "metadata": { "note": "second" } }).to_string();
        let patched = client.send_with_retries(&format!("PATCH /tokens/{id}"), &headers, &body);
        client.report.expect_status("patch", patched.response.status, 200);
        self.patched = patched.response.status == 200;
    }

    /// A delete has no idempotency key. A client with an unknown outcome that then gets a 404 has
    /// deleted the token itself.
    fn delete(&mut self, client: &mut RetryingClient<'_>, id: &str) {
        let deleted = client.send_with_retries(&format!("DELETE /tokens/{id}"), &[], "");
        if !(deleted.had_unknown_outcome && deleted.response.status == 404) {
            client.report.expect_status("delete", deleted.response.status, 204);
        }
        self.deleted = true;
    }

    fn run_operations(&mut self, client: &mut RetryingClient<'_>) {
        self.created = parse_created(&self.create(client));
        let Some(CreatedToken { id, .. }) = self.created.clone() else { return };
        client.report.add("acknowledged");
        if self.number.is_multiple_of(3) {
            let read = client.send_with_retries(&format!("GET /tokens/{id}"), &[], "");
            client.report.expect_status("read", read.response.status, 200);
        }
        if self.kind() == CreateKind::Deduplicated {
            return;
        }
        if self.number.is_multiple_of(5) {
            self.patch(client, &id);
        }
        if self.number.is_multiple_of(7) {
            self.delete(client, &id);
        }
    }
}

fn parse_created(response: &HttpResponse) -> Option<CreatedToken> {
    let body: Value = serde_json::from_str(&response.body).ok()?;
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    Some(CreatedToken { id: text("id")?, fingerprint: text("fingerprint")? })
}

/// Runs one client: it completes one token after another until it must stop.
pub(crate) fn run_client(
    nodes: &NodeAccess,
    node: usize,
    next_number: &AtomicU64,
    stop: &AtomicBool,
) -> (Vec<TokenHistory>, RunReport) {
    let (mut client, mut histories) = (RetryingClient::new(nodes, node), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let number = next_number.fetch_add(1, Ordering::Relaxed);
        let mut history = TokenHistory { number, created: None, patched: false, deleted: false };
        history.run_operations(&mut client);
        histories.push(history);
    }
    (histories, client.report)
}

/// Checks that every token matches its history, and that the same key still gets the same response.
pub(crate) fn check_tokens(nodes: &NodeAccess, histories: &[TokenHistory], report: &mut RunReport) {
    let mut client = RetryingClient::new(nodes, 0);
    for history in histories {
        let Some(created) = &history.created else { continue };
        if history.number.is_multiple_of(4)
            && !history.deleted
            && retry_create(&mut client, history) != *created
        {
            report.add_violation(ConsistencyViolation::ResponseChanged);
        }
        let response =
            client.send_with_retries(&format!("GET /tokens/{}", created.id), &[], "").response;
        match (history.deleted, response.status) {
            (true, 404) => continue,
            (true, 200) => report.add_violation(ConsistencyViolation::DeleteUndone),
            (false, 404) => {
                report.add_violation(ConsistencyViolation::Lost);
                continue;
            }
            (_, status) => report.expect_status("check", status, 200),
        }
        let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let note = if history.patched { "second" } else { "first" };
        if body["data"]["number"] != history.own_card_number()
            || body["fingerprint"] != created.fingerprint.as_str()
            || body["metadata"]["note"] != note
        {
            report.add_violation(ConsistencyViolation::WrongContent);
        }
        client.switch_node("checked");
    }
    report.merge(&client.report);
}

fn retry_create(client: &mut RetryingClient<'_>, history: &TokenHistory) -> CreatedToken {
    client.report.add("repeated");
    let unknown_token = || CreatedToken { id: String::new(), fingerprint: String::new() };
    parse_created(&history.create(client)).unwrap_or_else(unknown_token)
}

/// Checks the database itself, without a node: exactly one row for every existing token, and one
/// record for every change.
pub(crate) fn check_rows(vault: &TwoNodeVault, histories: &[TokenHistory], report: &mut RunReport) {
    let acknowledged = || histories.iter().filter_map(|it| Some((it, it.created.as_ref()?)));
    let mut ids_by_card: HashMap<String, BTreeSet<&str>> = HashMap::new();
    for (history, created) in acknowledged() {
        ids_by_card.entry(history.own_card_number()).or_default().insert(&created.id);
    }
    for _ in ids_by_card.values().filter(|ids| ids.len() > 1) {
        report.add_violation(ConsistencyViolation::DuplicateTokens);
    }
    let cluster = &vault.cluster;
    // Each card has one idempotency key or is deduplicated: two rows of one card are two effects.
    let duplicates = "SELECT count(*) FROM tokens GROUP BY tenant, fingerprint HAVING count(*) > 1";
    for _ in cluster.query_primary(duplicates) {
        report.add_violation(ConsistencyViolation::CreatedTwice);
    }
    let rows = cluster.query_primary("SELECT id FROM tokens");
    let stored_ids: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    let alive = acknowledged()
        .filter(|(history, _)| !history.deleted)
        .map(|(_, created)| created.id.as_str());
    if stored_ids != alive.collect() {
        report.add_violation(ConsistencyViolation::UnknownRows);
    }
    let count_histories =
        |condition: fn(&TokenHistory) -> bool| histories.iter().filter(|it| condition(it)).count();
    let count_of_kind = |kind| histories.iter().filter(|it| it.kind() == kind).count();
    let expected = [
        ("create_token", "created", ids_by_card.len()),
        ("create_token_intent", "created", count_of_kind(CreateKind::Intent)),
        ("convert_token_intent", "converted", count_of_kind(CreateKind::Intent)),
        ("update_token", "updated", count_histories(|it| it.patched)),
        ("delete_token", "deleted", count_histories(|it| it.deleted)),
    ];
    for (operation, outcome, effects) in expected {
        check_recorded(vault, operation, outcome, effects, report);
    }
    check_counts_and_chain(vault, report);
}

pub(crate) fn check_recorded(
    vault: &TwoNodeVault,
    operation: &str,
    outcome: &str,
    effects: usize,
    report: &mut RunReport,
) {
    let record_count = vault.cluster.query_primary(&format!(
        "SELECT count(*) FROM log_records WHERE operation = '{operation}' AND outcome = '{outcome}'"
    ));
    if record_count != [effects.to_string()] {
        println!("  {operation} {outcome}: {effects} done, {record_count:?} recorded");
        report.add_violation(ConsistencyViolation::ChangeNotRecorded);
    }
}

/// Checks that the usage counters match the rows, and that the audit chain is valid.
pub(crate) fn check_counts_and_chain(vault: &TwoNodeVault, report: &mut RunReport) {
    let miscount_query = "SELECT 'x' WHERE EXISTS (
        (SELECT tenant, type, count FROM usage_types WHERE count > 0
         EXCEPT SELECT tenant, type, count(*) FROM tokens GROUP BY tenant, type)
    ) OR (SELECT sum(count) FROM usage_types) <> (SELECT count(*) FROM tokens)";
    if !vault.cluster.query_primary(miscount_query).is_empty() {
        report.add_violation(ConsistencyViolation::UsageMiscounted);
    }
    if !vault.is_audit_chain_valid() {
        report.add_violation(ConsistencyViolation::AuditChainBroken);
    }
}
