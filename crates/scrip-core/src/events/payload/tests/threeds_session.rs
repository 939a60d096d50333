//! Events of 3DS sessions.

use super::*;
use crate::events::payload::threeds_session::{SessionFacts, describe_threeds_session};

#[test]
fn each_threeds_event_type_has_its_own_attributes() {
    let facts = SessionFacts {
        id: ThreeDsSessionId(uuid(1)),
        kind: "customer",
        tenant_id: TenantId(uuid(2)),
        created_at: at(1),
        created_by: ApplicationId(uuid(9)),
        device: "browser",
        expires_at: at(2),
        token_id: Some("customer-7".to_owned()),
        token_intent_id: Some("intent-7".to_owned()),
        card_brand: Some("visa"),
    };
    let all = json!({
        "id": id(1), "type": "customer", "tenant_id": id(2), "authentication_status": "failed",
        "created_at": FIRST, "created_by": id(9), "device": "browser", "expires_at": SECOND,
        "token_id": "customer-7", "token_intent_id": "intent-7", "card_brand": "visa",
    });
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
        let entries = attributes.split(',').map(|it| (it.to_owned(), all[it].clone()));
        let expected = json!({"session": Value::Object(entries.collect())});
        check(describe_threeds_session(&facts, event, Some(Status::Failed)), expected);
    }
    assert_eq!(WebhookEventType::ALL.len(), 6);
}

#[test]
fn threeds_event_of_a_token_has_no_status_and_no_intent() {
    let facts = SessionFacts {
        id: ThreeDsSessionId(uuid(1)),
        kind: "merchant",
        tenant_id: TenantId(uuid(2)),
        created_at: at(1),
        created_by: ApplicationId(uuid(9)),
        device: "app",
        expires_at: at(2),
        token_id: Some("customer-7".to_owned()),
        token_intent_id: None,
        card_brand: None,
    };
    let expected = json!({"session": {
        "id": id(1), "type": "merchant", "created_at": FIRST, "created_by": id(9),
        "device": "app", "expires_at": SECOND, "token_id": "customer-7",
    }});
    check(describe_threeds_session(&facts, WebhookEventType::Authenticated, None), expected);
}
