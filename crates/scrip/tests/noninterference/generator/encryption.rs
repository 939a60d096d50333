//! Data that a browser encrypted for a client key, and that others send.

use serde_json::json;

use super::{EntityKind, SequenceGenerator, management::ManagedKind};
use crate::{grammar::TokenKind, step::Actor};

impl SequenceGenerator {
    /// The step that created a client key.
    pub(super) fn client_key(&self) -> Option<usize> {
        self.managed.iter().find(|it| it.kind == ManagedKind::ClientKey).map(|it| it.serial)
    }

    /// Adds a key, and a token that a browser encrypted for it.
    pub(super) fn push_encrypted_data(&mut self) {
        let key = self.ensure_client_key();
        let body = json!({"type": "card", "encrypted": format!("<<encrypted:{key}>>")});
        let (path, entity) = match self.random.below(3) {
            0 => ("/token-intents", EntityKind::Intent),
            _ => ("/tokens", EntityKind::Token),
        };
        let serial = self.push_step(Actor::Browser, "POST", path, Some(&body));
        self.maybe_set_idempotency_key(serial);
        self.record_created(serial, TokenKind::Card, entity, true);
        if self.random.chance_in_percent(40) {
            self.push_proxy();
        }
    }

    /// Sends the encrypted text of the browser, with attributes of the attacker.
    pub(super) fn send_encrypted(&mut self, actor: Actor) {
        let key = self.ensure_client_key();
        let kind = match self.random.below(8) {
            0 => TokenKind::Object,
            1 => TokenKind::CardNumber,
            2 => TokenKind::NetworkToken,
            _ => TokenKind::Card,
        };
        let encrypted = format!("<<encrypted:{key}>>");
        let mut body = json!({"type": kind.type_name(), "encrypted": encrypted});
        if self.random.chance_in_percent(60) {
            self.add_expressions(kind, &mut body);
        }
        self.add_attributes(actor, kind, &mut body);
        let (path, entity) = match self.random.below(5) {
            0 => ("/token-intents", EntityKind::Intent),
            1 => {
                body = json!({"items": [body]});
                ("/tokenize", EntityKind::Page)
            }
            _ => ("/tokens", EntityKind::Token),
        };
        let serial = self.push_step(actor, "POST", path, Some(&body));
        self.maybe_set_idempotency_key(serial);
        if entity != EntityKind::Page {
            self.record_created(serial, TokenKind::Card, entity, true);
        }
    }
}
