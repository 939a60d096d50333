//! Responses with deliveries. They never contain the event or the URL of the webhook.

use scrip_core::{
    Timestamp, events::DeliveryRecord, idempotency::RenderedResponse, listing::CursorPage,
    operations::webhooks::replay_webhook_deliveries::DeliveryReplayCount,
};
use serde::Serialize;

use crate::wire::{response::render, tokens::list::cursor_page_body};

#[derive(Serialize)]
struct DeliveryBody<'a> {
    event_id: String,
    event_type: &'a str,
    timestamp: String,
    status: &'static str,
    attempts: u32,
    last_attempt_at: Option<String>,
    next_attempt_at: Option<String>,
    last_status_code: Option<u16>,
    last_error: Option<&'a str>,
}

#[derive(Serialize)]
struct ReplayBody {
    replayed: usize,
}

pub(crate) fn render_page(page: &CursorPage<DeliveryRecord>) -> RenderedResponse {
    render(200, &cursor_page_body(page, delivery_body))
}

/// The delivery of a test event, which is sent after the response.
pub(crate) fn render_test(record: &DeliveryRecord) -> RenderedResponse {
    render(202, &delivery_body(record))
}

pub(crate) fn render_replay(count: &DeliveryReplayCount) -> RenderedResponse {
    render(202, &ReplayBody { replayed: count.0 })
}

fn delivery_body(record: &DeliveryRecord) -> DeliveryBody<'_> {
    let text = |it: Option<Timestamp>| it.map(|it| it.to_string());
    DeliveryBody {
        event_id: record.event.to_string(),
        event_type: &record.event_type,
        timestamp: record.occurred_at.to_string(),
        status: record.state.as_str(),
        attempts: record.attempts,
        last_attempt_at: text(record.last_attempt_at),
        next_attempt_at: text(record.next_attempt_at),
        last_status_code: record.last_status,
        last_error: record.last_error.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::{events::DeliveryState, types::id::EventId};
    use serde_json::Value;

    use super::*;
    use crate::openapi::tests::assert_examples;

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
        assert_examples(
            "WebhookReplayCount",
            [serde_json::from_str::<Value>(&replay.body).unwrap()],
        );
    }
}
