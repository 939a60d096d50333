//! Honest traffic: a backend with a reveal right, and browsers, create, change and delete hidden data.

use scrip_testing::random::SeededRandom;
use serde_json::{Value, json};

use super::{Generator, Made, What, attack::Focus};
use crate::{grammar::Kind, step::Actor};

/// The expression that an honest application always uses.
pub(super) fn fingerprint(random: &mut SeededRandom, kind: Kind, focus: Focus) -> Option<String> {
    if focus == Focus::Deduplication && random.percent(50) {
        return Some("{{ metadata.user }}".to_owned());
    }
    match random.below(10) {
        0..=2 => Some("{{ metadata.user }}".to_owned()),
        3 => Some(kind.own_fingerprint().to_owned()),
        4 => Some(format!("{}-{{{{ metadata.user }}}}", kind.own_fingerprint())),
        _ => None,
    }
}

impl Generator {
    pub(super) fn honest(&mut self) {
        let kind = self.kind();
        let preferred = match self.focus {
            Focus::Conversion => 0,
            Focus::Deduplication | Focus::Patch => 7,
            Focus::Mixture => self.random.below(20),
        };
        let drawn = if self.random.percent(75) { preferred } else { self.random.below(20) };
        match drawn {
            0..=6 => self.honest_intent(kind),
            7..=12 => self.honest_token(kind),
            13..=14 => self.honest_conversion(),
            15..=18 => self.honest_patch(),
            _ => self.honest_delete(),
        }
    }

    fn honest_actor(&mut self) -> Actor {
        if self.random.percent(70) { Actor::Backend } else { Actor::Browser }
    }

    fn honest_intent(&mut self, kind: Kind) {
        let body = json!({"type": kind.text(), "data": self.hidden_data(kind)});
        let actor = self.honest_actor();
        let serial = self.push(actor, "POST", "/token-intents", Some(&body));
        self.remember_key(serial);
        self.made(serial, kind, What::Intent, true);
    }

    /// Expressions of an honest application tell nothing to those who see masks and fingerprints.
    fn honest_expressions(&mut self, kind: Kind, body: &mut Value) {
        if let Some(it) = &self.honest_fingerprint
            && self.random.percent(85)
        {
            body["fingerprint_expression"] = it.clone().into();
        }
        if self.random.percent(15) {
            let index = match kind {
                Kind::Card | Kind::NetworkToken => "{{ data.number | last4 }}",
                Kind::Bank => "{{ data.account_number | last4 }}",
                Kind::CardNumber | Kind::Account | Kind::Identity => "{{ data | last4 }}",
                Kind::Object => "{{ data.pin }}{{ data.owner }}",
            };
            body["search_indexes"] = json!([index]);
        }
    }

    fn honest_token(&mut self, kind: Kind) {
        let mut body = json!({
            "type": kind.text(), "data": self.hidden_data(kind), "metadata": {"user": self.user()},
        });
        self.honest_expressions(kind, &mut body);
        if self.random.percent(60) {
            body["deduplicate_token"] = true.into();
        }
        if self.random.percent(10) {
            body["id"] = format!("user-{}", 1 + self.random.below(2)).into();
        }
        let actor = self.honest_actor();
        let serial = self.push(actor, "POST", "/tokens", Some(&body));
        self.made(serial, kind, What::Token, true);
    }

    fn honest_conversion(&mut self) {
        let Some(Made { serial, kind, .. }) =
            self.earlier(|it| it.what == What::Intent && it.hidden)
        else {
            return;
        };
        let mut body = json!({
            "token_intent_id": format!("<<id:{serial}>>"), "metadata": {"user": self.user()},
        });
        if self.random.percent(40) {
            body["deduplicate_token"] = true.into();
        }
        let serial = self.push(Actor::Backend, "POST", "/tokens", Some(&body));
        self.made(serial, kind, What::Token, true);
    }

    /// Data is replaced whole. The token may be one that an attacker made under an id that the backend expects.
    fn honest_patch(&mut self) {
        let expected = self.random.percent(25);
        let found = self.earlier(|it| it.what == What::Token && (it.hidden || expected));
        let Some(Made { serial, kind, hidden, .. }) = found else { return };
        let id = if hidden {
            format!("<<id:{serial}>>")
        } else {
            format!("user-{}", 1 + self.random.below(2))
        };
        let body = match self.random.below(3) {
            0 => json!({"metadata": {"user": self.user()}}),
            _ => json!({"data": self.hidden_data(kind)}),
        };
        self.push(Actor::Backend, "PATCH", &format!("/tokens/{id}"), Some(&body));
    }

    fn honest_delete(&mut self) {
        let Some(Made { serial, what, .. }) = self.earlier(|it| it.hidden) else { return };
        let path = match what {
            What::Token => "/tokens",
            What::Intent => "/token-intents",
            What::Session | What::Page => return,
        };
        self.push(Actor::Backend, "DELETE", &format!("{path}/<<id:{serial}>>"), None);
    }
}
