//! JSON of access sessions.

#[cfg(test)]
mod tests;

use scrip_core::{
    Timestamp,
    idempotency::RenderedResponse,
    operations::access_sessions::{
        authorize_access_session::AccessSessionAuthorization,
        create_access_session::CreatedAccessSession,
    },
    types::Plaintext,
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    json::JsonFields,
    policy::access::{self, RuleHolder},
    response::{self, render},
};

pub(crate) fn parse_authorization(
    body: Plaintext,
) -> Result<AccessSessionAuthorization, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let nonce = fields.required_text("nonce");
    let access = access::parse(&mut fields, RuleHolder::Session);
    let expires_at = fields.text("expires_at");
    let expires_at = fields
        .parse(expires_at, |it| Timestamp::parse_expiry(&it).map_err(|error| vec![error]))
        .into_option();
    fields.finish_with(nonce.into_option()).map(|nonce| AccessSessionAuthorization {
        nonce,
        access,
        expires_at,
    })
}

#[derive(Serialize)]
struct AccessSessionBody<'a> {
    session_key: &'a str,
    nonce: &'a str,
    expires_at: String,
}

/// The response of Create Session: the only one that contains the key.
pub(crate) fn render_created(session: &CreatedAccessSession) -> RenderedResponse {
    let body = AccessSessionBody {
        session_key: session.key.expose(),
        nonce: &session.nonce,
        expires_at: session.expires_at.to_string(),
    };
    render(201, &body)
}

pub(crate) fn render_authorized((): &()) -> RenderedResponse {
    response::no_content()
}
