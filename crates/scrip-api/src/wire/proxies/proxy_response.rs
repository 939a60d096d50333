//! Responses with proxies.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scrip_core::{
    idempotency::RenderedResponse,
    listing::Page,
    policy::proxy::{
        CertificateSummary, ProxyDetails, ProxyTimeout, TransformList, TransformSource,
        transform::TransformOptions,
    },
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::wire::{query::page_body, response::render};

/// Other states exist only for code that is deployed asynchronously.
const STATE: &str = "active";

#[derive(Serialize)]
struct ProxyBody<'a> {
    id: String,
    /// The key allows calls of a proxy without `require_auth`, so an update returns it only to
    /// callers that may read proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    tenant_id: String,
    name: &'a str,
    destination_url: &'a str,
    state: &'static str,
    #[serde(flatten)]
    transforms: TransformBodies<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    application_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<BTreeMap<&'a str, &'a str>>,
    require_auth: bool,
    disable_detokenization: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_pem: Option<&'a str>,
    tls_min: &'static str,
    /// The SHA-256 digest of the certificate: the official clients expect a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
}

#[derive(Serialize)]
struct TransformBodies<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_transform: Option<TransformBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_transforms: Option<Vec<TransformBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_transform: Option<TransformBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_transforms: Option<Vec<TransformBody<'a>>>,
}

#[derive(Serialize)]
struct TransformBody<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matcher: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expression: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a TransformOptions>,
}

pub(crate) fn render_created(details: &ProxyDetails) -> RenderedResponse {
    render(201, &proxy_body(details))
}

pub(crate) fn render_proxy(details: &ProxyDetails) -> RenderedResponse {
    render(200, &proxy_body(details))
}

/// An updated proxy without its key.
pub(crate) fn render_without_key(details: &ProxyDetails) -> RenderedResponse {
    render(200, &ProxyBody { key: None, ..proxy_body(details) })
}

pub(crate) fn render_list(page: &Page<ProxyDetails>) -> RenderedResponse {
    render(200, &page_body(page, proxy_body))
}

fn proxy_body(details: &ProxyDetails) -> ProxyBody<'_> {
    let ProxyDetails { record, settings, secrets } = details;
    let certificate = settings.certificate_pem.as_deref().and_then(CertificateSummary::from_pem);
    ProxyBody {
        id: record.id.to_string(),
        key: Some(secrets.key.expose()),
        tenant_id: record.tenant.to_string(),
        name: record.name.as_str(),
        destination_url: settings.destination.as_str(),
        state: STATE,
        transforms: transform_bodies(details),
        application_id: record.application.map(|it| it.to_string()),
        configuration: secrets.configuration.as_ref().map(|it| it.iter().collect()),
        require_auth: record.require_auth,
        disable_detokenization: record.disable_detokenization,
        proxy_host: record.host.as_ref().map(|it| it.as_str()),
        timeout: settings.timeout.map(ProxyTimeout::seconds),
        ca_pem: settings.authorities.as_ref().map(|it| it.as_pem()),
        tls_min: settings.tls_min.as_str(),
        client_certificate: certificate.map(|it| it.sha256),
        created_by: record.created.by.map(|it| it.to_string()),
        created_at: record.created.at.to_string(),
        modified_by: record.modified.and_then(|it| it.by).map(|it| it.to_string()),
        modified_at: record.modified.map(|it| it.at.to_string()),
    }
}

fn transform_bodies(details: &ProxyDetails) -> TransformBodies<'_> {
    let settings = &details.settings;
    TransformBodies {
        request_transform: settings.request_transforms.single().map(transform_body),
        request_transforms: array_body(&settings.request_transforms),
        response_transform: settings.response_transforms.single().map(transform_body),
        response_transforms: array_body(&settings.response_transforms),
    }
}

fn array_body(list: &TransformList) -> Option<Vec<TransformBody<'_>>> {
    list.array().map(|it| it.iter().map(transform_body).collect())
}

fn transform_body(source: &TransformSource) -> TransformBody<'_> {
    TransformBody {
        r#type: source.transform_type().as_str(),
        code: source.code.as_deref(),
        matcher: source.matcher.map(|it| it.as_str()),
        expression: source.expression.as_deref(),
        replacement: source.replacement.as_deref(),
        options: source.options.as_ref(),
    }
}

/// The attributes that a patch can change, as in a request.
pub(super) fn writable_attributes(details: &ProxyDetails) -> Map<String, Value> {
    let body = proxy_body(details);
    let attributes = json!({
        "name": body.name,
        "destination_url": body.destination_url,
        "application": body.application_id.map(|id| json!({"id": id})),
        "configuration": body.configuration,
        "require_auth": body.require_auth,
        "disable_detokenization": body.disable_detokenization,
        "timeout": body.timeout,
        "ca_pem": body.ca_pem,
        "tls_min": body.tls_min,
        "request_transform": body.transforms.request_transform,
        "request_transforms": body.transforms.request_transforms,
        "response_transform": body.transforms.response_transform,
        "response_transforms": body.transforms.response_transforms,
    });
    if let Value::Object(attributes) = attributes { attributes } else { Map::new() }
}
