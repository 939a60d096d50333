//! Proxies that administrators create and change.

use serde_json::{Value, json};

use super::SequenceGenerator;
use crate::{
    destination::{CONFIGURATION_ATTRIBUTE, CONFIGURATION_HEADER, DestinationKind},
    in_process_vault::COLLECTORS,
    step::Actor,
};

/// A proxy that a step creates.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProxyShape {
    /// The step that creates it.
    pub(super) serial: usize,
    pub(super) destination: DestinationKind,
}

const DESTINATIONS: [(usize, DestinationKind); 5] = [
    (6, DestinationKind::Provider),
    (5, DestinationKind::Echo),
    (4, DestinationKind::Repeat),
    (1, DestinationKind::Decline),
    (1, DestinationKind::HangUp),
];

fn append_json(location: &str, value: &str) -> Value {
    json!({"type": "append_json", "options": {"location": location, "value": value}})
}

fn append_header(location: &str, value: &str) -> Value {
    json!({"type": "append_header", "options": {"location": location, "value": value}})
}

/// A mask of all numbers with three or more digits.
fn number_mask() -> Value {
    json!({"type": "mask", "matcher": "regex", "expression": "(\\d{3,})", "replacement": "#"})
}

pub(super) fn tokenize(token: Value) -> Value {
    json!({"type": "tokenize", "options": {"identifier": "card", "token": token}})
}

impl SequenceGenerator {
    /// Adds a proxy of an administrator.
    pub(super) fn push_proxy(&mut self) {
        let destination = self.random.pick_weighted(&DESTINATIONS);
        let body = self.proxy_body(destination);
        let serial = self.push_step(Actor::Administrator, "POST", "/proxies", Some(&body));
        self.proxies.push(ProxyShape { serial, destination });
    }

    /// Adds a proxy that collects the attribute `number` of requests, and returns its fingerprint.
    pub(super) fn push_collecting_proxy(&mut self, requires_key: bool, token: Value) {
        let application = self.random.below(COLLECTORS.len());
        let fingerprint = "{{ transform_identifier: 'card' | json: '$.fingerprint' }}";
        let mut transforms = vec![tokenize(token)];
        if self.random.chance_in_percent(40) {
            transforms.push(append_json("$.fingerprint", fingerprint));
        }
        let destination = DestinationKind::Echo;
        let body = json!({
            "name": "collector", "require_auth": requires_key,
            "destination_url": format!("<<destination:0>>/{}", destination.path()),
            "application": {"id": format!("<<application:{application}>>")},
            "request_transforms": transforms,
        });
        let serial = self.push_step(Actor::Administrator, "POST", "/proxies", Some(&body));
        self.proxies.push(ProxyShape { serial, destination });
    }

    fn proxy_body(&mut self, destination: DestinationKind) -> Value {
        let mut body = json!({
            "name": "provider",
            "destination_url": format!("<<destination:0>>/{}/v1", destination.path()),
            "configuration": {"secret": "<<configuration:0>>"},
            "require_auth": self.random.chance_in_percent(60),
            "request_transforms": self.request_transforms(),
            "response_transforms": self.response_transforms(destination),
        });
        if self.random.chance_in_percent(90) {
            let application = self.random.below(COLLECTORS.len());
            body["application"] = json!({"id": format!("<<application:{application}>>")});
        }
        if self.random.chance_in_percent(5) {
            body["disable_detokenization"] = true.into();
        }
        if self.random.chance_in_percent(10) {
            body["timeout"] = 5.into();
        }
        body
    }

    fn request_transforms(&mut self) -> Vec<Value> {
        let mut transforms = Vec::new();
        let secret = *self.random.pick(&["{{ config: secret }}", "Bearer {{ config: secret }}"]);
        if self.random.chance_in_percent(50) {
            transforms.push(append_header(CONFIGURATION_HEADER, secret));
        }
        let writes_body = self.random.chance_in_percent(35);
        if writes_body {
            let location = format!("$.{CONFIGURATION_ATTRIBUTE}");
            transforms.push(append_json(&location, secret));
        }
        if self.random.chance_in_percent(45) {
            let token = self.token_template("req");
            transforms.push(tokenize(token));
            if self.random.chance_in_percent(50) {
                transforms.push(self.append_token_attribute());
            }
        }
        match self.random.below(12) {
            0 => transforms.push(append_header("X-Order", "{{ req.order }}")),
            1 => transforms.push(append_json("$.copy", "{{ req.number }}")),
            2 => transforms.push(number_mask()),
            // After this the body is no object, and the destination could not find the attribute.
            3 if !writes_body => transforms
                .push(json!({"type": "append_text", "options": {"value": "{{ req.order }}"}})),
            _ => {}
        }
        transforms
    }

    /// The answer of a destination that repeats a number must be masked.
    fn response_transforms(&mut self, destination: DestinationKind) -> Vec<Value> {
        let mut transforms = Vec::new();
        let has_token = self.random.chance_in_percent(35);
        if has_token {
            let token = self.token_template("res");
            transforms.push(tokenize(token));
        }
        match self.random.below(8) {
            0 => transforms.push(append_header("X-Answer", "{{ res.order }}")),
            1 => transforms.push(append_json("$.copy", "{{ req.number }}")),
            _ => {}
        }
        if destination == DestinationKind::Repeat {
            transforms.push(number_mask());
        }
        if has_token && self.random.chance_in_percent(60) {
            transforms.push(self.append_token_attribute());
        }
        transforms
    }

    /// Appends an attribute of the new token.
    fn append_token_attribute(&mut self) -> Value {
        let path = *self.random.pick(&[
            "$.id",
            "$.id",
            "$.fingerprint",
            "$.card.bin",
            "$.card.last4",
            "$.metadata.order",
        ]);
        let value = format!("{{{{ transform_identifier: 'card' | json: '{path}' }}}}");
        match self.random.below(3) {
            0 => append_header("X-Token", &value),
            _ => append_json("$.token", &value),
        }
    }

    /// The template of a token that reads the request (`req`) or the answer (`res`).
    fn token_template(&mut self, message: &str) -> Value {
        let read = |name: &str| format!("{{{{ {message}.{name} }}}}");
        let mut template = match self.random.below(8) {
            0..=2 => json!({"type": "card", "data": {
                "number": read("number"), "expiration_month": 1, "expiration_year": 2038,
            }}),
            3 => json!({"type": "token", "data": read("number")}),
            4 => json!({"type": "token", "data": {"n": read("number")}}),
            5 => json!({"type": "token", "data": "x"}),
            6 => json!({"type": "card", "data": "{{ encrypted | json: '$.data' }}"}),
            _ => json!({"type": "token", "data": "{{ encrypted | json: '$.data.number' }}"}),
        };
        match self.random.below(6) {
            0 | 1 => template["metadata"] = json!({"order": read("order")}),
            2 => template["metadata"] = json!({"order": read("number")}),
            3 => template["search_indexes"] = json!(["{{ data | stringify }}"]),
            _ => {}
        }
        if self.random.chance_in_percent(10) {
            template["metadata"] = json!({"order": "{{ encrypted | json: '$.data.number' }}"});
        }
        template
    }

    /// Adds a change of an earlier proxy, or a new one.
    pub(super) fn change_proxy(&mut self) {
        if self.proxies.is_empty() {
            return self.push_proxy();
        }
        let index = self.random.below(self.proxies.len());
        let ProxyShape { serial, destination } = self.proxies[index];
        let path = format!("/proxies/<<id:{serial}>>");
        match self.random.below(6) {
            0 => {
                let body = self.proxy_body(destination);
                self.push_step(Actor::Administrator, "PUT", &path, Some(&body));
            }
            1 => {
                let body = json!({"request_transforms": self.request_transforms()});
                self.push_step(Actor::Administrator, "PATCH", &path, Some(&body));
            }
            2 => {
                let body = json!({"require_auth": self.random.chance_in_percent(50)});
                self.push_step(Actor::Administrator, "PATCH", &path, Some(&body));
            }
            3 => {
                let body = match self.random.below(2) {
                    0 => json!({"name": "renamed"}),
                    _ => json!({"configuration": {"secret": "known"}}),
                };
                self.push_step(Actor::Auditor, "PATCH", &path, Some(&body));
            }
            4 => self.push_proxy(),
            _ => {
                self.push_step(Actor::Auditor, "DELETE", &path, None);
            }
        }
    }
}
