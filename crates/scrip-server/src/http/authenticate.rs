//! From a header to a caller.

use std::sync::Arc;

use hyper::{HeaderMap, header::HeaderValue};
use scrip_core::{
    application::ApiKeyText,
    caller::{Caller, Origin},
    directory::Known,
    error::Error,
    operations::resume_access_session::resume_access_session,
};

use crate::{app::App, http::problem::Problem};

const HEADER: &str = "bt-api-key";

pub(crate) async fn authenticate(
    app: &App,
    headers: &HeaderMap,
    origin: Origin,
) -> Result<Caller, Problem> {
    let key = single(headers, HEADER, "BT-API-KEY")?.ok_or(Problem::Unauthorized)?;
    let key = key.to_str().map_err(|_| Problem::Unauthorized)?;
    let principal = match app.directory.load().authenticate(key) {
        Some(Known::Principal(principal)) => Some(Arc::clone(principal)),
        Some(Known::Refused) => {
            return Err(Error::Unavailable("the policy of its tenant was altered".into()).into());
        }
        None => None,
    };
    let principal = match principal {
        None if ApiKeyText::is_of_session(key) => {
            let directory = app.directory.load_full();
            resume_access_session(&app.vault, &directory, key).await?.map(Arc::new)
        }
        known => known,
    };
    Ok(Caller::new(principal.ok_or(Problem::Unauthorized)?, origin))
}

/// A header that decides something must not be two: which of them counts is a guess, and a proxy
/// in front may guess otherwise.
pub(crate) fn single<'a>(
    headers: &'a HeaderMap,
    name: &str,
    shown: &'static str,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Problem::BadHeader(shown)),
    }
}
