//! From a header to a caller.

use hyper::{HeaderMap, header::HeaderValue};
use scrip_core::caller::{Caller, Origin};

use crate::{app::App, http::problem::Problem};

const HEADER: &str = "bt-api-key";

pub(crate) fn authenticate(
    app: &App,
    headers: &HeaderMap,
    origin: Origin,
) -> Result<Caller, Problem> {
    let key = single(headers, HEADER, "BT-API-KEY")?.ok_or(Problem::Unauthorized)?;
    let key = key.to_str().map_err(|_| Problem::Unauthorized)?;
    let directory = app.directory.load();
    let directory = directory.as_ref().ok_or(Problem::Sealed)?;
    let principal = directory.authenticate(key).ok_or(Problem::Unauthorized)?;
    Ok(Caller::new(principal, origin))
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
