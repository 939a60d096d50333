//! The payloads, name by name.

use serde_json::{Value, json};

use super::*;

fn facts() -> SessionFacts {
    SessionFacts {
        id: "s".to_owned(),
        kind: "customer".to_owned(),
        tenant_id: "t".to_owned(),
        origin: Origin {
            created_at: "2026-11-15T00:00:00Z".to_owned(),
            created_by: "a".to_owned(),
            device: Some("browser".to_owned()),
            expires_at: Some("2026-11-15T01:00:00Z".to_owned()),
            token_id: Some("k".to_owned()),
            token_intent_id: Some("i".to_owned()),
            card_brand: Some("Visa".to_owned()),
        },
    }
}

#[test]
fn each_event_tells_its_own_attributes() {
    let origin = "created_at,created_by,device,expires_at,token_id,token_intent_id,card_brand";
    for (name, attributes) in [
        ("3ds.session.created", format!("id,type,tenant_id,{origin}")),
        ("3ds.session.method-completed", "id,type,tenant_id".to_owned()),
        ("3ds.session.authenticated", format!("id,type,authentication_status,{origin}")),
        ("3ds.session.challenge-completed", "id,type,tenant_id,authentication_status".to_owned()),
        ("3ds.session.decoupled-challenge-notification", "id,type,tenant_id".to_owned()),
        ("3ds.session.challenge-result-retrieved", format!("id,type,tenant_id,{origin}")),
    ] {
        let event = EventType::from_name(name).unwrap();
        let payload = event.payload(facts(), Some(Status::Successful));
        let value = serde_json::to_value(&payload).unwrap();
        let mut expected: Vec<_> = attributes.split(',').collect();
        expected.sort_unstable();
        let told: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, expected, "{name}");
        assert_eq!(serde_json::from_value::<SessionPayload>(value).unwrap(), payload);
    }
    assert_eq!(EventType::ALL.len(), 6);
}

#[test]
fn an_event_in_its_envelope() {
    let event = SessionEvent {
        id: "e".to_owned(),
        kind: EventType::ChallengeCompleted,
        timestamp: "2026-11-15T00:00:01Z".to_owned(),
        tenant_id: "t".to_owned(),
        trace_id: Some("r".to_owned()),
        data: EventData {
            session: EventType::ChallengeCompleted.payload(facts(), Some(Status::Failed)),
            actor: Some(Actor { id: "a".to_owned(), kind: "application".to_owned(), name: None }),
        },
    };
    let delivery = Delivery { event, delivered_at: "2026-11-15T00:00:02Z".to_owned() };
    let value: Value = serde_json::to_value(&delivery).unwrap();
    assert_eq!(
        value,
        json!({
            "event": {
                "id": "e", "type": "3ds.session.challenge-completed",
                "timestamp": "2026-11-15T00:00:01Z", "tenant_id": "t", "trace_id": "r",
                "data": {
                    "session": {
                        "id": "s", "type": "customer", "tenant_id": "t",
                        "authentication_status": "failed",
                    },
                    "actor": {"id": "a", "type": "application"},
                },
            },
            "delivered_at": "2026-11-15T00:00:02Z",
        })
    );
    assert_eq!(serde_json::from_value::<Delivery>(value).unwrap(), delivery);
}
