//! Honest traffic: browsers and a backend with a reveal right create, change and delete hidden
//! data.

use scrip_testing::random::SeededRandom;
use serde_json::{Value, json};

use super::{CreatedEntity, EntityKind, SequenceGenerator, attack::SequenceFocus};
use crate::{
    grammar::{TokenKind, two_input_mask},
    step::Actor,
};

/// Picks the fingerprint expression of the honest application for one sequence.
pub(super) fn pick_fingerprint(
    random: &mut SeededRandom,
    kind: TokenKind,
    focus: SequenceFocus,
) -> Option<String> {
    if focus == SequenceFocus::Deduplication && random.chance_in_percent(50) {
        return Some("{{ metadata.user }}".to_owned());
    }
    match random.below(10) {
        0..=2 => Some("{{ metadata.user }}".to_owned()),
        3 => Some(kind.default_fingerprint().to_owned()),
        4 => Some(format!("{}-{{{{ metadata.user }}}}", kind.default_fingerprint())),
        _ => None,
    }
}

impl SequenceGenerator {
    pub(super) fn push_honest(&mut self) {
        let kind = self.pick_kind();
        let preferred_request = match self.focus {
            SequenceFocus::Conversion => 0,
            SequenceFocus::Deduplication | SequenceFocus::Patch => 7,
            SequenceFocus::Mixture
            | SequenceFocus::Proxy
            | SequenceFocus::Guessing
            | SequenceFocus::FieldCalls
            | SequenceFocus::Encryption
            | SequenceFocus::Management => self.random.below(20),
        };
        let request_number = if self.random.chance_in_percent(75) {
            preferred_request
        } else {
            self.random.below(20)
        };
        match request_number {
            0..=6 => self.push_honest_intent(kind),
            7..=12 => self.push_honest_token(kind),
            13..=14 => self.push_honest_conversion(),
            15..=18 => self.push_honest_patch(),
            _ => self.push_honest_delete(),
        }
    }

    fn pick_honest_actor(&mut self) -> Actor {
        if self.random.chance_in_percent(70) { Actor::Backend } else { Actor::Browser }
    }

    fn push_honest_intent(&mut self, kind: TokenKind) {
        let body = json!({"type": kind.type_name(), "data": self.hidden_data(kind)});
        let actor = self.pick_honest_actor();
        let serial = self.push_step(actor, "POST", "/token-intents", Some(&body));
        self.maybe_set_idempotency_key(serial);
        self.record_created(serial, kind, EntityKind::Intent, true);
    }

    /// Adds expressions that disclose nothing to readers of masks and fingerprints.
    fn add_honest_expressions(&mut self, kind: TokenKind, body: &mut Value) {
        if let Some(it) = &self.honest_fingerprint
            && self.random.chance_in_percent(85)
        {
            body["fingerprint_expression"] = it.clone().into();
        }
        // Without a draw, so that the sequences of the other topics stay as they were.
        if self.focus == SequenceFocus::Patch
            && self.steps.len().is_multiple_of(2)
            && let Some(mask) = two_input_mask(kind)
        {
            body["mask"] = mask;
        }
        if self.random.chance_in_percent(15) {
            let index = match kind {
                TokenKind::Card | TokenKind::NetworkToken => "{{ data.number | last4 }}",
                TokenKind::Bank => "{{ data.account_number | last4 }}",
                TokenKind::CardNumber | TokenKind::Account | TokenKind::Identity => {
                    "{{ data | last4 }}"
                }
                TokenKind::Object => "{{ data.pin }}{{ data.owner }}",
            };
            body["search_indexes"] = json!([index]);
        }
    }

    pub(super) fn push_honest_token(&mut self, kind: TokenKind) {
        let mut body = json!({
            "type": kind.type_name(),
            "data": self.hidden_data(kind),
            "metadata": {"user": self.pick_user()},
        });
        self.add_honest_expressions(kind, &mut body);
        if self.random.chance_in_percent(60) {
            body["deduplicate_token"] = true.into();
        }
        if self.random.chance_in_percent(10) {
            body["id"] = format!("user-{}", 1 + self.random.below(2)).into();
        }
        let actor = self.pick_honest_actor();
        let serial = self.push_step(actor, "POST", "/tokens", Some(&body));
        self.record_created(serial, kind, EntityKind::Token, true);
    }

    fn push_honest_conversion(&mut self) {
        let Some(CreatedEntity { serial, kind, .. }) =
            self.pick_earlier(|it| it.entity == EntityKind::Intent && it.hidden)
        else {
            return;
        };
        let mut body = json!({
            "token_intent_id": format!("<<id:{serial}>>"), "metadata": {"user": self.pick_user()},
        });
        if self.random.chance_in_percent(40) {
            body["deduplicate_token"] = true.into();
        }
        let serial = self.push_step(Actor::Backend, "POST", "/tokens", Some(&body));
        self.record_created(serial, kind, EntityKind::Token, true);
    }

    /// Adds a patch of the metadata or of all data. An attacker may have created the token under an
    /// id that the backend uses.
    fn push_honest_patch(&mut self) {
        let includes_planted_ids = self.random.chance_in_percent(25);
        let target = self.pick_earlier(|it| {
            it.entity == EntityKind::Token && (it.hidden || includes_planted_ids)
        });
        let Some(CreatedEntity { serial, kind, hidden, .. }) = target else { return };
        let id = if hidden {
            format!("<<id:{serial}>>")
        } else {
            format!("user-{}", 1 + self.random.below(2))
        };
        let body = match self.random.below(3) {
            0 => json!({"metadata": {"user": self.pick_user()}}),
            _ => json!({"data": self.hidden_data(kind)}),
        };
        self.push_step(Actor::Backend, "PATCH", &format!("/tokens/{id}"), Some(&body));
    }

    fn push_honest_delete(&mut self) {
        let Some(CreatedEntity { serial, entity: entity_kind, .. }) =
            self.pick_earlier(|it| it.hidden)
        else {
            return;
        };
        let path = match entity_kind {
            EntityKind::Token => "/tokens",
            EntityKind::Intent => "/token-intents",
            EntityKind::Session | EntityKind::Page => return,
        };
        self.push_step(Actor::Backend, "DELETE", &format!("{path}/<<id:{serial}>>"), None);
    }
}
