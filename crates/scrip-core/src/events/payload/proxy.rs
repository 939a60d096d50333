//! The data of events of proxies. Keys, configurations and bodies are never a part.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::{
    card::contains_card_number,
    events::{EventData, payload::PayloadAttributes},
    policy::{
        DisplayName,
        proxy::{ProxyRecord, ProxySettings, ProxyTimeout},
    },
    types::id::ProxyId,
};

/// A call of a proxy that was sent, or that the vault tried to send.
#[derive(Debug, Clone)]
pub struct ProxyInvocation {
    /// `None` for an ephemeral proxy.
    pub proxy: Option<InvokedProxy>,
    pub method: &'static str,
    /// The URL of the destination. The event has it without its query.
    pub url: String,
    /// The names of the headers that the destination got.
    pub header_names: Vec<String>,
    pub answer: Option<DestinationAnswer>,
    /// The status that the caller got. `None` if it disconnected before its response.
    pub status: Option<u16>,
    /// From the start of the call to its outcome.
    pub elapsed: Duration,
    pub errors: InvocationErrors,
}

/// The proxy of a call.
#[derive(Debug, Clone)]
pub struct InvokedProxy {
    pub id: ProxyId,
    pub name: DisplayName,
}

/// The answer of a destination.
#[derive(Debug, Clone)]
pub struct DestinationAnswer {
    pub status: u16,
    pub elapsed: Duration,
    pub header_names: Vec<String>,
}

/// The reasons why a call failed. They are texts of the vault, not of a library or a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct InvocationErrors {
    pub call: Option<&'static str>,
    pub response_transform: Option<&'static str>,
}

/// `proxy.created`.
pub(crate) fn describe_created_proxy(record: &ProxyRecord, settings: &ProxySettings) -> EventData {
    let proxy = describe_proxy(record, settings)
        .optional_text("application_id", record.application)
        .created(record.created);
    EventData::new("proxy", proxy)
}

/// `proxy.updated`.
pub(crate) fn describe_updated_proxy(record: &ProxyRecord, settings: &ProxySettings) -> EventData {
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
pub(crate) fn describe_deleted_proxy(id: ProxyId) -> EventData {
    EventData::new("proxy", PayloadAttributes::with_id(id))
}

/// `proxy.invoked`. Bodies, values of headers and queries can contain data of tokens, so the event
/// has none of them.
pub(crate) fn describe_invocation(invocation: &ProxyInvocation) -> EventData {
    let ProxyInvocation { proxy, errors, .. } = invocation;
    let mut response = PayloadAttributes::default()
        .optional_text("error", errors.call)
        .elapsed(invocation.elapsed);
    if let Some(status) = invocation.status {
        response = response.number("status", status.into());
    }
    let kind = if proxy.is_some() { "pre_configured" } else { "ephemeral" };
    let proxy = PayloadAttributes::default()
        .optional_text("id", proxy.as_ref().map(|it| it.id))
        .optional_text("name", proxy.as_ref().map(|it| it.name.as_str()))
        .text("type", kind)
        .object("response", response);
    let request = PayloadAttributes::default()
        .text("method", invocation.method)
        .text("url", strip_url(&invocation.url))
        .value("headers", render_header_names(&invocation.header_names));
    let mut destination = PayloadAttributes::default().object("request", request);
    if let Some(answer) = &invocation.answer {
        let response = PayloadAttributes::default()
            .number("status", answer.status.into())
            .elapsed(answer.elapsed)
            .value("headers", render_header_names(&answer.header_names));
        destination = destination.object("response", response);
    }
    let data = EventData::new("proxy", proxy).with("destination", destination);
    match errors.response_transform {
        None => data,
        Some(error) => {
            let response = PayloadAttributes::default().text("error", error);
            let transform = PayloadAttributes::default().object("response", response);
            data.with("response_transform", transform)
        }
    }
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

/// Names without values, in the form of an object, as receivers expect it. A client and a
/// destination choose names too, so a name that may contain a card number is left out.
fn render_header_names(names: &[String]) -> Value {
    let names = names.iter().filter(|it| !contains_card_number(it));
    let entries = names.map(|it| (it.to_ascii_lowercase(), Value::Array(Vec::new())));
    Value::Object(entries.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_in_an_event_have_no_card_number() {
        let names = ["X-Charge", "x-4242424242424242"].map(str::to_owned);
        assert_eq!(render_header_names(&names), serde_json::json!({"x-charge": []}));
    }

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
