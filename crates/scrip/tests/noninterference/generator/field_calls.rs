//! Requests of hosted fields: values that a payer typed, and next to them what the page chose.
//!
//! The page does not know the values, and repeats requests with an idempotency key. So neither an answer
//! nor a counter may depend on whether a value equals one of its guesses. The values are marked: a number
//! in the attribute of a card would rightfully have a fingerprint.

use serde_json::{Map, Value, json};

use super::{EntityKind, SequenceGenerator};
use crate::{
    destination::DestinationKind,
    grammar::TokenKind,
    secrets::ROUTING_NUMBER,
    step::{Actor, Step},
};

/// What the page of a sequence does.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldCallPlan {
    form: TypedForm,
    /// The usual number of other numbers in a request. Sequences differ, so that some reach a budget or
    /// the maximum of a request.
    fillers: usize,
    /// The step that creates a proxy for known senders.
    proxy: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypedForm {
    Card,
    /// A security code as an account number: the page chooses the group.
    Code,
    Account,
}

const FORMS: [(usize, TypedForm); 3] =
    [(2, TypedForm::Card), (2, TypedForm::Code), (1, TypedForm::Account)];

/// The most numbers that a repeated request may have.
const NUMBERS_MAX: usize = 100;

impl SequenceGenerator {
    /// Adds what the page of a sequence needs. `guesses_max` is the budget of the tenant, if it is small.
    pub(super) fn push_field_page(&mut self, guesses_max: Option<usize>) {
        let form = self.random.pick_weighted(&FORMS);
        let fillers = match guesses_max {
            Some(max) => self.random.below(max + 2),
            None => NUMBERS_MAX - self.random.below(6),
        };
        let destination = DestinationKind::Provider.path();
        let body = json!({
            "name": "known senders", "require_auth": true,
            "destination_url": format!("<<destination:0>>/{destination}"),
        });
        let proxy = self.push_step(Actor::Administrator, "POST", "/proxies", Some(&body));
        self.field_calls = Some(FieldCallPlan { form, fillers, proxy });
    }

    /// Adds a request of a frame, and repeats it.
    pub(super) fn send_field_values(&mut self) {
        let Some(plan) = self.field_calls else { return };
        if self.random.chance_in_percent(25) {
            return self.guess_typed_value(plan.form);
        }
        let data = self.typed_data(plan);
        let token = json!({"type": "token", "data": data});
        let earlier = self.pick_earlier(|it| it.entity == EntityKind::Token);
        let serial = match (self.random.below(6), earlier) {
            (0, _) => self.push_step(Actor::Public, "POST", "/token-intents", Some(&token)),
            (1, _) => {
                let body = json!({"items": [token]});
                self.push_step(Actor::Public, "POST", "/tokenize", Some(&body))
            }
            (2, _) => {
                let serial = self.push_step(Actor::Session, "POST", "/proxy", Some(&data));
                let step = &mut self.steps[serial];
                step.headers.push(("bt-proxy-key", format!("<<key:{}>>", plan.proxy)));
                step.uses_hidden_tokens = true;
                serial
            }
            (3, Some(earlier)) => {
                let path = format!("/tokens/<<id:{}>>", earlier.serial);
                self.push_step(Actor::Session, "PATCH", &path, Some(&json!({"data": data})))
            }
            _ => {
                let serial = self.push_step(Actor::Public, "POST", "/tokens", Some(&token));
                self.record_created(serial, TokenKind::Object, EntityKind::Token, true);
                serial
            }
        };
        let is_call = self.steps[serial].is_call();
        let step = &mut self.steps[serial];
        step.idempotency_key = Some(format!("{serial:064x}"));
        step.headers.push(("scrip-field-application", "<<public_key:0>>".to_owned()));
        step.headers.push(("scrip-field-kinds", "text".to_owned()));
        if !is_call {
            step.headers.push(("scrip-field-mark", "text".to_owned()));
        }
        if self.random.chance_in_percent(90) {
            let step = self.steps[serial].clone();
            self.steps.push(Step { serial: self.steps.len(), ..step });
        }
    }

    /// The typed value, guesses of it, and other numbers.
    fn typed_data(&mut self, FieldCallPlan { form, fillers, .. }: FieldCallPlan) -> Value {
        let mut data = Map::new();
        data.insert("typed".to_owned(), typed_value(form));
        for (index, guess) in self.typed_guesses(form).into_iter().enumerate() {
            if self.random.chance_in_percent(60) {
                data.insert(format!("guess{index}"), guess);
            }
        }
        for index in 0..fillers {
            data.insert(format!("own{index}"), format!("9{index:011}").into());
        }
        Value::Object(data)
    }

    /// The values in both vaults. Each is right in one vault.
    fn typed_guesses(&self, form: TypedForm) -> [Value; 2] {
        let pair = match form {
            TypedForm::Card => &self.secrets.cards[0],
            TypedForm::Code => &self.secrets.codes[0],
            TypedForm::Account => &self.secrets.accounts[0],
        };
        [&pair.left, &pair.right].map(|it| form.value(it))
    }

    /// Adds a token of the page with one of the guesses. Its fingerprint tells whether the budget is
    /// exhausted.
    fn guess_typed_value(&mut self, form: TypedForm) {
        let [left, right] = self.typed_guesses(form);
        let guess = if self.random.chance_in_percent(50) { left } else { right };
        let body = match form {
            TypedForm::Card => json!({"type": "card_number", "data": guess}),
            TypedForm::Code | TypedForm::Account => json!({"type": "bank", "data": guess}),
        };
        self.push_step(Actor::Public, "POST", "/tokens", Some(&body));
    }
}

impl TypedForm {
    /// A value where the numbers of a request are found.
    fn value(self, text: &str) -> Value {
        match self {
            Self::Card => text.into(),
            Self::Code | Self::Account => {
                json!({"routing_number": ROUTING_NUMBER, "account_number": text})
            }
        }
    }
}

fn typed_value(form: TypedForm) -> Value {
    form.value(match form {
        TypedForm::Card => "<<card:0>>",
        TypedForm::Code => "<<cvc:0>>",
        TypedForm::Account => "<<account:0>>",
    })
}
