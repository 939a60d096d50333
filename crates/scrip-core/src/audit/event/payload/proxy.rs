//! The data of events of proxies. Keys, configurations and bodies are never a part.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::{
    card::contains_card_number,
    event::payload::{EventData, PayloadAttributes},
    id::ProxyId,
    proxy::{ProxyRecord, ProxySettings, ProxyTimeout},
};

/// A call of a proxy that got an answer or failed.
#[derive(Debug, Clone, Copy)]
pub struct ProxyInvocation<'a> {
    /// `None` for an ephemeral proxy.
    pub proxy: Option<&'a ProxyRecord>,
    pub method: &'a str,
    /// The URL of the destination. The event has it without its query.
    pub url: &'a str,
    /// The names of the headers that the destination got.
    pub header_names: &'a [&'a str],
    pub answer: Option<DestinationAnswer<'a>>,
    /// The status that the caller got.
    pub status: u16,
    /// From the request of the caller to its response.
    pub elapsed: Duration,
    pub errors: InvocationErrors,
}

/// The answer of a destination.
#[derive(Debug, Clone, Copy)]
pub struct DestinationAnswer<'a> {
    pub status: u16,
    pub elapsed: Duration,
    pub header_names: &'a [&'a str],
}

/// The reasons why a call failed. They are texts of the vault, not of a library or a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct InvocationErrors {
    pub call: Option<&'static str>,
    pub request_transform: Option<&'static str>,
    pub response_transform: Option<&'static str>,
}

/// `proxy.created`.
#[must_use]
pub fn describe_created_proxy(record: &ProxyRecord, settings: &ProxySettings) -> EventData {
    let proxy = describe_proxy(record, settings)
        .optional_text("application_id", record.application)
        .created(record.created);
    EventData::new("proxy", proxy)
}

/// `proxy.updated`.
#[must_use]
pub fn describe_updated_proxy(record: &ProxyRecord, settings: &ProxySettings) -> EventData {
    let mut proxy = describe_proxy(record, settings)
        .optional_text("proxy_host", record.host.as_ref().map(|it| it.as_str()))
        .created(record.created)
        .modified(record.modified);
    if let Some(timeout) = settings.timeout.map(ProxyTimeout::seconds) {
        proxy = proxy.number("timeout", timeout);
    }
    EventData::new("proxy", proxy)
}

/// `proxy.deleted`.
#[must_use]
pub fn describe_deleted_proxy(id: ProxyId) -> EventData {
    EventData::new("proxy", PayloadAttributes::with_id(id))
}

/// `proxy.invoked`. Bodies, values of headers and queries can contain data of tokens, so the event
/// has none of them.
#[must_use]
pub fn describe_invocation(invocation: &ProxyInvocation<'_>) -> EventData {
    let ProxyInvocation { proxy, errors, .. } = invocation;
    let response = PayloadAttributes::default()
        .optional_text("error", errors.call)
        .number("status", invocation.status.into())
        .elapsed(invocation.elapsed);
    let kind = if proxy.is_some() { "pre_configured" } else { "ephemeral" };
    let proxy = PayloadAttributes::default()
        .optional_text("id", proxy.map(|it| it.id))
        .optional_text("name", proxy.map(|it| it.name.as_str()))
        .text("type", kind)
        .object("response", response);
    let request = PayloadAttributes::default()
        .text("method", invocation.method)
        .text("url", strip_url(invocation.url))
        .value("headers", render_header_names(invocation.header_names));
    let mut destination = PayloadAttributes::default().object("request", request);
    if let Some(answer) = &invocation.answer {
        let response = PayloadAttributes::default()
            .number("status", answer.status.into())
            .elapsed(answer.elapsed)
            .value("headers", render_header_names(answer.header_names));
        destination = destination.object("response", response);
    }
    let mut data = EventData::new("proxy", proxy).with("destination", destination);
    let transforms = [
        ("request_transform", errors.request_transform),
        ("response_transform", errors.response_transform),
    ];
    for (name, error) in transforms {
        if let Some(error) = error {
            let response = PayloadAttributes::default().text("error", error);
            data = data.with(name, PayloadAttributes::default().object("response", response));
        }
    }
    data
}

fn describe_proxy(record: &ProxyRecord, settings: &ProxySettings) -> PayloadAttributes {
    PayloadAttributes::with_id(record.id)
        .text("name", record.name.as_str())
        // Some providers expect their API key in the query.
        .text("destination_url", strip_url(settings.destination.as_str()))
        .value("require_authentication", record.require_auth)
}

/// The URL without its query. A path that may contain a card number is left out too, and a host.
fn strip_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    if !contains_card_number(url) {
        return url.to_owned();
    }
    let authority_start = url.find("://").map_or(0, |it| it.saturating_add(3));
    let authority = url.get(authority_start..).unwrap_or_default();
    let authority_end = authority.find('/').unwrap_or(authority.len());
    let origin_end = authority_start.saturating_add(authority_end);
    let origin = url.get(..origin_end).unwrap_or_default();
    if contains_card_number(origin) { "(host omitted)".to_owned() } else { origin.to_owned() }
}

/// Names without values, in the form of an object, as receivers expect it.
fn render_header_names(names: &[&str]) -> Value {
    let entries = names.iter().map(|it| (it.to_ascii_lowercase(), Value::Array(Vec::new())));
    Value::Object(entries.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_in_an_event_has_no_query_and_no_card_number() {
        let cases = [
            ("https://api.example.com/v1?key=a", "https://api.example.com/v1"),
            ("https://api.example.com?key=a", "https://api.example.com"),
            ("https://api.example.com/v1#a?b", "https://api.example.com/v1"),
            ("https://api.example.com/4242424242424242/v1", "https://api.example.com"),
            ("https://api.example.com/4242-4242-4242-4242", "https://api.example.com"),
            ("https://4242424242424242.example.com/v1", "(host omitted)"),
            ("", ""),
        ];
        for (url, expected) in cases {
            assert_eq!(strip_url(url), expected, "{url}");
        }
    }
}
