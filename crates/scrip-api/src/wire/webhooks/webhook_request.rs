//! Requests that create, replace or list webhooks, and requests about their deliveries.

use scrip_core::{
    FieldError, Timestamp,
    policy::{
        destination::{DestinationUrl, LoopbackDestinations},
        webhook::{EventList, NotifyEmail, WebhookDraft, WebhookStatus},
    },
    types::Plaintext,
};

use crate::wire::{
    ParseError,
    fields::{JsonField, JsonFields},
    policy::application::parse_name,
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
