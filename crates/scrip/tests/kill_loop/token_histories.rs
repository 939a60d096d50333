//! What the clients did, what they were told, and whether the vault still agrees.

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

/// Reads that were answered, by all clients.
pub(crate) static READS: AtomicU64 = AtomicU64::new(0);

/// One token to be made, and all that was tried with it.
#[derive(Debug)]
pub(crate) struct TokenHistory {
    number: u64,
    /// What the client was told; nothing while the outcome is unknown.
    pub(crate) created: Option<CreatedToken>,
    /// It had to be asked for again after a kill.
    pub(crate) retried: bool,
    patch: StepOutcome,
    delete: StepOutcome,
    /// The trace of a read that was answered.
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
    /// Sent, and then the connection broke.
    Unknown,
    Acknowledged,
}

impl TokenHistory {
    fn new(number: u64) -> Self {
        let (patch, delete) = (StepOutcome::NotSent, StepOutcome::NotSent);
        Self { number, created: None, retried: false, patch, delete, read_trace: None }
    }

    /// The same bytes every time.
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

/// One client: makes tokens, patches some, deletes some, until the connection breaks.
pub(crate) fn run_client(
    access: &ServerAddress,
    next_number: &AtomicU64,
) -> (Vec<TokenHistory>, RunReport) {
    let (mut histories, mut report) = (Vec::new(), RunReport::default());
    let Ok(mut client) = HttpClient::connect(access) else { return (histories, report) };
    // A bound that no round reaches.
    for _ in 0..100_000 {
        let mut history = TokenHistory::new(next_number.fetch_add(1, Ordering::Relaxed));
        let done = try_operations(&mut client, &mut history, &mut report);
        histories.push(history);
        if done.is_err() {
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
    let Some(told) = &history.created else { return Ok(()) };
    if history.number.is_multiple_of(3) {
        let trace = format!("read-{}", history.number);
        let headers = [("BT-TRACE-ID", trace.as_str())];
        let response = client.send(&format!("GET /tokens/{}", told.id), &headers, "")?;
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
        let response = client.send(&format!("PATCH /tokens/{}", told.id), &headers, &body)?;
        report.expect_status(response.status, 200);
        history.patch =
            if response.status == 200 { StepOutcome::Acknowledged } else { StepOutcome::NotSent };
    }
    if history.number.is_multiple_of(7) {
        history.delete = StepOutcome::Unknown;
        let response = client.send(&format!("DELETE /tokens/{}", told.id), &[], "")?;
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

/// Asks again for what nobody knows, and for some of what is known: the answer must be the same.
pub(crate) fn retry_requests(
    access: &ServerAddress,
    histories: &mut [TokenHistory],
    report: &mut RunReport,
) {
    let mut client = HttpClient::connect(access).expect("the server is back");
    for history in histories {
        let known = history.created.is_some();
        report.add(if known { "acknowledged" } else { "unknown" });
        if known && !history.number.is_multiple_of(10) {
            continue;
        }
        let response = history.create(&mut client).expect("the server stays");
        report.add("repeated");
        report.expect_status(response.status, 201);
        let again = parse_created(&response);
        // A cvc is in no remembered answer; so one without it was remembered.
        let replayed = !response.body.contains("\"cvc\"");
        match (&history.created, again) {
            (Some(first), Some(again)) => {
                if first.id != again.id || first.fingerprint != again.fingerprint {
                    report.add_violation(DurabilityViolation::ResponseChanged);
                }
            }
            (None, again) => {
                if replayed {
                    report.add("replayed");
                }
                history.created = again;
                history.retried = true;
            }
            (Some(_), None) => report.add_violation(DurabilityViolation::ResponseChanged),
        }
    }
}

/// Whether every token is what the client was told. What was unknown becomes known.
pub(crate) fn check_tokens(
    access: &ServerAddress,
    histories: &mut [TokenHistory],
    report: &mut RunReport,
) {
    let mut client = HttpClient::connect(access).expect("the server is there");
    for history in histories {
        let Some(told) = &history.created else { continue };
        let response = client.send(&format!("GET /tokens/{}", told.id), &[], "");
        let response = response.expect("the server stays");
        let gone = response.status == 404;
        match (history.delete, gone) {
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
            || body["fingerprint"] != told.fingerprint.as_str()
        {
            report.add_violation(DurabilityViolation::WrongContent);
        }
        let second = body["metadata"]["note"] == "second";
        match (history.patch, second) {
            (StepOutcome::Acknowledged, false) | (StepOutcome::NotSent, true) => {
                report.add_violation(DurabilityViolation::WrongContent)
            }
            (StepOutcome::Unknown, true) => history.patch = StepOutcome::Acknowledged,
            (StepOutcome::Unknown, false) => history.patch = StepOutcome::NotSent,
            (StepOutcome::Acknowledged, true) | (StepOutcome::NotSent, false) => (),
        }
    }
}
