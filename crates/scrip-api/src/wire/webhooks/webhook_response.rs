//! Responses with webhooks.

#[cfg(test)]
mod tests;

use scrip_core::{
    idempotency::RenderedResponse,
    listing::CursorPage,
    policy::webhook::WebhookDetails,
    types::{EventType, id::ApplicationId},
};
use serde::Serialize;

use crate::wire::{response::render, tokens::list::cursor_page_body};

#[derive(Serialize)]
struct WebhookBody<'a> {
    id: String,
    tenant_id: String,
    status: &'static str,
    name: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify_email: Option<&'a str>,
    events: Vec<&'static str>,
    /// Only in the response that creates the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// The official clients require it, so a webhook of the operator or of `scrip dev` has it too.
    created_by: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
}

/// Only what the rotation makes: its caller may have no permission to read webhooks, and a URL can
/// contain a secret of the receiver.
#[derive(Serialize)]
struct RotatedSecretBody<'a> {
    id: String,
    secret: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
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
