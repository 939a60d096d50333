//! JSON of the client certificate of a proxy. A response never contains the private key.

use scrip_core::{
    Error,
    idempotency::RenderedResponse,
    policy::proxy::{CertificateSummary, ClientCertificate, ProxyDetails},
    types::Plaintext,
};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::wire::{ParseError, fields::JsonFields, response::render};

/// The charged work to parse a certificate chain and its key.
pub(crate) fn count_parse_work(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(16)
}

pub(crate) fn parse(body: Plaintext) -> Result<ClientCertificate, ParseError> {
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
