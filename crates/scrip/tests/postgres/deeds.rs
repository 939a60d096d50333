//! What the clients did, what they were told, and whether the vault still agrees.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use scrip_testing::{process::client::Answer, requests::card_number};
use serde_json::{Value, json};

use crate::{
    nodes::{Door, Patron, Vault},
    tally::{Finding, Tally},
};

const JSON: (&str, &str) = ("Content-Type", "application/json");
/// Where the numbers of cards that several deeds share begin.
const SHARED: u64 = 1 << 40;

/// How a token is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Card,
    /// Deduplicated; several deeds have the same card.
    Shared,
    /// An intent that becomes one.
    Intent,
}

/// One token to be made, and all that was acknowledged about it.
#[derive(Debug)]
pub(crate) struct Deed {
    place: u64,
    told: Option<Told>,
    patched: bool,
    deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    id: String,
    fingerprint: String,
}

impl Deed {
    fn kind(&self) -> Kind {
        match self.place % 8 {
            3 => Kind::Shared,
            6 => Kind::Intent,
            _ => Kind::Card,
        }
    }

    fn number(&self) -> String {
        match self.kind() {
            Kind::Shared => card_number(SHARED + self.place / 64),
            Kind::Card | Kind::Intent => card_number(self.place),
        }
    }

    /// The same bytes every time.
    fn create(&self, patron: &mut Patron<'_>) -> Answer {
        let data = json!({ "number": self.number(), "expiration_month": 12, "cvc": "123" });
        let metadata = json!({ "note": "first" });
        let body = match self.kind() {
            Kind::Card => json!({ "type": "card", "data": data, "metadata": metadata }),
            Kind::Shared => {
                json!({ "type": "card", "data": data, "metadata": metadata, "deduplicate_token": true })
            }
            Kind::Intent => {
                let (key, body) =
                    (format!("intent-{}", self.place), json!({ "type": "card", "data": data }));
                let headers = [JSON, ("BT-IDEMPOTENCY-KEY", key.as_str())];
                let intent = patron.insist("POST /token-intents", &headers, &body.to_string());
                patron.tally.expect("intend", intent.answer.status, 201);
                let intent: Value = serde_json::from_str(&intent.answer.body).unwrap_or_default();
                json!({ "token_intent_id": intent["id"], "metadata": metadata })
            }
        };
        let key = format!("deed-{}", self.place);
        let headers = [JSON, ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let made = patron.insist("POST /tokens", &headers, &body.to_string());
        patron.tally.expect("create", made.answer.status, 201);
        if made.unsure {
            patron.tally.add("unsure");
            // A code is in no remembered answer; so one without it was remembered.
            if self.kind() == Kind::Card && !made.answer.body.contains("\"cvc\"") {
                patron.tally.add("replayed");
            }
        }
        made.answer
    }

    fn patch(&mut self, patron: &mut Patron<'_>, id: &str) {
        let key = format!("patch-{}", self.place);
        let headers = [
            ("Content-Type", "application/merge-patch+json"),
            ("BT-IDEMPOTENCY-KEY", key.as_str()),
        ];
        let body = json!({ "metadata": { "note": "second" } }).to_string();
        let patched = patron.insist(&format!("PATCH /tokens/{id}"), &headers, &body);
        patron.tally.expect("patch", patched.answer.status, 200);
        self.patched = patched.answer.status == 200;
    }

    /// Has no idempotency key. Whoever is not sure, and finds it gone, has deleted it.
    fn delete(&mut self, patron: &mut Patron<'_>, id: &str) {
        let deleted = patron.insist(&format!("DELETE /tokens/{id}"), &[], "");
        if !(deleted.unsure && deleted.answer.status == 404) {
            patron.tally.expect("delete", deleted.answer.status, 204);
        }
        self.deleted = true;
    }

    fn attempt(&mut self, patron: &mut Patron<'_>) {
        self.told = told(&self.create(patron));
        let Some(Told { id, .. }) = self.told.clone() else { return };
        patron.tally.add("acknowledged");
        if self.place.is_multiple_of(3) {
            let read = patron.insist(&format!("GET /tokens/{id}"), &[], "");
            patron.tally.expect("read", read.answer.status, 200);
        }
        if self.kind() == Kind::Shared {
            return;
        }
        if self.place.is_multiple_of(5) {
            self.patch(patron, &id);
        }
        if self.place.is_multiple_of(7) {
            self.delete(patron, &id);
        }
    }
}

fn told(answer: &Answer) -> Option<Told> {
    let body: Value = serde_json::from_str(&answer.body).ok()?;
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    Some(Told { id: text("id")?, fingerprint: text("fingerprint")? })
}

/// One client: deed after deed, each of them to its end, until it is told to stop.
pub(crate) fn work(
    door: &Door,
    node: usize,
    places: &AtomicU64,
    stop: &AtomicBool,
) -> (Vec<Deed>, Tally) {
    let (mut patron, mut deeds) = (Patron::new(door, node), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let place = places.fetch_add(1, Ordering::Relaxed);
        let mut deed = Deed { place, told: None, patched: false, deleted: false };
        deed.attempt(&mut patron);
        deeds.push(deed);
    }
    (deeds, patron.tally)
}

/// Whether every token is what its client was told, and the same key still gets the same answer.
pub(crate) fn check(door: &Door, deeds: &[Deed], tally: &mut Tally) {
    let mut patron = Patron::new(door, 0);
    for deed in deeds {
        let Some(told) = &deed.told else { continue };
        if deed.place.is_multiple_of(4) && !deed.deleted && again(&mut patron, deed) != *told {
            tally.note(Finding::Forgotten);
        }
        let found = patron.insist(&format!("GET /tokens/{}", told.id), &[], "").answer;
        match (deed.deleted, found.status) {
            (true, 404) => continue,
            (true, 200) => tally.note(Finding::Undead),
            (false, 404) => {
                tally.note(Finding::Lost);
                continue;
            }
            (_, status) => tally.expect("check", status, 200),
        }
        let body: Value = serde_json::from_str(&found.body).unwrap_or_default();
        let note = if deed.patched { "second" } else { "first" };
        if body["data"]["number"] != deed.number()
            || body["fingerprint"] != told.fingerprint.as_str()
            || body["metadata"]["note"] != note
        {
            tally.note(Finding::Altered);
        }
        patron.move_on("checked");
    }
    tally.merge(&patron.tally);
}

fn again(patron: &mut Patron<'_>, deed: &Deed) -> Told {
    patron.tally.add("repeated");
    let nothing = || Told { id: String::new(), fingerprint: String::new() };
    told(&deed.create(patron)).unwrap_or_else(nothing)
}

/// What the database itself says, with no node between: one row for every token that is there, none
/// beside, and one record for everything that was ever done.
pub(crate) fn check_rows(vault: &Vault, deeds: &[Deed], tally: &mut Tally) {
    let told = || deeds.iter().filter_map(|it| Some((it, it.told.as_ref()?)));
    let mut of_card: HashMap<String, BTreeSet<&str>> = HashMap::new();
    for (deed, told) in told() {
        of_card.entry(deed.number()).or_default().insert(&told.id);
    }
    for _ in of_card.values().filter(|ids| ids.len() > 1) {
        tally.note(Finding::Twins);
    }
    let cluster = &vault.cluster;
    // Every card is asked for under one key, or deduplicated: two rows of one are two effects.
    let doubled = "SELECT count(*) FROM tokens GROUP BY tenant, fingerprint HAVING count(*) > 1";
    for _ in cluster.query(doubled) {
        tally.note(Finding::Doubled);
    }
    let rows = cluster.query("SELECT id FROM tokens");
    let present: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    let alive = told().filter(|(deed, _)| !deed.deleted).map(|(_, told)| told.id.as_str());
    if present != alive.collect() {
        tally.note(Finding::Strange);
    }
    let count = |which: fn(&Deed) -> bool| deeds.iter().filter(|it| which(it)).count();
    let of_kind = |kind| deeds.iter().filter(|it| it.kind() == kind).count();
    let expected = [
        ("create_token", "created", of_card.len()),
        ("create_token_intent", "created", of_kind(Kind::Intent)),
        ("convert_token_intent", "converted", of_kind(Kind::Intent)),
        ("update_token", "updated", count(|it| it.patched)),
        ("delete_token", "deleted", count(|it| it.deleted)),
    ];
    for (operation, outcome, effects) in expected {
        check_recorded(vault, operation, outcome, effects, tally);
    }
    check_books(vault, tally);
}

pub(crate) fn check_recorded(
    vault: &Vault,
    operation: &str,
    outcome: &str,
    effects: usize,
    tally: &mut Tally,
) {
    let recorded = vault.cluster.query(&format!(
        "SELECT count(*) FROM records WHERE operation = '{operation}' AND outcome = '{outcome}'"
    ));
    if recorded != [effects.to_string()] {
        println!("  {operation} {outcome}: {effects} done, {recorded:?} recorded");
        tally.note(Finding::Unrecorded);
    }
}

/// What is counted is what is there, and the trail is whole.
pub(crate) fn check_books(vault: &Vault, tally: &mut Tally) {
    let miscounted = "SELECT 'x' WHERE EXISTS (
        (SELECT tenant, type, count FROM usage_types WHERE count > 0
         EXCEPT SELECT tenant, type, count(*) FROM tokens GROUP BY tenant, type)
    ) OR (SELECT sum(count) FROM usage_types) <> (SELECT count(*) FROM tokens)";
    if !vault.cluster.query(miscounted).is_empty() {
        tally.note(Finding::Miscounted);
    }
    if !vault.is_trail_whole() {
        tally.note(Finding::Broken);
    }
}
