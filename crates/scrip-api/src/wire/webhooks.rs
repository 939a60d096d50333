//! JSON of webhooks and their deliveries.

#[cfg(test)]
mod tests;

use scrip_core::{
    FieldError, Timestamp,
    events::DeliveryRecord,
    idempotency::RenderedResponse,
    listing::CursorPage,
    operations::webhooks::replay_webhook_deliveries::DeliveryReplayCount,
    policy::{
        destination::{DestinationUrl, LoopbackDestinations},
        webhook::{EventList, NotifyEmail, WebhookDetails, WebhookDraft, WebhookStatus},
    },
    types::{EventType, Plaintext, id::ApplicationId},
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    json::{JsonField, JsonFields},
    policy::application::parse_name,
    response::render,
    tokens::list::cursor_page_body,
};

const STATUS_RULE: &str = "must be \"enabled\" or \"disabled\"";

/// Parses all attributes of a webhook. The host of the URL is not resolved: the guard of outgoing
/// connections checks the addresses of each delivery.
pub(crate) fn parse_draft(
    body: Plaintext,
    loopback: LoopbackDestinations,
) -> Result<WebhookDraft, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let name = parse_name(&mut fields);
    let url = fields.required_text("url");
    let url = fields.parse(url, |it| {
        let rename = |error| vec![FieldError { field: "url".into(), ..error }];
        DestinationUrl::parse(&it, loopback).map_err(rename)
    });
    let events = fields.texts("events");
    let is_given = matches!(events, JsonField::Given(_));
    let events = fields.parse(events, |it| EventList::parse(&it)).into_option();
    if !is_given {
        fields.add_required_error("events");
    }
    let notify_email = fields.text("notify_email");
    let notify_email = fields
        .parse(notify_email, |it| NotifyEmail::parse(&it).map_err(|error| vec![error]))
        .into_option();
    let status = fields.text("status");
    let status = fields.parse_choice("status", status, WebhookStatus::parse, STATUS_RULE);
    let required = name.zip(url.into_option()).zip(events);
    fields.finish_with(required).map(|((name, url), events)| WebhookDraft {
        name,
        url,
        events,
        notify_email,
        status,
    })
}

/// Parses the time of the oldest event that a replay repeats.
pub(crate) fn parse_replay(body: Plaintext) -> Result<Timestamp, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let from = fields.required_text("from");
    let from =
        fields.parse(from, |it| Timestamp::parse_date("from", &it).map_err(|error| vec![error]));
    let from = from.into_option();
    fields.finish_with(from)
}

/// Responses with deliveries. They never contain the event or the URL of the webhook.
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

pub(crate) fn render_delivery_page(page: &CursorPage<DeliveryRecord>) -> RenderedResponse {
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

bodies! {
    /// Responses with webhooks.
    struct WebhookBody<'a> {
        id: String,
        tenant_id: String,
        status: &'static str,
        name: &'a str,
        url: &'a str,
        notify_email?: &'a str,
        events: Vec<&'static str>,
        /// Only in the response that creates the webhook.
        secret?: &'a str,
        /// The official clients require it, so a webhook of the operator or of `scrip dev` has it too.
        created_by: String,
        created_at: String,
        modified_by?: String,
        modified_at?: String,
    }

    /// Only what the rotation makes: its caller may have no permission to read webhooks, and a URL can
    /// contain a secret of the receiver.
    struct RotatedSecretBody<'a> {
        id: String,
        secret: &'a str,
        modified_by?: String,
        modified_at?: String,
    }
}

/// The only response of the webhook with its first secret.
pub(crate) fn render_created(details: &WebhookDetails) -> RenderedResponse {
    let secret = Some(details.secrets.current.expose());
    render(201, &WebhookBody { secret, ..webhook_body(details) })
}

pub(crate) fn render_rotated(details: &WebhookDetails) -> RenderedResponse {
    let WebhookBody { id, modified_by, modified_at, .. } = webhook_body(details);
    let secret = details.secrets.current.expose();
    render(200, &RotatedSecretBody { id, secret, modified_by, modified_at })
}

pub(crate) fn render_webhook(details: &WebhookDetails) -> RenderedResponse {
    render(200, &webhook_body(details))
}

pub(crate) fn render_page(page: &CursorPage<WebhookDetails>) -> RenderedResponse {
    render(200, &cursor_page_body(page, webhook_body))
}

pub(crate) fn render_event_types() -> RenderedResponse {
    render(200, &EventType::RAISED.iter().map(|it| it.as_str()).collect::<Vec<_>>())
}

fn webhook_body(details: &WebhookDetails) -> WebhookBody<'_> {
    let WebhookDetails { record, settings, .. } = details;
    WebhookBody {
        id: record.id.to_string(),
        tenant_id: record.tenant.to_string(),
        status: record.status.as_str(),
        name: record.name.as_str(),
        url: settings.url.as_str(),
        notify_email: settings.notify_email.as_ref().map(|it| it.as_str()),
        events: record.events.as_slice().iter().map(|it| it.as_str()).collect(),
        secret: None,
        created_by: record.created.by.unwrap_or(ApplicationId::NONE).to_string(),
        created_at: record.created.at.to_string(),
        modified_by: record.modified.and_then(|it| it.by).map(|it| it.to_string()),
        modified_at: record.modified.map(|it| it.at.to_string()),
    }
}
