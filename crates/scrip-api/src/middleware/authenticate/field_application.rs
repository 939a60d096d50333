//! Checks the key of a request with values of hosted fields.
//!
//! A page chooses the key of a call, and the frame adds what the payer typed. With a key of another
//! application, the owner of that application could read the value. So the frame names its public
//! application in a header, which scripts of the page cannot change, and the vault accepts only keys
//! that belong to it.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use scrip_core::{
    Error,
    policy::{ApiKeyLookup, Caller, FieldKinds},
    types::{ApplicationKind, error::Denial, id::ApplicationId},
};

use crate::{
    app::App,
    middleware::request_head::single_header,
    problem::{Problem, not_ready::not_ready},
};

// Parsed once: every request looks for these headers.
const HEADER: HeaderName = HeaderName::from_static("scrip-field-application");
const KINDS_HEADER: HeaderName = HeaderName::from_static("scrip-field-kinds");

/// Whether the request has values of hosted fields.
pub(crate) fn has_field_values(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// The kinds of the values of hosted fields. Values without named kinds are texts.
pub(crate) fn field_kinds(headers: &HeaderMap) -> Result<FieldKinds, Problem> {
    let list = single_header(headers, KINDS_HEADER, "Scrip-Field-Kinds")?;
    Ok(match list.map(HeaderValue::to_str) {
        Some(Ok(list)) => FieldKinds::parse(list),
        None if !has_field_values(headers) => FieldKinds::default(),
        Some(Err(_)) | None => FieldKinds::UNNAMED,
    })
}

/// Checks that a request with values of hosted fields has a key of the frame's public application,
/// or of an access session that this application created. Other requests have no such rule.
///
/// Errors: the request has another key or no key, or the header names no public application.
pub(crate) fn check_key(
    app: &App,
    headers: &HeaderMap,
    caller: Option<&Caller>,
) -> Result<(), Problem> {
    let Some(value) = single_header(headers, HEADER, "Scrip-Field-Application")? else {
        return Ok(());
    };
    let key = value.to_str().map_err(|_| Problem::BadHeader("Scrip-Field-Application"))?;
    let application = find_public_application(app, key)?;
    // An access session has the application that created it.
    let is_same = caller.is_some_and(|it| Some(it.application()) == application);
    if is_same { Ok(()) } else { Err(Error::Forbidden(Denial::ForeignFieldKey).into()) }
}

fn find_public_application(app: &App, key: &str) -> Result<Option<ApplicationId>, Problem> {
    let directory = app.directory.load();
    let directory = directory.as_ref().ok_or_else(|| not_ready(app))?;
    match directory.authenticate(key) {
        Some(ApiKeyLookup::Found { principal, .. })
            if principal.kind() == ApplicationKind::Public =>
        {
            Ok(Some(principal.application()))
        }
        Some(ApiKeyLookup::Found { .. } | ApiKeyLookup::PolicyAltered) | None => Ok(None),
    }
}
