//! The attributes of each payload.

use serde_json::{Value, json};

use super::*;

fn session() -> WebhookSession {
    WebhookSession {
        id: "s".to_owned(),
        kind: "customer".to_owned(),
        tenant_id: "t".to_owned(),
        origin: WebhookSessionOrigin {
            created_at: "2026-11-15T00:00:00Z".to_owned(),
            created_by: "a".to_owned(),
            device: Some("browser".to_owned()),
            expires_at: "2026-11-15T01:00:00Z".to_owned(),
            token_id: Some("k".to_owned()),
            token_intent_id: Some("i".to_owned()),
            card_brand: Some("Visa".to_owned()),
        },
    }
}

#[test]
fn each_webhook_event_type_has_its_own_attributes() {
    let origin = "created_at,created_by,device,expires_at,token_id,token_intent_id,card_brand";
    for (name, attributes) in [
        ("3ds.session.created", format!("id,type,tenant_id,{origin}")),
        ("3ds.session.method-completed", "id,type,tenant_id".to_owned()),
        ("3ds.session.authenticated", format!("id,type,authentication_status,{origin}")),
        ("3ds.session.challenge-completed", "id,type,tenant_id,authentication_status".to_owned()),
        ("3ds.session.decoupled-challenge-notification", "id,type,tenant_id".to_owned()),
        ("3ds.session.challenge-result-retrieved", format!("id,type,tenant_id,{origin}")),
    ] {
        let event = WebhookEventType::from_name(name).unwrap();
        let payload = event.payload(session(), Some(Status::Successful));
        let value = serde_json::to_value(&payload).unwrap();
        let mut expected: Vec<_> = attributes.split(',').collect();
        expected.sort_unstable();
        let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, expected, "{name}");
        assert_eq!(serde_json::from_value::<WebhookSessionPayload>(value).unwrap(), payload);
    }
    assert_eq!(WebhookEventType::ALL.len(), 6);
}

#[test]
fn webhook_delivery_serializes_as_documented() {
    let event = WebhookEvent {
        id: "e".to_owned(),
        kind: WebhookEventType::ChallengeCompleted,
        timestamp: "2026-11-15T00:00:01Z".to_owned(),
        tenant_id: "t".to_owned(),
        trace_id: Some("r".to_owned()),
        data: WebhookEventData {
            session: WebhookEventType::ChallengeCompleted.payload(session(), Some(Status::Failed)),
            actor: Some(WebhookActor {
                id: "a".to_owned(),
                kind: "application".to_owned(),
                name: None,
            }),
        },
    };
    let delivery = WebhookDelivery { event, delivered_at: "2026-11-15T00:00:02Z".to_owned() };
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
    assert_eq!(serde_json::from_value::<WebhookDelivery>(value).unwrap(), delivery);
}
