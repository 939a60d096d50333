//! Kills the server during proxied calls with idempotency keys. The destination must be called at
//! most once for a key, and no response may say that a call was not sent if it arrived.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use scrip_testing::{
    destination::{
        DestinationHost, DestinationServer,
        behavior::DestinationBehavior::{self, Delayed, Echo},
    },
    faults::store_fault::StoreFault,
    process::{ServerProcess, client::ServerAddress, scrip_dev_command},
    random::random_duration,
    requests::{
        card_number,
        http_client::{BlockingClient, ClientResponse},
    },
};
use serde_json::{Value, json};

use crate::{SCRIP, Scenario, server_command};

const CALLERS: usize = 8;
const CALL_HEADER: &str = "X-Call";
const DESTINATION_STATUS: &str = "bt-proxy-destination-status";
/// A control run ends earlier when it has found its fault.
const CONTROL_ROUNDS_MAX: usize = 60;
/// Far longer than a call takes: only a server that hangs reaches it.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A violated guarantee of proxied calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallViolation {
    /// The destination received two requests with one key.
    CalledTwice,
    /// A response said that the call was not sent, but it had arrived.
    FalseNotSent,
    /// The same key got another answer.
    AnswerChanged,
    /// The answer of the destination got lost although the client had received it.
    AnswerForgotten,
    /// A response that no rule describes.
    UnexpectedResponse,
}

#[derive(Debug, Default)]
struct CallReport {
    counts: BTreeMap<&'static str, usize>,
    violations: BTreeMap<CallViolation, usize>,
}

impl CallReport {
    fn add(&mut self, counter: &'static str) {
        *self.counts.entry(counter).or_default() += 1;
    }

    fn add_violation(&mut self, violation: CallViolation) {
        *self.violations.entry(violation).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        for (counter, count) in other.counts {
            *self.counts.entry(counter).or_default() += count;
        }
        for (violation, count) in other.violations {
            *self.violations.entry(violation).or_default() += count;
        }
    }
}

/// One call and the answer that its client received.
#[derive(Debug)]
struct CallHistory {
    number: u64,
    answer: Option<String>,
}

/// The destination, and the calls that it received by number.
struct CallPeer {
    host: DestinationHost,
    _server: DestinationServer,
}

impl CallPeer {
    fn start() -> Self {
        let (server, host) = DestinationServer::start_plain(&delayed_answers());
        Self { host, _server: server }
    }

    fn counts(&self) -> HashMap<u64, usize> {
        let mut counts = HashMap::new();
        for request in self.host.requests() {
            let number = request.header(CALL_HEADER).and_then(|it| it.parse().ok());
            *counts.entry(number.expect("the number of the call")).or_default() += 1;
        }
        counts
    }

    fn has_received(&self, number: u64) -> bool {
        self.counts().contains_key(&number)
    }
}

/// Answers after different times, so that kills hit calls before, during and after an answer.
fn delayed_answers() -> Vec<DestinationBehavior> {
    let delays = [0, 3, 25, 0, 8].into_iter().cycle().take(1000);
    delays.map(|it| Delayed(Duration::from_millis(it), Box::new(Echo))).collect()
}

/// The destination and the token that every call of a scenario uses.
struct CallSetup {
    peer: CallPeer,
    token: String,
}

fn send_call(
    client: &BlockingClient,
    address: &ServerAddress,
    setup: &CallSetup,
    number: u64,
) -> std::io::Result<ClientResponse> {
    let body =
        json!({ "call": number, "card": format!("{{{{ {} | json: '$.number' }}}}", setup.token) });
    let request = client.post(format!("http://{}/proxy/charges", address.address));
    let request = request.api_key(api_key(address)).header("BT-PROXY-URL", setup.peer.host.url(""));
    let request = request.header("BT-IDEMPOTENCY-KEY", format!("call-{number}"));
    request.header(CALL_HEADER, number.to_string()).json(&body).try_send()
}

fn api_key(address: &ServerAddress) -> &str {
    address.ready_message["keys"]["private"].as_str().unwrap_or_default()
}

/// Sends calls until the connection breaks.
fn run_caller(
    address: &ServerAddress,
    setup: &CallSetup,
    next_number: &AtomicU64,
) -> (Vec<CallHistory>, CallReport) {
    let (mut histories, mut report) = (Vec::new(), CallReport::default());
    let client = BlockingClient::with_timeout(CALL_TIMEOUT);
    // This is an upper bound that no round reaches.
    for _ in 0..100_000 {
        let number = next_number.fetch_add(1, Ordering::Relaxed);
        let mut history = CallHistory { number, answer: None };
        let outcome = send_call(&client, address, setup, number);
        if let Ok(response) = &outcome {
            check_response(setup, &mut history, response, &mut report);
        }
        histories.push(history);
        if outcome.is_err() {
            report.add("unknown");
            break;
        }
    }
    (histories, report)
}

/// Compares a response with the calls that arrived.
fn check_response(
    setup: &CallSetup,
    history: &mut CallHistory,
    response: &ClientResponse,
    report: &mut CallReport,
) {
    if response.header(DESTINATION_STATUS) == Some("200") && response.status == 200 {
        let answer = String::from_utf8_lossy(&response.body).into_owned();
        report.add(if history.answer.is_some() { "replayed" } else { "answered" });
        match &history.answer {
            Some(first) if *first != answer => report.add_violation(CallViolation::AnswerChanged),
            Some(_) => (),
            None => history.answer = Some(answer),
        }
        return;
    }
    let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let delivery = body["proxy_error"]["errors"]["proxy"][0].as_str().unwrap_or_default();
    match (response.status, delivery) {
        (_, "not_sent") => {
            report.add("not_sent");
            if setup.peer.has_received(history.number) {
                report.add_violation(CallViolation::FalseNotSent);
            }
        }
        (409, "maybe_sent") => report.add("maybe_sent"),
        _ => report.add_violation(CallViolation::UnexpectedResponse),
    }
    if history.answer.is_some() {
        report.add_violation(CallViolation::AnswerForgotten);
    }
}

fn run_round(
    fault: Option<StoreFault>,
    data: &Path,
    setup: &CallSetup,
    next_number: &AtomicU64,
    report: &mut CallReport,
) {
    let mut server = ServerProcess::start(&mut server_command(fault, data));
    let address = server.server_address.clone();
    setup.peer.host.set_behaviors(&delayed_answers());
    let mut histories = Vec::new();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| scope.spawn(|| run_caller(&address, setup, next_number)))
            .collect();
        thread::sleep(random_duration(20..250));
        server.child.kill().expect("kill the server");
        for caller in callers {
            let (caller_histories, caller_report) = caller.join().expect("a caller panicked");
            histories.extend(caller_histories);
            report.merge(caller_report);
        }
    });
    drop(server);

    let server = ServerProcess::start(&mut server_command(fault, data));
    let client = BlockingClient::with_timeout(CALL_TIMEOUT);
    for history in &mut histories {
        if history.answer.is_some() && !history.number.is_multiple_of(10) {
            continue;
        }
        // The second repetition must agree with the first one.
        for _ in 0..2 {
            let response = send_call(&client, &server.server_address, setup, history.number);
            check_response(setup, history, &response.expect("the server responds"), report);
        }
    }
    drop(server);
    // A request of the killed server may still be in the buffers of the destination.
    let counts = setup.peer.counts();
    for history in &histories {
        if counts.get(&history.number).is_some_and(|it| *it > 1) {
            report.add_violation(CallViolation::CalledTwice);
        }
        if history.answer.is_some() && !counts.contains_key(&history.number) {
            report.add_violation(CallViolation::UnexpectedResponse);
        }
    }
    report.add("rounds");
}

/// Creates the token that all calls use.
fn create_token(data: &Path) -> String {
    let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, data));
    let address = &server.server_address;
    let request = BlockingClient::default().post(format!("http://{}/tokens", address.address));
    let body = json!({ "type": "card", "data": { "number": card_number(7) } });
    let response = request.api_key(api_key(address)).json(&body).send().expect_status(201);
    response.json()["id"].as_str().expect("an id").to_owned()
}

/// Runs rounds on one data directory until `is_finished`, or all of them.
fn run_scenario(
    name: &str,
    fault: Option<StoreFault>,
    rounds: usize,
    is_finished: fn(&CallReport) -> bool,
    is_passed: fn(&CallReport) -> bool,
) -> bool {
    let folder = tempfile::tempdir().expect("create a temporary folder");
    let data = folder.path().join("data");
    let setup = CallSetup { token: create_token(&data), peer: CallPeer::start() };
    let (next_number, mut report) = (AtomicU64::new(0), CallReport::default());
    for _ in 0..rounds {
        run_round(fault, &data, &setup, &next_number, &mut report);
        if is_finished(&report) {
            break;
        }
    }
    let passed = is_passed(&report);
    let word = if passed { "ok" } else { "FAILED" };
    println!("kill_loop {name} ... {word}  {:?}  found {:?}", report.counts, report.violations);
    passed
}

/// A clean run proves little unless kills hit calls that were on their way.
fn is_clean(report: &CallReport) -> bool {
    let has_seen = |counter| report.counts.contains_key(counter);
    report.violations.is_empty() && has_seen("answered") && has_seen("maybe_sent")
}

fn found_second_call(report: &CallReport) -> bool {
    report.violations.contains_key(&CallViolation::CalledTwice)
}

/// Runs the shipped program, and as a control a store that forgets the intention.
pub(crate) fn scenarios(is_long: bool) -> [Scenario; 2] {
    let rounds = if is_long { 200 } else { 20 };
    [
        Scenario::new("proxied_calls", move |name| {
            run_scenario(name, None, rounds, |it| !it.violations.is_empty(), is_clean)
        }),
        Scenario::new("lost_call_record", |name| {
            let fault = Some(StoreFault::LostCallRecord);
            run_scenario(name, fault, CONTROL_ROUNDS_MAX, found_second_call, found_second_call)
        }),
    ]
}
