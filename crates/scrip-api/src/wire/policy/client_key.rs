//! JSON of client encryption keys.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    idempotency::RenderedResponse,
    operations::client_keys::create_client_key::CreatedClientKey,
    policy::ClientKeyRecord,
    types::{Plaintext, id::ClientKeyId},
};
use serde::Serialize;

use crate::wire::{ParseError, json::JsonFields, response::render};

/// The requested expiry.
pub(crate) fn parse_new(body: Plaintext) -> Result<Option<Timestamp>, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let text = fields.text("expires_at");
    let expires_at =
        fields.parse(text, |it| Timestamp::parse_expiry(&it).map_err(|error| vec![error]));
    fields.finish().map(|()| expires_at.into_option())
}

#[derive(Serialize)]
struct ClientKeyBody<'a> {
    key_id: String,
    /// Only in the response that creates the key, and in the one to Get Client Public Key.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key_pem: Option<&'a str>,
    expires_at: String,
}

impl ClientKeyBody<'_> {
    fn new(id: ClientKeyId, expires_at: Timestamp) -> Self {
        let (key_id, expires_at) = (id.to_string(), expires_at.to_string());
        Self { key_id, public_key_pem: None, expires_at }
    }
}

pub(crate) fn render_created(created: &CreatedClientKey) -> RenderedResponse {
    let body = ClientKeyBody::new(created.id, created.expires_at);
    render(201, &ClientKeyBody { public_key_pem: Some(&created.public_key_pem), ..body })
}

pub(crate) fn render_client_key(record: &ClientKeyRecord) -> RenderedResponse {
    render(200, &ClientKeyBody::new(record.id, record.expires_at))
}

pub(crate) fn render_public_key(
    record: &ClientKeyRecord,
    public_key_pem: &str,
) -> RenderedResponse {
    let body = ClientKeyBody::new(record.id, record.expires_at);
    render(200, &ClientKeyBody { public_key_pem: Some(public_key_pem), ..body })
}

pub(crate) fn render_list(records: &[Arc<ClientKeyRecord>]) -> RenderedResponse {
    let bodies = records.iter().map(|it| ClientKeyBody::new(it.id, it.expires_at));
    render(200, &bodies.collect::<Vec<_>>())
}
