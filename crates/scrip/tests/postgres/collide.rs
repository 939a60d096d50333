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
    Length,
    deeds::{check_books, check_recorded},
    nodes::{Definite, Door, Patron, Vault},
    tally::{Finding, Tally},
};

const CLIENTS: usize = 64;
const VISITORS: usize = 16;
/// What visitors of slots ask for, by the slot's number.
const KINDS: [Kind; 6] =
    [Kind::Once, Kind::Shared, Kind::Intent, Kind::IntentOnce, Kind::Patch, Kind::Delete];
/// Requests of one visitor of each kind.
const REQUESTS: usize = 1 + 1 + 2 + 2 + 3 + 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All create a token with one idempotency key.
    Once,
    /// Each creates a token of the same card with a key of its own, deduplicated.
    Shared,
    /// Each converts the same intent with a key of its own.
    Intent,
    /// All convert the same intent with one key.
    IntentOnce,
    /// All patch one token with one key.
    Patch,
    /// Each deletes the same token.
    Delete,
}

/// What a visitor was told last.
#[derive(Debug)]
struct Visit {
    status: u16,
    unsure: bool,
    body: Value,
}

/// What everybody adds to.
#[derive(Default)]
struct Board {
    visits: AtomicUsize,
    slots: Mutex<BTreeMap<usize, Vec<Visit>>>,
    /// Ids of tokens that nobody deletes.
    lasting: Mutex<BTreeSet<String>>,
    done: AtomicBool,
}

pub(crate) fn two_nodes(length: Length) -> (Tally, bool) {
    let vault = Vault::found(Cluster::start(&[]));
    let (board, mut tally) = (Board::default(), Tally::default());
    let whole = KINDS.len() * VISITORS;
    let visits_max = (length.operations * KINDS.len() / REQUESTS).div_ceil(whole) * whole;
    thread::scope(|scope| {
        let (board, door) = (&board, &vault.door);
        let client = |at| scope.spawn(move || work(door, at, board, visits_max));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let listers: Vec<_> = (0..2).map(|at| scope.spawn(move || list(door, at, board))).collect();
        for client in clients {
            tally.merge(&client.join().expect("a client does not panic"));
        }
        board.done.store(true, Ordering::Relaxed);
        for lister in listers {
            tally.merge(&lister.join().expect("a lister does not panic"));
        }
    });
    check(&vault, &board, &mut tally);
    let enough = tally.count("answers") >= length.operations;
    // Clean means little unless they got in each other's way.
    let passed = tally.is_clean() && enough && tally.count("in flight") > 0;
    (tally, passed)
}

fn work(door: &Door, at: usize, board: &Board, visits_max: usize) -> Tally {
    let mut patron = Patron::new(door, at);
    loop {
        let visit = board.visits.fetch_add(1, Ordering::Relaxed);
        if visit >= visits_max {
            return patron.tally;
        }
        let (slot, visitor) = (visit / VISITORS, visit % VISITORS);
        let told = ask(&mut patron, slot, visitor);
        let body: Value = serde_json::from_str(&told.answer.body).unwrap_or_default();
        if let (201, Some(id), true) =
            (told.answer.status, body["id"].as_str(), kind(slot) != Kind::Delete)
        {
            board.lasting.lock().expect("nobody panics").insert(id.to_owned());
        }
        let visit = Visit { status: told.answer.status, unsure: told.unsure, body };
        board.slots.lock().expect("nobody panics").entry(slot).or_default().push(visit);
    }
}

fn kind(slot: usize) -> Kind {
    KINDS[slot % KINDS.len()]
}

/// The last answer is the one that counts; the others must succeed.
fn ask(patron: &mut Patron<'_>, slot: usize, visitor: usize) -> Definite {
    let number = card_number(u64::try_from(slot).expect("a number"));
    let new = json!({ "type": "card", "data": { "number": number, "cvc": "123" } });
    let own = format!("{slot}-{visitor}");
    match kind(slot) {
        Kind::Once => post(patron, "/tokens", &format!("once-{slot}"), &new),
        Kind::Shared => {
            let mut new = new;
            new["deduplicate_token"] = json!(true);
            post(patron, "/tokens", &format!("shared-{own}"), &new)
        }
        Kind::Intent => {
            let intent = succeed(patron, "/token-intents", &format!("intent-{slot}"), &new);
            let convert = json!({ "token_intent_id": intent });
            post(patron, "/tokens", &format!("convert-{own}"), &convert)
        }
        Kind::IntentOnce => {
            let intent = succeed(patron, "/token-intents", &format!("intent-{slot}"), &new);
            let convert = json!({ "token_intent_id": intent });
            post(patron, "/tokens", &format!("convert-{slot}"), &convert)
        }
        Kind::Patch => {
            let id = succeed(patron, "/tokens", &format!("once-{slot}"), &new);
            let key = format!("patch-{slot}");
            let headers = [
                ("Content-Type", "application/merge-patch+json"),
                ("BT-IDEMPOTENCY-KEY", key.as_str()),
            ];
            let body = json!({ "metadata": { "by": own } }).to_string();
            let patched = patron.insist(&format!("PATCH /tokens/{id}"), &headers, &body);
            let read = patron.insist(&format!("GET /tokens/{id}"), &[], "");
            let read: Value = serde_json::from_str(&read.answer.body).unwrap_or_default();
            let told: Value = serde_json::from_str(&patched.answer.body).unwrap_or_default();
            if read["metadata"] != told["metadata"] {
                patron.tally.note(Finding::Altered);
            }
            patched
        }
        Kind::Delete => {
            let id = succeed(patron, "/tokens", &format!("once-{slot}"), &new);
            patron.insist(&format!("DELETE /tokens/{id}"), &[], "")
        }
    }
}

fn post(patron: &mut Patron<'_>, path: &str, key: &str, body: &Value) -> Definite {
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key)];
    patron.insist(&format!("POST {path}"), &headers, &body.to_string())
}

/// The id of what must have been made.
fn succeed(patron: &mut Patron<'_>, path: &str, key: &str, body: &Value) -> String {
    let made = post(patron, path, key, body).answer;
    patron.tally.expect("make", made.status, 201);
    let made: Value = serde_json::from_str(&made.body).unwrap_or_default();
    made["id"].as_str().unwrap_or_default().to_owned()
}

/// Goes through all pages while others write. What was there before the first page and stays must
/// be on one of them, and nothing on two.
fn list(door: &Door, node: usize, board: &Board) -> Tally {
    let mut patron = Patron::new(door, node);
    while !board.done.load(Ordering::Relaxed) {
        let there = board.lasting.lock().expect("nobody panics").clone();
        let listed = walk(&mut patron);
        if !there.is_subset(&listed) {
            patron.tally.note(Finding::Mispaged);
        }
        patron.tally.add("walks");
        thread::sleep(Duration::from_secs(2));
    }
    patron.tally
}

fn walk(patron: &mut Patron<'_>) -> BTreeSet<String> {
    let (mut listed, mut start) = (BTreeSet::new(), String::new());
    loop {
        let page = patron.insist(&format!("GET /v2/tokens?size=100{start}"), &[], "").answer;
        patron.tally.expect("list", page.status, 200);
        let page: Value = serde_json::from_str(&page.body).unwrap_or_default();
        for token in page["data"].as_array().into_iter().flatten() {
            if !listed.insert(token["id"].as_str().unwrap_or_default().to_owned()) {
                patron.tally.note(Finding::Mispaged);
            }
        }
        let Some(next) = page["pagination"]["next"].as_str() else { return listed };
        start = format!("&start={next}");
    }
}

fn check(vault: &Vault, board: &Board, tally: &mut Tally) {
    let slots = board.slots.lock().expect("nobody panics");
    for (slot, visits) in &*slots {
        check_slot(kind(*slot), visits, tally);
    }
    let doubled = "SELECT count(*) FROM tokens GROUP BY tenant, fingerprint HAVING count(*) > 1";
    for _ in vault.cluster.query(doubled) {
        tally.note(Finding::Doubled);
    }
    let lasting = board.lasting.lock().expect("nobody panics");
    let rows: BTreeSet<String> = vault.cluster.query("SELECT id FROM tokens").into_iter().collect();
    // Those of patched tokens are known to their visitors only.
    let patched = slots.iter().filter(|(slot, _)| kind(**slot) == Kind::Patch);
    let patched = patched.filter_map(|(_, it)| Some(it.first()?.body["id"].as_str()?.to_owned()));
    let known: BTreeSet<String> = lasting.iter().cloned().chain(patched).collect();
    if rows != known {
        tally.note(Finding::Strange);
    }
    let mut patron = Patron::new(&vault.door, 0);
    if walk(&mut patron) != rows {
        tally.note(Finding::Mispaged);
    }
    tally.merge(&patron.tally);
    let each = slots.len() / KINDS.len();
    tally.add_many("slots", slots.len());
    let effects = [
        ("create_token", "created", 6 * each),
        ("create_token", "deduplicated", (VISITORS - 1) * each),
        ("create_token_intent", "created", 2 * each),
        ("convert_token_intent", "converted", 2 * each),
        ("update_token", "updated", each),
        ("delete_token", "deleted", each),
    ];
    for (operation, outcome, effects) in effects {
        check_recorded(vault, operation, outcome, effects, tally);
    }
    check_books(vault, tally);
}

/// Whether all that were told something were told the same, or only one that it was the one.
fn check_slot(kind: Kind, visits: &[Visit], tally: &mut Tally) {
    let count = |status| visits.iter().filter(|it| it.status == status).count();
    let (expected, others, finding) = match kind {
        Kind::Once | Kind::IntentOnce => ((201, VISITORS), 201, Finding::Forgotten),
        Kind::Shared => ((201, VISITORS), 201, Finding::Twins),
        Kind::Patch => ((200, VISITORS), 200, Finding::Forgotten),
        Kind::Intent => ((201, 1), 400, Finding::Converted),
        Kind::Delete => ((204, 1), 404, Finding::Doubled),
    };
    for visit in visits {
        if visit.status != expected.0 {
            tally.expect("visit", visit.status, others);
        }
    }
    // Somebody who was not sure and found it deleted may have done it.
    let unsure = kind == Kind::Delete && visits.iter().any(|it| it.unsure);
    if count(expected.0) != expected.1 && !unsure {
        tally.note(finding);
    }
    let shown = |it: &Visit| match kind {
        // A remembered answer has no code.
        Kind::Once | Kind::IntentOnce | Kind::Patch => without_code(&it.body),
        Kind::Shared => it.body["id"].clone(),
        Kind::Intent | Kind::Delete => Value::Null,
    };
    let mut shown = visits.iter().map(shown);
    let first = shown.next();
    if shown.any(|it| Some(it) != first) {
        tally.note(finding);
    }
}

fn without_code(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(data) = body["data"].as_object_mut() {
        data.remove("cvc");
    }
    body
}
