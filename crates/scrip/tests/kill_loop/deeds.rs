//! What the clients did, what they were told, and whether the vault still agrees.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use scrip_testing::{
    process::client::{Access, Answer, Client},
    requests::card_number,
};
use serde_json::{Value, json};

use crate::{Finding, Tally};

/// Reads that were answered, by all clients.
pub(crate) static READS: AtomicU64 = AtomicU64::new(0);

/// One token to be made, and all that was tried with it.
#[derive(Debug)]
pub(crate) struct Deed {
    place: u64,
    /// What the client was told; nothing while the outcome is unknown.
    pub(crate) told: Option<Told>,
    /// It had to be asked for again after a kill.
    pub(crate) repeated: bool,
    patch: Step,
    delete: Step,
    /// The trace of a read that was answered.
    pub(crate) read: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: String,
    fingerprint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Never,
    /// Sent, and then the connection broke.
    Unknown,
    Acknowledged,
}

impl Deed {
    fn new(place: u64) -> Self {
        let (patch, delete) = (Step::Never, Step::Never);
        Self { place, told: None, repeated: false, patch, delete, read: None }
    }

    /// The same bytes every time.
    fn create(&self, client: &mut Client) -> io::Result<Answer> {
        let key = format!("deed-{}", self.place);
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let data =
            json!({ "number": card_number(self.place), "expiration_month": 12, "cvc": "123" });
        let body = json!({ "type": "card", "data": data, "metadata": { "note": "first" } });
        client.ask("POST /tokens", &headers, &body.to_string())
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.delete == Step::Acknowledged
    }
}

/// One client: makes tokens, patches some, deletes some, until the connection breaks.
pub(crate) fn work(access: &Access, places: &AtomicU64) -> (Vec<Deed>, Tally) {
    let (mut deeds, mut tally) = (Vec::new(), Tally::default());
    let Ok(mut client) = Client::connect(access) else { return (deeds, tally) };
    // A bound that no round reaches.
    for _ in 0..100_000 {
        let mut deed = Deed::new(places.fetch_add(1, Ordering::Relaxed));
        let done = attempt(&mut client, &mut deed, &mut tally);
        deeds.push(deed);
        if done.is_err() {
            break;
        }
    }
    (deeds, tally)
}

fn attempt(client: &mut Client, deed: &mut Deed, tally: &mut Tally) -> io::Result<()> {
    let answer = deed.create(client)?;
    tally.expect(answer.status, 201);
    deed.told = told(&answer);
    let Some(told) = &deed.told else { return Ok(()) };
    if deed.place.is_multiple_of(3) {
        let trace = format!("read-{}", deed.place);
        let headers = [("BT-TRACE-ID", trace.as_str())];
        let answer = client.ask(&format!("GET /tokens/{}", told.id), &headers, "")?;
        tally.expect(answer.status, 200);
        if answer.status == 200 {
            tally.add("reads");
            READS.fetch_add(1, Ordering::Relaxed);
            deed.read = Some(trace);
        }
    }
    if deed.place.is_multiple_of(5) {
        deed.patch = Step::Unknown;
        let headers = [("Content-Type", "application/merge-patch+json")];
        let body = json!({ "metadata": { "note": "second" } }).to_string();
        let answer = client.ask(&format!("PATCH /tokens/{}", told.id), &headers, &body)?;
        tally.expect(answer.status, 200);
        deed.patch = if answer.status == 200 { Step::Acknowledged } else { Step::Never };
    }
    if deed.place.is_multiple_of(7) {
        deed.delete = Step::Unknown;
        let answer = client.ask(&format!("DELETE /tokens/{}", told.id), &[], "")?;
        tally.expect(answer.status, 204);
        deed.delete = if answer.status == 204 { Step::Acknowledged } else { Step::Never };
    }
    Ok(())
}

fn told(answer: &Answer) -> Option<Told> {
    let body: Value = serde_json::from_str(&answer.body).ok()?;
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    Some(Told { id: text("id")?, fingerprint: text("fingerprint")? })
}

/// Asks again for what nobody knows, and for some of what is known: the answer must be the same.
pub(crate) fn repeat(access: &Access, deeds: &mut [Deed], tally: &mut Tally) {
    let mut client = Client::connect(access).expect("the server is back");
    for deed in deeds {
        let known = deed.told.is_some();
        tally.add(if known { "acknowledged" } else { "unknown" });
        if known && !deed.place.is_multiple_of(10) {
            continue;
        }
        let answer = deed.create(&mut client).expect("the server stays");
        tally.add("repeated");
        tally.expect(answer.status, 201);
        let again = told(&answer);
        // A cvc is in no remembered answer; so one without it was remembered.
        let replayed = !answer.body.contains("\"cvc\"");
        match (&deed.told, again) {
            (Some(first), Some(again)) => {
                if first.id != again.id || first.fingerprint != again.fingerprint {
                    tally.note(Finding::Forgotten);
                }
            }
            (None, again) => {
                if replayed {
                    tally.add("replayed");
                }
                deed.told = again;
                deed.repeated = true;
            }
            (Some(_), None) => tally.note(Finding::Forgotten),
        }
    }
}

/// Whether every token is what the client was told. What was unknown becomes known.
pub(crate) fn check(access: &Access, deeds: &mut [Deed], tally: &mut Tally) {
    let mut client = Client::connect(access).expect("the server is there");
    for deed in deeds {
        let Some(told) = &deed.told else { continue };
        let answer = client.ask(&format!("GET /tokens/{}", told.id), &[], "");
        let answer = answer.expect("the server stays");
        let gone = answer.status == 404;
        match (deed.delete, gone) {
            (Step::Acknowledged, true) => continue,
            (Step::Acknowledged, false) => tally.note(Finding::Undead),
            (Step::Unknown, true) => {
                deed.delete = Step::Acknowledged;
                continue;
            }
            (Step::Unknown, false) => deed.delete = Step::Never,
            (Step::Never, true) => {
                tally.note(if deed.repeated { Finding::Vanished } else { Finding::Lost });
                continue;
            }
            (Step::Never, false) => (),
        }
        tally.expect(answer.status, 200);
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if body["data"]["number"] != card_number(deed.place)
            || body["fingerprint"] != told.fingerprint.as_str()
        {
            tally.note(Finding::Altered);
        }
        let second = body["metadata"]["note"] == "second";
        match (deed.patch, second) {
            (Step::Acknowledged, false) | (Step::Never, true) => tally.note(Finding::Altered),
            (Step::Unknown, true) => deed.patch = Step::Acknowledged,
            (Step::Unknown, false) => deed.patch = Step::Never,
            (Step::Acknowledged, true) | (Step::Never, false) => (),
        }
    }
}
