//! Guesses of hidden numbers after the guessing budget is exhausted.
//!
//! Within the budget, a caller may learn whether a number is stored. So the first steps spend the
//! budget with numbers of the attacker, and shrinking keeps them. After that, a guess must not be
//! answered, in whichever form it is submitted.

use serde_json::{Value, json};

use super::{EntityKind, SequenceGenerator};
use crate::{grammar::TokenKind, step::Actor};

/// How the hidden number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredForm {
    Card,
    CardNumber,
    /// An object of type `token` with one attribute.
    Note,
    /// An object of type `token` with the number as the name of an attribute.
    Name,
}

/// What the attackers of a sequence guess, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct GuessPlan {
    form: StoredForm,
    /// Whether the exhausted budget is that of public keys, access sessions and calls without a key.
    is_public: bool,
    /// The step that creates a collecting proxy.
    collector: Option<usize>,
}

const FORMS: [(usize, StoredForm); 4] = [
    (4, StoredForm::Card),
    (2, StoredForm::CardNumber),
    (5, StoredForm::Note),
    (1, StoredForm::Name),
];

impl SequenceGenerator {
    /// Adds a hidden number, and the requests that exhaust the budget of its group.
    pub(super) fn push_exhausted_budget(&mut self, guesses_max: usize) {
        let form = self.random.pick_weighted(&FORMS);
        let body = stored_body(form, "<<card:0>>");
        let serial = self.push_step(Actor::Backend, "POST", "/tokens", Some(&body));
        self.record_created(serial, TokenKind::Card, EntityKind::Token, true);
        let is_public = self.random.chance_in_percent(50);
        let spender = if is_public { Actor::Public } else { Actor::Masked };
        let own_numbers: Vec<_> =
            self.secrets.own_cards.iter().take(guesses_max).cloned().collect();
        for number in own_numbers {
            let body = stored_body(StoredForm::Card, &number);
            let serial = self.push_step(spender, "POST", "/tokens", Some(&body));
            // No counter may recover during the sequence.
            self.steps[serial].pause_seconds = 1;
            self.steps[serial].is_required = true;
        }
        let mut collector = None;
        if self.random.chance_in_percent(50) {
            let token = stored_body(form, "{{ req.number }}");
            self.push_collecting_proxy(!is_public, token);
            collector = self.proxies.last().map(|it| it.serial);
        }
        self.guess_plan = Some(GuessPlan { form, is_public, collector });
    }

    /// Adds guesses of the values in both vaults. Each is right in one vault.
    pub(super) fn guess(&mut self) {
        let Some(GuessPlan { form, is_public, collector }) = self.guess_plan else { return };
        let pair = self.secrets.cards[0].clone();
        let disguise = self.random.below(8);
        let collects = collector.filter(|_| self.random.chance_in_percent(60));
        let actor = match (is_public, self.random.below(3), collects) {
            (true, 0 | 1, Some(_)) => Actor::Keyless,
            (true, 0, _) => Actor::Session,
            (true, ..) => Actor::Public,
            (false, 0, _) => Actor::Invoker,
            (false, ..) => Actor::Masked,
        };
        for number in [pair.left, pair.right] {
            if let Some(proxy) = collects {
                self.call_collector(actor, proxy, &number);
                continue;
            }
            let mut body = guess_body(form, &number, disguise);
            if self.random.chance_in_percent(30) {
                body["deduplicate_token"] = true.into();
            }
            match self.random.below(10) {
                0 => {
                    let body = json!({"items": [body]});
                    self.push_step(actor, "POST", "/tokenize", Some(&body));
                }
                _ => {
                    self.push_step(actor, "POST", "/tokens", Some(&body));
                }
            }
        }
    }
}

fn stored_body(form: StoredForm, number: &str) -> Value {
    match form {
        StoredForm::Card => json!({"type": "card", "data": {
            "number": number, "expiration_month": 1, "expiration_year": 2038,
        }}),
        StoredForm::CardNumber => json!({"type": "card_number", "data": number}),
        StoredForm::Note => json!({"type": "token", "data": {"n": number}}),
        StoredForm::Name => json!({"type": "token", "data": {number: "n"}}),
    }
}

/// A token whose fingerprint is over the same text as that of the hidden number, if the guess is
/// right.
fn guess_body(form: StoredForm, number: &str, disguise: usize) -> Value {
    let (start, end) = number.split_at(7);
    // The text of which the fingerprint is computed.
    let [before, after] = match form {
        StoredForm::Card | StoredForm::CardNumber => ["", ""],
        StoredForm::Note => ["{\"n\":\"", "\"}"],
        StoredForm::Name => ["{\"", "\":\"n\"}"],
    };
    match disguise {
        0..=2 => json!({"type": "token", "data": format!("{before}{number}{after}")}),
        3 => json!({
            "type": "token", "data": {"a": start, "b": end},
            "fingerprint_expression": format!("{before}{{{{ data.a }}}}{{{{ data.b }}}}{after}"),
        }),
        4 => json!({
            "type": "token", "data": "x", "metadata": {"g": number},
            "fingerprint_expression": format!("{before}{{{{ metadata.g }}}}{after}"),
        }),
        5 => json!({
            "type": "token", "data": end, "metadata": {"g": start},
            "fingerprint_expression":
                format!("{before}{{{{ metadata.g }}}}{{{{ data }}}}{after}"),
        }),
        6 => json!({
            "type": "token", "data": start,
            "fingerprint_expression": format!("{before}{{{{ data }}}}{end}{after}"),
        }),
        _ => stored_body(form, number),
    }
}
