//! Management of the tenant: requests that return no card data, and the lists, logs and events in
//! which it could appear.

use std::sync::LazyLock;

use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::SequenceGenerator;
use crate::step::Actor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ManagedKind {
    Application,
    /// A key of the last application.
    ApiKey,
    Webhook,
    ClientKey,
}

/// An entity that an administrator created.
#[derive(Debug, Clone, Copy)]
pub(super) struct ManagedEntity {
    /// The step that creates it.
    pub(super) serial: usize,
    pub(super) kind: ManagedKind,
}

/// The certificate of a proxy. It is never presented, because the destination has no TLS.
static CERTIFICATE: LazyLock<Value> = LazyLock::new(|| {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, "shop.example");
    let certificate = parameters.self_signed(&key).unwrap();
    json!({"certificate_pem": certificate.pem(), "private_key_pem": key.serialize_pem()})
});

/// Reads without an entity.
const READS: [(Actor, &str, &str); 18] = [
    (Actor::Auditor, "GET", "/tenants/self"),
    (Actor::Auditor, "GET", "/tenants/self/quotas"),
    (Actor::Auditor, "GET", "/tenants/self/reports/usage"),
    (Actor::Auditor, "GET", "/applications?size=3"),
    (Actor::Auditor, "GET", "/logs?size=50"),
    (Actor::Auditor, "GET", "/logs?entity_type=token"),
    (Actor::Auditor, "GET", "/logs/entity-types"),
    (Actor::Auditor, "GET", "/webhooks?size=2"),
    (Actor::Auditor, "GET", "/webhooks/event-types"),
    (Actor::Auditor, "GET", "/keys"),
    (Actor::Administrator, "GET", "/proxies?size=5"),
    (Actor::Ruled, "GET", "/applications/key"),
    (Actor::Public, "GET", "/permissions"),
    (Actor::Public, "GET", "/enrichments/card-details?bin=424242"),
    (Actor::Masked, "GET", "/orchestration/connection_formulas"),
    (Actor::Masked, "POST", "/orchestration/connection_formulas"),
    (Actor::Masked, "GET", "/orchestration/connection/formulas"),
    (Actor::Masked, "POST", "/orchestration/connection/formulas"),
];

impl SequenceGenerator {
    /// Adds one request. Entities that it needs are created before it.
    pub(super) fn manage(&mut self) {
        match self.random.below(10) {
            0..=3 => {
                let (actor, method, path) = *self.random.pick(&READS);
                self.push_step(actor, method, path, None);
            }
            4 | 5 => self.manage_webhook(),
            6 => self.manage_application(),
            7 => self.manage_client_key(),
            8 => self.manage_tenant(),
            _ => self.manage_proxy(),
        }
    }

    /// The last entity of this kind. Creates one if there is none.
    fn ensure(&mut self, kind: ManagedKind) -> usize {
        let found = self.managed.iter().rev().find(|it| it.kind == kind);
        if let Some(found) = found {
            return found.serial;
        }
        let (actor, path, body) = match kind {
            ManagedKind::Application => {
                let body =
                    json!({"name": "new", "type": "public", "permissions": ["token:create"]});
                (Actor::Administrator, "/applications".to_owned(), Some(body))
            }
            ManagedKind::ApiKey => {
                let application = self.ensure(ManagedKind::Application);
                let path = format!("/applications/<<id:{application}>>/keys");
                (Actor::Administrator, path, None)
            }
            ManagedKind::Webhook => {
                let body = self.webhook_body();
                (Actor::Auditor, "/webhooks".to_owned(), Some(body))
            }
            ManagedKind::ClientKey => (Actor::Administrator, "/keys".to_owned(), None),
        };
        let serial = self.push_step(actor, "POST", &path, body.as_ref());
        self.managed.push(ManagedEntity { serial, kind });
        serial
    }

    pub(super) fn ensure_webhook(&mut self) -> usize {
        self.ensure(ManagedKind::Webhook)
    }

    pub(super) fn ensure_client_key(&mut self) -> usize {
        self.ensure(ManagedKind::ClientKey)
    }

    fn webhook_body(&mut self) -> Value {
        let events: &[&str] = match self.random.below(3) {
            0 => &["token.created", "token.updated", "token-intent.created", "proxy.invoked"],
            1 => &["token.read", "token.deleted", "token-intent.converted", "proxy.updated"],
            _ => &["token.created", "application.created", "session.authorized"],
        };
        json!({"name": "events", "url": "https://shop.example/events", "events": events})
    }

    fn manage_webhook(&mut self) {
        let webhook = self.ensure_webhook();
        let path = format!("/webhooks/<<id:{webhook}>>");
        let (method, suffix, body) = match self.random.below(8) {
            0 => ("GET", "", None),
            1 => ("PUT", "", Some(self.webhook_body())),
            2 => ("DELETE", "", None),
            3 => ("POST", "/secret", None),
            4 => ("POST", "/test", None),
            5 => ("POST", "/replay", Some(json!({"from": "2000-01-01T00:00:00Z"}))),
            _ => ("GET", "/deliveries", None),
        };
        self.push_step(Actor::Auditor, method, &format!("{path}{suffix}"), body.as_ref());
    }

    fn manage_application(&mut self) {
        let application = self.ensure(ManagedKind::Application);
        let path = format!("/applications/<<id:{application}>>");
        let key_path = |generator: &mut Self| {
            let key = generator.ensure(ManagedKind::ApiKey);
            format!("{path}/keys/<<id:{key}>>")
        };
        let (actor, method, path, body) = match self.random.below(7) {
            0 => (Actor::Auditor, "GET", path, None),
            1 => {
                let body = json!({"name": "changed", "permissions": ["token:create"]});
                (Actor::Administrator, "PUT", path, Some(body))
            }
            2 => (Actor::Administrator, "DELETE", path, None),
            3 => (Actor::Masked, "POST", format!("{path}/regenerate"), None),
            4 => (Actor::Auditor, "GET", format!("{path}/keys"), None),
            5 => (Actor::Auditor, "GET", key_path(self), None),
            _ => (Actor::Administrator, "DELETE", key_path(self), None),
        };
        self.push_step(actor, method, &path, body.as_ref());
    }

    fn manage_client_key(&mut self) {
        let key = self.ensure_client_key();
        let path = format!("/keys/<<key_id:{key}>>");
        let (actor, method, path) = match self.random.below(4) {
            0 => (Actor::Auditor, "GET", path),
            1 => (Actor::Auditor, "DELETE", path),
            _ => (Actor::Public, "GET", format!("{path}/public-key")),
        };
        self.push_step(actor, method, &path, None);
    }

    fn manage_tenant(&mut self) {
        let mut body = json!({"name": "test"});
        if self.random.chance_in_percent(50) {
            let is_deduplicating = self.random.chance_in_percent(70);
            body["settings"] = json!({"deduplicate_tokens": is_deduplicating.to_string()});
        }
        self.push_step(Actor::Administrator, "PUT", "/tenants/self", Some(&body));
    }

    fn manage_proxy(&mut self) {
        if self.proxies.is_empty() {
            self.push_proxy();
        }
        let serial = self.proxies[0].serial;
        let path = format!("/proxies/<<id:{serial}>>");
        let certificate_path = format!("{path}/client-certificate");
        match self.random.below(5) {
            0 => {
                let body = CERTIFICATE.clone();
                self.push_step(Actor::Administrator, "PUT", &certificate_path, Some(&body));
                if self.random.chance_in_percent(50) {
                    self.push_step(Actor::Administrator, "DELETE", &certificate_path, None);
                }
            }
            1 => self.change_proxy(),
            _ => {
                self.push_step(Actor::Administrator, "GET", &path, None);
            }
        }
    }
}
