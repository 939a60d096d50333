//! The events that operations raise: which webhooks get a delivery, and its content.
//!
//! The tests read the stored rows, in every state, so they do not depend on attempts to deliver
//! them.

mod full_run;
mod policy;
mod proxy_calls;
mod reads;
mod sessions;
mod threeds;
mod tokens;

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    events::{ClaimedDelivery, DeliveryProgress, WebhookKey},
    policy::{ApiKeyLookup, DeduplicationBehavior, Tenant, TenantSettings},
    types::{
        EventType,
        id::{EventId, WebhookId},
    },
};
use scrip_seal::Sealed;
use scrip_testing::process::harness::becomes_true;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    harness::server::{SERVER, TenantApiKeys, TestResponse, TestServer, text_field},
    webhooks::create_webhook_on,
};

/// A tenant with a webhook for one event type. Three other webhooks must not get the event: one
/// with all other types, a disabled one, and one of another tenant.
struct Subscription<'a> {
    server: &'a TestServer,
    keys: TenantApiKeys,
    event_type: EventType,
    webhook: WebhookKey,
    other_types: WebhookKey,
    disabled: WebhookKey,
    other_tenant: (TenantApiKeys, WebhookKey),
}

fn subscribe(event_type: EventType) -> Subscription<'static> {
    Subscription::new(&SERVER, event_type)
}

/// The settings of a tenant whose tokens are deduplicated.
fn deduplicating(token_deduplication_behavior: DeduplicationBehavior) -> TenantSettings {
    let defaults = TenantSettings::default();
    TenantSettings { deduplicate_tokens: true, token_deduplication_behavior, ..defaults }
}

impl<'a> Subscription<'a> {
    fn new(server: &'a TestServer, event_type: EventType) -> Self {
        Self::with_settings(server, event_type, TenantSettings::default())
    }

    fn with_settings(
        server: &'a TestServer,
        event_type: EventType,
        settings: TenantSettings,
    ) -> Self {
        let keys = server.create_test_tenant(settings);
        let other_keys = server.create_default_tenant();
        let others = EventType::ALL.into_iter().filter(|it| *it != event_type);
        let others: Vec<_> = others.map(EventType::as_str).collect();
        let all: Vec<_> = EventType::ALL.into_iter().map(EventType::as_str).collect();
        let other_tenant = create_webhook(server, &other_keys, &json!({"events": all}));
        Self {
            server,
            event_type,
            webhook: create_webhook(server, &keys, &json!({"events": [event_type.as_str()]})),
            other_types: create_webhook(server, &keys, &json!({"events": others})),
            disabled: create_webhook(server, &keys, &json!({"events": all, "status": "disabled"})),
            keys,
            other_tenant: (other_keys, other_tenant),
        }
    }

    /// The events of the webhook, in the order of their ids. No other webhook has one of them.
    #[track_caller]
    fn events(&self) -> Vec<Value> {
        let load = |tenant, key| load_events(self.server, tenant, key);
        let others = load(&self.keys.tenant, self.other_types);
        let has_type = |it: &Value| it["type"] == self.event_type.as_str();
        assert!(!others.iter().any(has_type), "{others:?}");
        assert_eq!(load(&self.keys.tenant, self.disabled), [Value::Null; 0]);
        assert_eq!(load(&self.other_tenant.0.tenant, self.other_tenant.1), [Value::Null; 0]);
        load(&self.keys.tenant, self.webhook)
    }

    #[track_caller]
    fn expect_none(&self) {
        assert_eq!(self.events(), [Value::Null; 0]);
    }

    /// Waits for the event and expects exactly one. Returns it after a check of its envelope.
    #[track_caller]
    fn expect_one(&self) -> Value {
        assert!(becomes_true(|| !self.events().is_empty()), "there is no event");
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        let event = events.remove(0);
        assert_eq!(event["type"], self.event_type.as_str());
        assert_eq!(event["tenant_id"], self.keys.tenant.id.to_string());
        event
    }

    /// Expects exactly one event, of a request with this API key. Returns its data.
    #[track_caller]
    fn expect_one_of(&self, api_key: &str, response: &TestResponse) -> Value {
        self.expect_one_with_trace(api_key, &response.headers["bt-trace-id"])
    }

    #[track_caller]
    fn expect_one_with_trace(&self, api_key: &str, trace: &str) -> Value {
        let event = self.expect_one();
        assert_eq!(event["trace_id"], trace);
        let mut data = event["data"].clone();
        let actor = data.as_object_mut().unwrap().remove("actor");
        assert_eq!(actor, Some(describe_caller(self.server, api_key)));
        data
    }

    /// Expects exactly one event of an action without a request. Returns its data.
    #[track_caller]
    fn expect_one_without_request(&self, actor: &Value) -> Value {
        let event = self.expect_one();
        assert_eq!(event.get("trace_id"), None, "{event}");
        let mut data = event["data"].clone();
        assert_eq!(data.as_object_mut().unwrap().remove("actor").as_ref(), Some(actor));
        data
    }
}

fn vault_actor() -> Value {
    json!({"id": "vault", "type": "system", "name": "Vault"})
}

fn operator_actor() -> Value {
    json!({"id": "operator", "type": "admin", "name": "Operator"})
}

/// The actor of the events of an API key.
fn describe_caller(server: &TestServer, api_key: &str) -> Value {
    let directory = server.app.directory.load();
    let principal = match directory.as_ref().unwrap().authenticate(api_key) {
        Some(ApiKeyLookup::Found { principal, .. }) => Some(principal),
        _ => None,
    };
    let principal = principal.expect("the API key is known");
    let id = principal.application();
    let name = principal.tenant().applications[&id].record.name.as_str();
    json!({"id": id.to_string(), "type": "application", "name": name})
}

fn create_webhook(server: &TestServer, keys: &TenantApiKeys, changes: &Value) -> WebhookKey {
    let created = create_webhook_on(server, keys, changes);
    let id = Uuid::parse_str(&text_field(&created, "id")).unwrap();
    WebhookKey { tenant: keys.tenant.id, webhook: WebhookId(id) }
}

/// Opens the stored events of a webhook, in the order of their ids.
fn load_events(server: &TestServer, tenant: &Arc<Tenant>, key: WebhookKey) -> Vec<Value> {
    let store = &server.app.vault.store;
    server.runtime.block_on(async { while store.move_read_deliveries().await.unwrap() > 0 {} });
    let engine = &server.engine;
    let sql = format!(
        "SELECT event, event_type, occurred_at, body FROM deliveries WHERE tenant = {} \
         AND webhook = {} ORDER BY event",
        engine.sql_id(key.tenant.0),
        engine.sql_id(key.webhook.0),
    );
    let open = |row: Vec<String>| {
        let occurred_at = Timestamp { unix_ms: row[2].parse().unwrap() };
        let event = EventId(Uuid::from_slice(&parse_bytes(&row[0])).unwrap());
        let delivery = ClaimedDelivery {
            key,
            event,
            event_type: row[1].clone(),
            occurred_at,
            progress: DeliveryProgress { attempts: 1, first_attempt_at: occurred_at },
            body: Sealed::from_stored(parse_bytes(&row[3])),
        };
        let opened: Value = serde_json::from_str(delivery.open(tenant).unwrap().as_str()).unwrap();
        assert_eq!(opened["id"], event.to_string());
        assert_eq!(opened["type"], row[1]);
        assert_eq!(opened["timestamp"], occurred_at.to_string());
        opened
    };
    engine.select(&sql).into_iter().map(open).collect()
}

/// The bytes of a column, as either engine prints them.
fn parse_bytes(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let parse = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(parse).collect()
}

/// Some attributes of an object. An attribute that is missing or null is left out.
fn pick(object: &Value, names: &[&str]) -> Value {
    let present = names.iter().filter(|it| !object[**it].is_null());
    Value::Object(present.map(|it| ((*it).to_owned(), object[*it].clone())).collect::<Map<_, _>>())
}
