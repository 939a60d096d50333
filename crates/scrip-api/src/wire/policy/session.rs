//! Access sessions on the wire.

#[cfg(test)]
mod tests;

use scrip_core::{
    idempotency::Rendered,
    operations::access_sessions::{
        authorize_access_session::Authorization, create_access_session::CreatedAccessSession,
    },
    time::Timestamp,
    token::Plain,
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    answer::{self, render},
    fields::Fields,
    policy::access::{self, Holder},
};

pub(crate) fn parse_authorization(body: Plain) -> Result<Authorization, ParseError> {
    let mut fields = Fields::of(body)?;
    let nonce = fields.required_text("nonce");
    let access = access::parse(&mut fields, Holder::Session);
    let expires_at = fields.text("expires_at");
    let expires_at = fields
        .parse(expires_at, |it| Timestamp::parse_expiry(&it).map_err(|error| vec![error]))
        .given();
    fields.finish_with(nonce.given()).map(|nonce| Authorization { nonce, access, expires_at })
}

#[derive(Serialize)]
struct SessionBody<'a> {
    session_key: &'a str,
    nonce: &'a str,
    expires_at: String,
}

/// The answer to Create Session: the only one with its key.
pub(crate) fn created(session: &CreatedAccessSession) -> Rendered {
    let body = SessionBody {
        session_key: session.key.expose(),
        nonce: &session.nonce,
        expires_at: session.expires_at.to_string(),
    };
    render(201, &body)
}

pub(crate) fn authorized((): &()) -> Rendered {
    answer::done()
}
