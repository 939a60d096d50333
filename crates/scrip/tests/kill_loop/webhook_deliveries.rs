//! Kills the server while it delivers the events of tokens to a webhook. The receiver must get an
//! event of every effect, at least once and always with the same event id, and no event without an
//! effect.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use scrip_testing::{
    destination::{
        DestinationHost, DestinationServer,
        behavior::DestinationBehavior,
        token_events::{
            EventReport, EventViolation, RequestAttempts, TOKEN_CREATED, TOKEN_DELETED, TOKEN_READ,
            TokenRequests, check_token_events,
        },
    },
    faults::store_fault::StoreFault,
    process::{
        ServerProcess,
        client::{HttpClient, HttpResponse, ServerAddress},
        scrip_dev_command,
    },
    random::random_duration,
    requests::http_client::BlockingClient,
};
use serde_json::json;

use crate::{SCRIP, Scenario, server_command};

const CLIENTS: usize = 8;
/// On a busy machine, most kills come before the first commit. Then there are more rounds.
const ROUNDS_MAX: usize = 200;
/// Each kill of the control comes less than its delay after many commits.
const CONTROL_ROUNDS: usize = 3;
/// Failed attempts are in every round with a number that this divides.
const FAILURE_PERIOD: usize = 5;
/// The number of failed attempts in such a round.
const FAILURES: usize = 3;
/// Polls for five minutes: only a server that delivers nothing reaches the end.
const POLLS_MAX: usize = 3000;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A webhook, its receiver, and the tokens that caused its events.
struct DeliveryTest {
    data: PathBuf,
    fault: Option<StoreFault>,
    receiver: DestinationHost,
    _receiver_server: DestinationServer,
    next_number: AtomicU64,
    tokens: Vec<TokenRequests>,
    report: EventReport,
    _folder: tempfile::TempDir,
}

impl DeliveryTest {
    fn new(fault: Option<StoreFault>) -> Self {
        let folder = tempfile::tempdir().expect("create a temporary folder");
        let data = folder.path().join("data");
        let (receiver_server, receiver) = DestinationServer::start_plain(&[]);
        // The shipped program creates the keys that a faulty server needs.
        let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, &data));
        create_webhook(&server.server_address, &receiver.url("/events"));
        Self {
            data,
            fault,
            receiver,
            _receiver_server: receiver_server,
            next_number: AtomicU64::new(0),
            tokens: Vec::new(),
            report: EventReport::default(),
            _folder: folder,
        }
    }

    fn start_server(&self) -> ServerProcess {
        ServerProcess::start(&mut server_command(self.fault, &self.data))
    }

    fn run_round(&mut self, round: usize) {
        let failures = if round.is_multiple_of(FAILURE_PERIOD) { FAILURES } else { 0 };
        self.receiver.set_behaviors(&delayed_answers(failures));
        self.report.add("failures", failures);
        let mut server = self.start_server();
        let address = server.server_address.clone();
        self.repeat_creates(&address);
        let (next_number, acknowledged) = (&self.next_number, AtomicUsize::new(0));
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| scope.spawn(|| run_client(&address, next_number, &acknowledged)))
                .collect();
            thread::sleep(random_duration(20..300));
            if self.fault.is_some() {
                // Only an acknowledged token can lack its event.
                wait_until(|| acknowledged.load(Ordering::Relaxed) >= CLIENTS);
            }
            server.child.kill().expect("kill the server");
            for client in clients {
                let (tokens, report) = client.join().expect("a client thread panicked");
                self.tokens.extend(tokens);
                self.report.merge(report);
            }
        });
        self.report.add("rounds", 1);
    }

    /// Repeats some of the creates without a response. The others show that an effect that no
    /// client knows also has an event.
    fn repeat_creates(&mut self, address: &ServerAddress) {
        let mut client = HttpClient::connect(address).expect("connect to the restarted server");
        for (number, token) in self.tokens.iter_mut().enumerate() {
            if number.is_multiple_of(2) && !token.create.is_acknowledged {
                let response = send_create(&mut client, token).expect("the server responds");
                let expected = ExpectedResponse { status: 201, counter: "creates repeated" };
                expected.accept(&response, &mut token.create, &mut self.report);
            }
        }
    }

    /// Delivers all events, and checks them.
    fn finish(&mut self) {
        end_leases(&self.data);
        self.receiver.set_behaviors(&[DestinationBehavior::text(200, "")]);
        let server = self.start_server();
        if !wait_until(|| count_undelivered(&self.data) == 0) {
            self.report.add("undelivered", count_undelivered(&self.data));
        }
        drop(server);
        let existing_ids = list_tokens(&self.data);
        let received = self.receiver.requests();
        self.report.merge(check_token_events(&self.tokens, &existing_ids, &received));
    }
}

/// Answers after different times, so that kills hit deliveries before, during and after an answer.
/// Some of the first answers are failures.
fn delayed_answers(failures: usize) -> Vec<DestinationBehavior> {
    let answer = |index: usize| {
        let is_failure = index % 4 == 3 && index / 4 < failures;
        let answer = DestinationBehavior::text(if is_failure { 500 } else { 200 }, "");
        DestinationBehavior::Delayed(random_duration(0..30), Box::new(answer))
    };
    (0..1000).map(answer).collect()
}

fn create_webhook(address: &ServerAddress, url: &str) {
    let key = address.ready_message["keys"]["management"].as_str().unwrap_or_default();
    let events = [TOKEN_CREATED, TOKEN_READ, TOKEN_DELETED];
    let body = json!({ "name": "Receiver", "url": url, "events": events });
    let request = BlockingClient::default().post(format!("http://{}/webhooks", address.address));
    drop(request.api_key(key).json(&body).send().expect_status(201));
}

/// Creates tokens, reads some and deletes some, until the connection breaks.
fn run_client(
    address: &ServerAddress,
    next_number: &AtomicU64,
    acknowledged: &AtomicUsize,
) -> (Vec<TokenRequests>, EventReport) {
    let (mut tokens, mut report) = (Vec::new(), EventReport::default());
    let Ok(mut client) = HttpClient::connect(address) else { return (tokens, report) };
    // This is an upper bound that no round reaches.
    for _ in 0..100_000 {
        let number = next_number.fetch_add(1, Ordering::Relaxed);
        let mut token = TokenRequests::new(format!("token-{number}"));
        let is_complete = send_requests(&mut client, number, &mut token, &mut report);
        acknowledged.fetch_add(usize::from(token.create.is_acknowledged), Ordering::Relaxed);
        tokens.push(token);
        if is_complete.is_err() {
            break;
        }
    }
    (tokens, report)
}

fn send_requests(
    client: &mut HttpClient,
    number: u64,
    token: &mut TokenRequests,
    report: &mut EventReport,
) -> io::Result<()> {
    let response = send_create(client, token)?;
    let expected = ExpectedResponse { status: 201, counter: "creates" };
    expected.accept(&response, &mut token.create, report);
    if number.is_multiple_of(3) {
        token.read.sent += 1;
        let response = client.send(&format!("GET /tokens/{}", token.id), &[], "")?;
        let expected = ExpectedResponse { status: 200, counter: "reads" };
        expected.accept(&response, &mut token.read, report);
    }
    if number.is_multiple_of(4) {
        token.delete.sent += 1;
        let response = client.send(&format!("DELETE /tokens/{}", token.id), &[], "")?;
        let expected = ExpectedResponse { status: 204, counter: "deletes" };
        expected.accept(&response, &mut token.delete, report);
    }
    Ok(())
}

/// Sends the same bytes every time.
fn send_create(client: &mut HttpClient, token: &mut TokenRequests) -> io::Result<HttpResponse> {
    token.create.sent += 1;
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", &*token.id)];
    let body = json!({ "id": token.id, "type": "token", "data": "text" });
    client.send("POST /tokens", &headers, &body.to_string())
}

/// The status of a response to a request that takes effect, and the counter of such responses.
struct ExpectedResponse {
    status: u16,
    counter: &'static str,
}

impl ExpectedResponse {
    fn accept(
        &self,
        response: &HttpResponse,
        request: &mut RequestAttempts,
        report: &mut EventReport,
    ) {
        if response.status == self.status {
            request.is_acknowledged = true;
            report.add(self.counter, 1);
        } else {
            let example = format!("{} {}", response.status, response.body);
            report.add_violation(EventViolation::UnexpectedStatus, example);
        }
    }
}

fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    (0..POLLS_MAX).any(|poll| {
        if poll > 0 {
            thread::sleep(POLL_INTERVAL);
        }
        condition()
    })
}

fn open_database(data: &Path, name: &str, flags: OpenFlags) -> Connection {
    let database = Connection::open_with_flags(data.join(name), flags).expect("open a database");
    database.busy_timeout(Duration::from_secs(60)).expect("set the timeout");
    database
}

/// Lets the leases of the killed server end at once, as if time had passed. The waiting time after
/// a failed attempt ends too.
fn end_leases(data: &Path) {
    let database = open_database(data, "scrip.db", OpenFlags::SQLITE_OPEN_READ_WRITE);
    let sql = "UPDATE deliveries SET next_at = 0 WHERE state = 'pending'";
    database.execute(sql, []).expect("end the leases");
}

/// The number of deliveries that are not finished, and of reads that have no delivery yet.
fn count_undelivered(data: &Path) -> usize {
    let count = |file, sql| -> i64 {
        let database = open_database(data, file, OpenFlags::SQLITE_OPEN_READ_ONLY);
        database.query_row(sql, [], |row| row.get(0)).expect("count the deliveries")
    };
    // Reads first: they become deliveries.
    let reads = count("read_log.db", "SELECT count(*) FROM read_deliveries");
    let pending = count("scrip.db", "SELECT count(*) FROM deliveries WHERE state = 'pending'");
    usize::try_from(reads + pending).expect("a number")
}

fn list_tokens(data: &Path) -> HashSet<String> {
    let database = open_database(data, "scrip.db", OpenFlags::SQLITE_OPEN_READ_ONLY);
    let mut statement = database.prepare("SELECT id FROM tokens").expect("run the query");
    let rows = statement.query_map([], |row| row.get(0)).expect("run the query");
    rows.map(|it| it.expect("read a row")).collect()
}

fn run_scenario(
    name: &str,
    fault: Option<StoreFault>,
    rounds: usize,
    is_passed: impl Fn(&EventReport) -> bool,
) -> bool {
    let mut test = DeliveryTest::new(fault);
    for round in 1..=ROUNDS_MAX {
        test.run_round(round);
        if round.is_multiple_of(3) {
            // Otherwise the leases of the first rounds would last until the end.
            end_leases(&test.data);
        }
        if round >= rounds && has_all_requests(&test.report) {
            break;
        }
    }
    test.finish();
    let EventReport { counts, violations, examples } = &test.report;
    let passed = is_passed(&test.report);
    let word = if passed { "ok" } else { "FAILED" };
    println!("kill_loop {name} ... {word}  {counts:?}  found {violations:?}");
    if !passed {
        println!("  {examples:#?}");
    }
    passed
}

/// A clean run proves little unless requests of each type took effect.
fn is_clean(report: &EventReport) -> bool {
    report.violations.is_empty() && has_all_requests(report)
}

fn has_all_requests(report: &EventReport) -> bool {
    ["creates", "reads", "deletes"].into_iter().all(|it| report.count(it) > 0)
}

/// In a long run, kills must also come between the end of an attempt and the storing of its result:
/// then there are more repetitions than failed attempts.
fn is_clean_with_repetitions(report: &EventReport) -> bool {
    is_clean(report) && report.count("repeated") > report.count("failures")
}

fn found_lost_event(report: &EventReport) -> bool {
    report.has_violation(EventViolation::LostEvent)
}

/// Runs the shipped program, and as a control a store that writes deliveries after the commit.
pub(crate) fn scenarios(is_long: bool) -> [Scenario; 2] {
    let rounds = if is_long { 100 } else { 10 };
    let is_passed = if is_long { is_clean_with_repetitions } else { is_clean };
    [
        Scenario::new("webhook_deliveries", move |name| {
            run_scenario(name, None, rounds, is_passed)
        }),
        Scenario::new("late_deliveries", |name| {
            run_scenario(name, Some(StoreFault::LateDeliveries), CONTROL_ROUNDS, found_lost_event)
        }),
    ]
}
