//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::{
    Timestamp,
    events::{DeliveryRecord, DeliveryState},
    operations::webhooks::replay_webhook_deliveries::DeliveryReplayCount,
    types::id::EventId,
};
use serde_json::{Value, json};

use crate::{
    openapi::tests::assert_examples,
    wire::webhooks::{RotatedSecretBody, WebhookBody, render_replay, render_test},
};

fn body() -> WebhookBody<'static> {
    WebhookBody {
        id: "7d9e2b41-5c06-4f83-9b1a-2e8f6d3c0a57".to_owned(),
        tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        status: "enabled",
        name: "Orders",
        url: "https://shop.example/webhooks/scrip",
        notify_email: None,
        events: vec!["token.created", "token.deleted"],
        secret: None,
        created_by: "0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned(),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: None,
        modified_at: None,
    }
}

fn complete_body() -> WebhookBody<'static> {
    WebhookBody {
        status: "disabled",
        notify_email: Some("ops@shop.example"),
        modified_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        modified_at: Some("2026-11-02T10:00:00+00:00".to_owned()),
        ..body()
    }
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwqs5w1pWq3zE=";

#[test]
fn documented_webhook_examples_match_rendered_bodies() {
    assert_examples("Webhook", [json!(complete_body()), json!(body())]);
    let with_secret: Value = json!(WebhookBody { secret: Some(SECRET), ..complete_body() });
    assert_examples("WebhookWithSecret", [with_secret]);
    let WebhookBody { id, modified_by, modified_at, .. } = complete_body();
    let rotated = RotatedSecretBody { id, secret: SECRET, modified_by, modified_at };
    assert_examples("WebhookSecret", [json!(rotated)]);
}

const SECOND: Timestamp = Timestamp { unix_ms: 1_793_613_600_000 };

fn record(state: DeliveryState) -> DeliveryRecord {
    DeliveryRecord {
        event: EventId::parse("019a8f3e-6b1c-7d20-9e4f-5a6b7c8d9e0f").unwrap(),
        event_type: "token.created".to_owned(),
        occurred_at: SECOND,
        state,
        attempts: 1,
        last_attempt_at: Some(SECOND),
        next_attempt_at: None,
        last_status: Some(200),
        last_error: None,
    }
}

#[test]
fn delivery_is_rendered_as_documented() {
    let later = |seconds: i64| Some(Timestamp { unix_ms: SECOND.unix_ms + seconds * 1000 });
    let pending = DeliveryRecord {
        attempts: 2,
        last_attempt_at: later(5),
        next_attempt_at: later(307),
        last_status: Some(503),
        ..record(DeliveryState::Pending)
    };
    let rendered = [pending, record(DeliveryState::Delivered)].map(|it| render_test(&it));
    assert_examples(
        "WebhookDelivery",
        rendered.map(|it| serde_json::from_str::<Value>(&it.body).unwrap()),
    );
    let replay = render_replay(&DeliveryReplayCount(12));
    assert_eq!(replay.status, 202);
    assert_examples("WebhookReplayCount", [serde_json::from_str::<Value>(&replay.body).unwrap()]);
}
