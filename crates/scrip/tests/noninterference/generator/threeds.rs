//! 3DS sessions of attackers.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use super::{CreatedEntity, EntityKind, SequenceGenerator};
use crate::step::Actor;

impl SequenceGenerator {
    pub(super) fn threeds(&mut self, actor: Actor) {
        if let Some(session) = self.pick_earlier(|it| it.entity == EntityKind::Session)
            && self.random.chance_in_percent(50)
        {
            return self.continue_session(session);
        }
        let source =
            self.pick_earlier(|it| matches!(it.entity, EntityKind::Token | EntityKind::Intent));
        let Some(CreatedEntity { serial, kind, entity: entity_kind, hidden }) = source else {
            return self.intent(actor);
        };
        let attribute =
            if entity_kind == EntityKind::Token { "token_id" } else { "token_intent_id" };
        let device = if self.random.chance_in_percent(75) { "browser" } else { "app" };
        let body = json!({attribute: format!("<<id:{serial}>>"), "device": device});
        let serial = self.push_step(actor, "POST", "/3ds/sessions", Some(&body));
        self.record_created(serial, kind, EntityKind::Session, hidden);
        if device == "app" && self.random.chance_in_percent(50) {
            let path = format!("/3ds/sessions/<<id:{serial}>>");
            let body = json!({"device_info": app_device_info()});
            self.push_step(Actor::Masked, "PUT", &path, Some(&body));
            let path = format!("{path}/authenticate");
            let serial = self.push_step(Actor::Masked, "POST", &path, Some(&payment("Ada")));
            self.record_created(serial, kind, EntityKind::Session, true);
        } else if self.random.chance_in_percent(70) {
            let entity = EntityKind::Session;
            self.continue_session(CreatedEntity { serial, kind, entity, hidden });
        }
    }

    /// Adds a request about a 3DS session. Only private keys may authenticate.
    fn continue_session(&mut self, session: CreatedEntity) {
        let path = format!("/3ds/sessions/<<id:{}>>", session.serial);
        let actor = if self.random.chance_in_percent(80) { Actor::Masked } else { Actor::Public };
        match self.random.below(8) {
            0 => {
                self.push_step(actor, "GET", &format!("{path}/challenge-result"), None);
            }
            1 => {
                self.push_step(Actor::Masked, "GET", &path, None);
            }
            2 | 3 => {
                let body = json!({"device_info": app_device_info()});
                self.push_step(actor, "PUT", &path, Some(&body));
            }
            _ => {
                let path = format!("{path}/authenticate");
                let serial = self.push_step(actor, "POST", &path, Some(&payment("Ada")));
                self.record_created(serial, session.kind, EntityKind::Session, true);
            }
        }
    }
}

/// The device of a session of an app.
fn app_device_info() -> Value {
    let key = json!({"kty": "EC", "crv": "P-256", "x": "x".repeat(43), "y": "y".repeat(43)});
    json!({
        "sdk_transaction_id": "b2385523-a66c-4907-ac3c-91848e8c0067",
        "sdk_application_id": "a2385523-a66c-4907-ac3c-91848e8c0068",
        "sdk_encryption_data": "e30.e30.e30.e30.e30",
        "sdk_ephemeral_public_key": key.to_string(),
        "sdk_max_timeout": "05",
        "sdk_reference_number": "3DS_LOA_SDK_1",
        "sdk_render_options": {"sdk_interface": "01", "sdk_ui_type": ["01", "02", "03", "04"]},
    })
}
