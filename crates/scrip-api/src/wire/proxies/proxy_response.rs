//! Responses with proxies.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scrip_core::{
    Error,
    idempotency::RenderedResponse,
    listing::Page,
    policy::proxy::{
        CertificateSummary, ClientCertificate, ProxyDetails, ProxyTimeout, TransformList,
        TransformSource, transform::TransformOptions,
    },
    types::Plaintext,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::wire::{ParseError, json::JsonFields, query::page_body, response::render};

/// Other states exist only for code that is deployed asynchronously.
const STATE: &str = "active";

bodies! {
    struct ProxyBody<'a> {
        id: String,
        /// The key allows calls of a proxy without `require_auth`, so an update returns it only to
        /// callers that may read proxies.
        key?: &'a str,
        tenant_id: String,
        name: &'a str,
        destination_url: &'a str,
        state: &'static str,
        #[serde(flatten)]
        transforms: TransformBodies<'a>,
        application_id?: String,
        configuration?: BTreeMap<&'a str, &'a str>,
        require_auth: bool,
        disable_detokenization: bool,
        proxy_host?: &'a str,
        timeout?: u64,
        ca_pem?: &'a str,
        tls_min: &'static str,
        /// The SHA-256 digest of the certificate: the official clients expect a text.
        client_certificate?: String,
        created_by?: String,
        created_at: String,
        modified_by?: String,
        modified_at?: String,
    }

    struct TransformBodies<'a> {
        request_transform?: TransformBody<'a>,
        request_transforms?: Vec<TransformBody<'a>>,
        response_transform?: TransformBody<'a>,
        response_transforms?: Vec<TransformBody<'a>>,
    }

    struct TransformBody<'a> {
        r#type: &'static str,
        code?: &'a str,
        matcher?: &'static str,
        expression?: &'a str,
        replacement?: &'a str,
        options?: &'a TransformOptions,
    }
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

/// The charged work to parse a certificate chain and its key.
pub(crate) fn count_certificate_work(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(16)
}

pub(crate) fn parse_certificate(body: Plaintext) -> Result<ClientCertificate, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let certificate = fields.required_text("certificate_pem").into_option();
    let private_key = fields.required_text("private_key_pem").into_option().map(Zeroizing::new);
    let (certificate, private_key) = fields.finish_with(certificate.zip(private_key))?;
    Ok(ClientCertificate::parse(&certificate, private_key).map_err(Error::from)?)
}

#[derive(Serialize)]
pub(super) struct CertificateBody<'a> {
    pub(super) subject: &'a str,
    pub(super) issuer: &'a str,
    pub(super) sha256: &'a str,
    pub(super) not_after: String,
}

pub(crate) fn render_certificate(details: &ProxyDetails) -> RenderedResponse {
    let summary =
        details.settings.certificate_pem.as_deref().and_then(CertificateSummary::from_pem);
    let body = summary.as_ref().map(|it| CertificateBody {
        subject: &it.subject,
        issuer: &it.issuer,
        sha256: &it.sha256,
        not_after: it.not_after.to_string(),
    });
    render(200, &body)
}
