//! Two nodes deliver the events of tokens to one webhook. Without failures, each event arrives
//! once; after kills of nodes, at least once and always with the same event id.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use scrip_testing::{
    destination::{
        DestinationHost, DestinationServer,
        behavior::DestinationBehavior,
        token_events::{
            EventReport, EventViolation, TOKEN_CREATED, TOKEN_DELETED, TOKEN_READ, TokenRequests,
            check_token_events,
        },
    },
    postgres::cluster::Cluster,
    random::random_duration,
};
use serde_json::json;

use crate::{
    RunLength,
    nodes::{FinalResponse, NodeAccess, RetryingClient, TwoNodeVault, eventually},
    report::{ConsistencyViolation, RunReport},
};

const CLIENTS: usize = 8;
/// The number of tokens that clients start before a kill.
const ROUND_TOKENS: u64 = 16;
/// Every round of this period kills both nodes.
const BOTH_NODES_PERIOD: usize = 5;
/// A client does not know how many of its attempts took effect.
const UNKNOWN_ATTEMPTS: usize = usize::MAX;
const EVENT_TYPES: [&str; 3] = [TOKEN_CREATED, TOKEN_READ, TOKEN_DELETED];

/// A vault with a webhook, its receiver, and the tokens that caused its events.
struct DeliveryTest {
    vault: TwoNodeVault,
    receiver: DestinationHost,
    _receiver_server: DestinationServer,
    next_number: AtomicU64,
    tokens: Vec<TokenRequests>,
    report: RunReport,
}

impl DeliveryTest {
    /// Creates the vault. The receiver answers after up to this time, so that both nodes have
    /// deliveries on their way.
    fn new(answer_ms_max: u64) -> Self {
        let mut vault = TwoNodeVault::create(Cluster::start(&[]));
        let (receiver_server, receiver) = DestinationServer::start_plain(&answers(answer_ms_max));
        vault.create_webhook(&receiver.url("/events"), &EVENT_TYPES);
        let (next_number, tokens, report) = Default::default();
        Self { vault, receiver, _receiver_server: receiver_server, next_number, tokens, report }
    }

    /// Runs an action while the clients send requests. The clients continue until they know the
    /// outcome of every request.
    fn run_under_load(&mut self, action: impl FnOnce(&mut TwoNodeVault, &AtomicU64)) {
        let (vault, next_number, stop) =
            (&mut self.vault, &self.next_number, AtomicBool::new(false));
        let nodes = vault.nodes_access.clone();
        thread::scope(|scope| {
            let client = |index| {
                let (nodes, stop) = (&nodes, &stop);
                scope.spawn(move || run_client(nodes, index, next_number, stop))
            };
            let clients: Vec<_> = (0..CLIENTS).map(client).collect();
            action(vault, next_number);
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                let (tokens, report) = client.join().expect("a client thread panicked");
                self.tokens.extend(tokens);
                self.report.merge(&report);
            }
        });
    }

    /// Waits until there is no pending delivery. Only a vault that delivers nothing takes so long
    /// that the result is `false`.
    fn wait_for_deliveries(&self) -> bool {
        (0..3000).any(|_| {
            thread::sleep(Duration::from_millis(100));
            let sql = "SELECT count(*) FROM deliveries WHERE state = 'pending'";
            self.vault.cluster.query_primary(sql) == ["0"]
        })
    }

    /// Compares all events with the requests and with the rows.
    fn check_events(&self) -> EventReport {
        let existing_ids = self.vault.cluster.query_primary("SELECT id FROM tokens");
        let existing_ids = existing_ids.into_iter().collect();
        check_token_events(&self.tokens, &existing_ids, &self.receiver.requests())
    }
}

/// Answers after different times.
fn answers(ms_max: u64) -> Vec<DestinationBehavior> {
    let answer = || {
        let answer = DestinationBehavior::text(200, "");
        DestinationBehavior::Delayed(random_duration(0..ms_max), Box::new(answer))
    };
    (0..100_000).map(|_| answer()).collect()
}

/// Creates tokens, reads some and deletes some, until it must stop.
fn run_client(
    nodes: &NodeAccess,
    node: usize,
    next_number: &AtomicU64,
    stop: &AtomicBool,
) -> (Vec<TokenRequests>, RunReport) {
    let (mut client, mut tokens) = (RetryingClient::new(nodes, node), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let number = next_number.fetch_add(1, Ordering::Relaxed);
        let mut token = TokenRequests::new(format!("token-{number}"));
        send_requests(&mut client, number, &mut token);
        tokens.push(token);
        // More load would only measure how fast the nodes sign.
        thread::sleep(random_duration(5..40));
    }
    (tokens, client.report)
}

fn send_requests(client: &mut RetryingClient<'_>, number: u64, token: &mut TokenRequests) {
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", &*token.id)];
    let body = json!({ "id": token.id, "type": "token", "data": "text" }).to_string();
    let created = client.send_with_retries("POST /tokens", &headers, &body);
    client.report.expect_status("create", created.response.status, 201);
    token.create.sent = count_attempts(&created);
    token.create.is_acknowledged = created.response.status == 201;
    if number.is_multiple_of(3) {
        let read = client.send_with_retries(&format!("GET /tokens/{}", token.id), &[], "");
        client.report.expect_status("read", read.response.status, 200);
        token.read.sent = count_attempts(&read);
        token.read.is_acknowledged = read.response.status == 200;
    }
    if number.is_multiple_of(4) {
        let deleted = client.send_with_retries(&format!("DELETE /tokens/{}", token.id), &[], "");
        // A delete has no idempotency key. A client with an unknown outcome that then gets a 404
        // has deleted the token itself.
        if !(deleted.had_unknown_outcome && deleted.response.status == 404) {
            client.report.expect_status("delete", deleted.response.status, 204);
        }
        token.delete.sent = count_attempts(&deleted);
        token.delete.is_acknowledged = true;
    }
}

fn count_attempts(response: &FinalResponse) -> usize {
    if response.had_unknown_outcome { UNKNOWN_ATTEMPTS } else { 1 }
}

/// Waits until the clients have started this number of tokens after this call.
fn wait_for_tokens(next_number: &AtomicU64, count: u64) {
    let target = next_number.load(Ordering::Relaxed) + count;
    let has_load = eventually(|| next_number.load(Ordering::Relaxed) >= target);
    assert!(has_load, "the clients do not produce load");
}

/// The nodes share the work: without failures, no event arrives twice.
fn check_normal_operation(test: &mut DeliveryTest) {
    test.run_under_load(|vault, next_number| {
        wait_for_tokens(next_number, 200);
        let have_delivered = eventually(|| (0..2).all(|it| vault.has_delivered(it)));
        assert!(have_delivered, "a node delivers nothing");
    });
    assert!(test.wait_for_deliveries(), "a delivery without a failure does not arrive");
    let mut report = test.check_events();
    print_examples(&report);
    for _ in 0..report.count("repeated") {
        report.add_violation(EventViolation::DeliveredTwice, "an event");
    }
    test.report.add_many("events without failures", report.count("events"));
    test.report.add_events(&EventReport { counts: Default::default(), ..report });
}

pub(crate) fn kill_delivering_nodes(length: RunLength) -> (RunReport, bool) {
    let mut test = DeliveryTest::new(20);
    check_normal_operation(&mut test);
    test.run_under_load(|vault, next_number| {
        for round in 0..length.delivery_kills {
            wait_for_tokens(next_number, ROUND_TOKENS);
            thread::sleep(random_duration(20..300));
            let is_both = round % BOTH_NODES_PERIOD == BOTH_NODES_PERIOD - 1;
            let nodes = if is_both { vec![0, 1] } else { vec![round % 2] };
            nodes.iter().for_each(|it| vault.kill(*it));
            thread::sleep(random_duration(20..200));
            nodes.iter().for_each(|it| vault.start(*it));
        }
    });
    test.report.add_many("rounds", length.delivery_kills);
    if !length.is_full {
        end_leases(&test.vault);
    }
    // A full run waits until the leases of the killed nodes end.
    if !test.wait_for_deliveries() {
        test.report.add("undelivered");
    }
    let events = test.check_events();
    print_examples(&events);
    test.report.add_events(&events);
    let failures = test.report.count("503") + test.report.count("broken");
    // A clean run proves little unless kills interrupted requests and deliveries.
    let has_repetitions = !length.is_full || test.report.count("repeated") > 0;
    let passed = test.report.is_clean() && failures > 0 && has_repetitions;
    (test.report, passed)
}

/// Negative control: the deliveries that no node has claimed when a node is killed are deleted, as
/// if the node had wanted to write them after the commit.
pub(crate) fn lose_unclaimed_deliveries(_: RunLength) -> (RunReport, bool) {
    let mut test = DeliveryTest::new(300);
    test.run_under_load(|vault, next_number| {
        wait_for_tokens(next_number, 50);
        vault.kill(0);
        let sql = "DELETE FROM deliveries WHERE state = 'pending' AND attempts = 0 RETURNING event";
        let has_lost = eventually(|| !vault.cluster.query_primary(sql).is_empty());
        assert!(has_lost, "no delivery waits for an attempt");
        vault.start(0);
    });
    end_leases(&test.vault);
    assert!(test.wait_for_deliveries(), "the other deliveries do not arrive");
    let events = test.check_events();
    test.report.add_events(&events);
    let passed = events.has_violation(EventViolation::LostEvent);
    (test.report, passed)
}

/// Lets the leases of killed nodes end at once, as if time had passed.
fn end_leases(vault: &TwoNodeVault) {
    vault.cluster.query_primary("UPDATE deliveries SET next_at = 0 WHERE state = 'pending'");
}

fn print_examples(events: &EventReport) {
    for example in &events.examples {
        println!("  {example}");
    }
}

impl RunReport {
    fn add_events(&mut self, events: &EventReport) {
        for (counter, count) in &events.counts {
            self.add_many(counter, *count);
        }
        for (violation, count) in &events.violations {
            self.add_violations(ConsistencyViolation::Event(*violation), *count);
        }
    }
}
