//! The requests of the clients, the responses, and checks that the vault matches them.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use scrip_testing::{
    process::client::{HttpClient, HttpResponse, ServerAddress},
    requests::card_number,
};
use serde_json::{Value, json};

use crate::{DurabilityViolation, RunReport};

/// Completed reads of all clients.
pub(crate) static READS: AtomicU64 = AtomicU64::new(0);

/// One token and everything a client tried with it.
#[derive(Debug)]
pub(crate) struct TokenHistory {
    number: u64,
    /// The acknowledged token, `None` while the outcome is unknown.
    pub(crate) created: Option<CreatedToken>,
    /// The create was repeated after a kill.
    pub(crate) retried: bool,
    patch: StepOutcome,
    delete: StepOutcome,
    /// The trace id of a completed read.
    pub(crate) read_trace: Option<String>,
}

#[derive(Debug)]
pub(crate) struct CreatedToken {
    pub(crate) id: String,
    fingerprint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    NotSent,
    /// Sent before the connection broke.
    Unknown,
    Acknowledged,
}

impl TokenHistory {
    fn new(number: u64) -> Self {
        let (patch, delete) = (StepOutcome::NotSent, StepOutcome::NotSent);
        Self { number, created: None, retried: false, patch, delete, read_trace: None }
    }

    /// Sends the same bytes every time.
    fn create(&self, client: &mut HttpClient) -> io::Result<HttpResponse> {
        let key = format!("deed-{}", self.number);
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let data =
            json!({ "number": card_number(self.number), "expiration_month": 12, "cvc": "123" });
        let body = json!({ "type": "card", "data": data, "metadata": { "note": "first" } });
        client.send("POST /tokens", &headers, &body.to_string())
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.delete == StepOutcome::Acknowledged
    }
}

/// Runs one client: creates tokens, patches some and deletes some until the connection breaks.
pub(crate) fn run_client(
    address: &ServerAddress,
    next_number: &AtomicU64,
) -> (Vec<TokenHistory>, RunReport) {
    let (mut histories, mut report) = (Vec::new(), RunReport::default());
    let Ok(mut client) = HttpClient::connect(address) else { return (histories, report) };
    // This is an upper bound that no round reaches.
    for _ in 0..100_000 {
        let mut history = TokenHistory::new(next_number.fetch_add(1, Ordering::Relaxed));
        let is_complete = try_operations(&mut client, &mut history, &mut report);
        histories.push(history);
        if is_complete.is_err() {
            break;
        }
    }
    (histories, report)
}

fn try_operations(
    client: &mut HttpClient,
    history: &mut TokenHistory,
    report: &mut RunReport,
) -> io::Result<()> {
    let response = history.create(client)?;
    report.expect_status(response.status, 201);
    history.created = parse_created(&response);
    let Some(created) = &history.created else { return Ok(()) };
    if history.number.is_multiple_of(3) {
        let trace = format!("read-{}", history.number);
        let headers = [("BT-TRACE-ID", trace.as_str())];
        let response = client.send(&format!("GET /tokens/{}", created.id), &headers, "")?;
        report.expect_status(response.status, 200);
        if response.status == 200 {
            report.add("reads");
            READS.fetch_add(1, Ordering::Relaxed);
            history.read_trace = Some(trace);
        }
    }
    if history.number.is_multiple_of(5) {
        history.patch = StepOutcome::Unknown;
        let headers = [("Content-Type", "application/merge-patch+json")];
        let body = json!({ "metadata": { "note": "second" } }).to_string();
        let response = client.send(&format!("PATCH /tokens/{}", created.id), &headers, &body)?;
        report.expect_status(response.status, 200);
        history.patch =
            if response.status == 200 { StepOutcome::Acknowledged } else { StepOutcome::NotSent };
    }
    if history.number.is_multiple_of(7) {
        history.delete = StepOutcome::Unknown;
        let response = client.send(&format!("DELETE /tokens/{}", created.id), &[], "")?;
        report.expect_status(response.status, 204);
        history.delete =
            if response.status == 204 { StepOutcome::Acknowledged } else { StepOutcome::NotSent };
    }
    Ok(())
}

fn parse_created(response: &HttpResponse) -> Option<CreatedToken> {
    let body: Value = serde_json::from_str(&response.body).ok()?;
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    Some(CreatedToken { id: text("id")?, fingerprint: text("fingerprint")? })
}

/// Repeats all requests with an unknown outcome and some acknowledged ones. The response to the
/// latter must be the same.
pub(crate) fn retry_requests(
    address: &ServerAddress,
    histories: &mut [TokenHistory],
    report: &mut RunReport,
) {
    let mut client = HttpClient::connect(address).expect("connect to the restarted server");
    for history in histories {
        let was_created = history.created.is_some();
        report.add(if was_created { "acknowledged" } else { "unknown" });
        if was_created && !history.number.is_multiple_of(10) {
            continue;
        }
        let response = history.create(&mut client).expect("the server responds");
        report.add("repeated");
        report.expect_status(response.status, 201);
        let repeated = parse_created(&response);
        // A stored response has no CVC, so a response without one is a replay.
        let replayed = !response.body.contains("\"cvc\"");
        match (&history.created, repeated) {
            (Some(first), Some(repeated)) => {
                if first.id != repeated.id || first.fingerprint != repeated.fingerprint {
                    report.add_violation(DurabilityViolation::ResponseChanged);
                }
            }
            (None, repeated) => {
                if replayed {
                    report.add("replayed");
                }
                history.created = repeated;
                history.retried = true;
            }
            (Some(_), None) => report.add_violation(DurabilityViolation::ResponseChanged),
        }
    }
}

/// Compares every token with its history. Unknown outcomes become known.
pub(crate) fn check_tokens(
    address: &ServerAddress,
    histories: &mut [TokenHistory],
    report: &mut RunReport,
) {
    let mut client = HttpClient::connect(address).expect("connect to the server");
    for history in histories {
        let Some(created) = &history.created else { continue };
        let response = client.send(&format!("GET /tokens/{}", created.id), &[], "");
        let response = response.expect("the server responds");
        let is_missing = response.status == 404;
        match (history.delete, is_missing) {
            (StepOutcome::Acknowledged, true) => continue,
            (StepOutcome::Acknowledged, false) => {
                report.add_violation(DurabilityViolation::DeleteUndone)
            }
            (StepOutcome::Unknown, true) => {
                history.delete = StepOutcome::Acknowledged;
                continue;
            }
            (StepOutcome::Unknown, false) => history.delete = StepOutcome::NotSent,
            (StepOutcome::NotSent, true) => {
                report.add_violation(if history.retried {
                    DurabilityViolation::LostAfterRestart
                } else {
                    DurabilityViolation::Lost
                });
                continue;
            }
            (StepOutcome::NotSent, false) => (),
        }
        report.expect_status(response.status, 200);
        let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
        if body["data"]["number"] != card_number(history.number)
            || body["fingerprint"] != created.fingerprint.as_str()
        {
            report.add_violation(DurabilityViolation::WrongContent);
        }
        let is_patched = body["metadata"]["note"] == "second";
        match (history.patch, is_patched) {
            (StepOutcome::Acknowledged, false) | (StepOutcome::NotSent, true) => {
                report.add_violation(DurabilityViolation::WrongContent)
            }
            (StepOutcome::Unknown, true) => history.patch = StepOutcome::Acknowledged,
            (StepOutcome::Unknown, false) => history.patch = StepOutcome::NotSent,
            (StepOutcome::Acknowledged, true) | (StepOutcome::NotSent, false) => (),
        }
    }
}
