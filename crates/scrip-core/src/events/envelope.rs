//! An event with its envelope, and the body of its deliveries.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    Timestamp,
    events::{EventData, canonical_json::to_canonical_json},
    policy::{Actor, Tenant},
    types::id::{EventId, TenantId},
};

/// Something that happened in a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The same in all deliveries of the event, so that a receiver can drop repetitions.
    pub id: EventId,
    /// The name of the event type.
    pub event_type: &'static str,
    pub at: Timestamp,
    pub tenant: TenantId,
    /// The trace id of the request; empty without a request.
    pub trace: Arc<str>,
    /// `None` for a request without an API key, such as one of a browser during 3-D Secure.
    pub actor: Option<EventActor>,
    pub data: EventData,
}

/// The actor of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventActor {
    id: String,
    kind: &'static str,
    name: Option<String>,
}

impl EventActor {
    /// The actor of an audit record, with the name that the application has now.
    pub fn new(actor: Actor, tenant: &Tenant) -> Option<Self> {
        let (id, kind, name) = match actor {
            Actor::Application(id) => {
                let application = tenant.applications.get(&id);
                let name = application.map(|it| it.record.name.as_str().to_owned());
                (id.to_string(), "application", name)
            }
            Actor::Operator => ("operator".to_owned(), "admin", Some("Operator".to_owned())),
            Actor::Vault => ("vault".to_owned(), "system", Some("Vault".to_owned())),
            Actor::Unauthenticated => return None,
        };
        Some(Self { id, kind, name })
    }

    fn to_value(&self) -> Value {
        let mut attributes = Map::new();
        attributes.insert("id".to_owned(), self.id.as_str().into());
        attributes.insert("type".to_owned(), self.kind.into());
        if let Some(name) = &self.name {
            attributes.insert("name".to_owned(), name.as_str().into());
        }
        Value::Object(attributes)
    }
}

impl Event {
    /// The event as it is stored until its last delivery.
    pub fn to_json(&self) -> EventJson {
        let mut data = self.data.clone().into_attributes();
        if let Some(actor) = &self.actor {
            data.insert("actor".to_owned(), actor.to_value());
        }
        let mut attributes = Map::new();
        attributes.insert("id".to_owned(), self.id.to_string().into());
        attributes.insert("type".to_owned(), self.event_type.into());
        attributes.insert("timestamp".to_owned(), self.at.to_string().into());
        attributes.insert("tenant_id".to_owned(), self.tenant.to_string().into());
        if !self.trace.is_empty() {
            attributes.insert("trace_id".to_owned(), self.trace.as_ref().into());
        }
        attributes.insert("data".to_owned(), Value::Object(data));
        EventJson(to_canonical_json(&Value::Object(attributes)))
    }
}

/// The canonical JSON of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventJson(String);

impl EventJson {
    /// The text that [`EventJson::as_str`] returned, after it was stored. `None` if it is not an
    /// object: a delivery of it would not be JSON.
    pub fn from_stored(text: String) -> Option<Self> {
        (text.starts_with('{') && text.ends_with('}')).then_some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The body of an attempt at this time, in canonical JSON. Each attempt has its own time, so
    /// that a receiver can reject old deliveries.
    pub fn to_delivery(&self, delivered_at: Timestamp) -> String {
        // The two names are in canonical order, so the event needs no second parse.
        format!(r#"{{"delivered_at":"{delivered_at}","event":{}}}"#, self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::{
        events::payload,
        types::{EventType, id::TokenId},
    };

    fn event(trace: &str, actor: Option<EventActor>) -> Event {
        Event {
            id: EventId(Uuid::from_u128(7)),
            event_type: EventType::TokenDeleted.as_str(),
            at: Timestamp { unix_ms: 1_700_000_000_000 },
            tenant: TenantId(Uuid::from_u128(8)),
            trace: trace.into(),
            actor,
            data: payload::token::describe_deleted_token(&TokenId::parse("customer-7").unwrap()),
        }
    }

    fn actor(name: Option<&str>) -> EventActor {
        let name = name.map(str::to_owned);
        EventActor { id: "a-1".to_owned(), kind: "application", name }
    }

    #[test]
    fn delivery_has_envelope_event_and_actor() {
        let event = event("trace-1", Some(actor(Some("Shop"))));
        let delivery = event.to_json().to_delivery(Timestamp { unix_ms: 1_700_000_005_000 });
        let expected = json!({
            "delivered_at": "2023-11-14T22:13:25+00:00",
            "event": {
                "id": "00000000-0000-0000-0000-000000000007",
                "type": "token.deleted",
                "timestamp": "2023-11-14T22:13:20+00:00",
                "tenant_id": "00000000-0000-0000-0000-000000000008",
                "trace_id": "trace-1",
                "data": {
                    "token": {"id": "customer-7"},
                    "actor": {"id": "a-1", "type": "application", "name": "Shop"},
                },
            },
        });
        assert_eq!(serde_json::from_str::<Value>(&delivery).unwrap(), expected);
    }

    #[test]
    fn delivery_is_canonical_json() {
        for event in [event("trace-1", Some(actor(None))), event("", None)] {
            let delivery = event.to_json().to_delivery(Timestamp { unix_ms: 0 });
            let value: Value = serde_json::from_str(&delivery).unwrap();
            assert_eq!(to_canonical_json(&value), delivery);
        }
    }

    #[test]
    fn attempts_differ_only_in_their_time() {
        let stored = event("", None).to_json();
        let stored = EventJson::from_stored(stored.as_str().to_owned()).unwrap();
        let deliver = |unix_ms| {
            let delivery = stored.to_delivery(Timestamp { unix_ms });
            serde_json::from_str::<Value>(&delivery).unwrap()
        };
        let (first, second) = (deliver(0), deliver(5000));
        assert_eq!(first["event"], second["event"]);
        assert_ne!(first["delivered_at"], second["delivered_at"]);
        assert_eq!(EventJson::from_stored("7".to_owned()), None);
    }

    #[test]
    fn event_without_request_and_actor_has_neither() {
        let value: Value = serde_json::from_str(event("", None).to_json().as_str()).unwrap();
        assert_eq!(value.get("trace_id"), None);
        assert_eq!(value["data"].get("actor"), None);
    }
}
