//! From a header to a caller.

use std::sync::Arc;

use hyper::{HeaderMap, header::HeaderValue};
use scrip_core::{
    id::ApiKeyId,
    operations::access_sessions::resume_access_session::resume_access_session,
    policy::{ApiKeyText, Caller, Known, Origin, Principal, rate_limit::Mark},
};

use crate::{app::App, metrics::Unauthenticated, middleware::long_evaluation, problem::Problem};

const HEADER: &str = "bt-api-key";

/// A caller, and what its key tells beyond who it is.
pub(crate) struct Authenticated {
    pub(crate) caller: Caller,
    pub(crate) api_key: Mark,
    pub(crate) is_legacy: bool,
}

pub(crate) async fn authenticate(
    app: &App,
    headers: &HeaderMap,
    origin: Origin,
) -> Result<Authenticated, Problem> {
    let found = find(app, headers, origin).await;
    if let Err(problem) = &found {
        count(app, headers, problem);
    }
    found
}

async fn find(app: &App, headers: &HeaderMap, origin: Origin) -> Result<Authenticated, Problem> {
    let key = single(headers, HEADER, "BT-API-KEY")?.ok_or(Problem::Unauthorized)?;
    let key = key.to_str().map_err(|_| Problem::Unauthorized)?;
    let (digest, known) = known(app, key)?;
    let (principal, api_key_id) = match known {
        Some((principal, api_key)) => (principal, Some(api_key)),
        None if ApiKeyText::is_of_session(key) => {
            let directory = app.directory.load_full().ok_or(Problem::Sealed)?;
            let resumed = resume_access_session(&app.vault, &directory, key).await?;
            (Arc::new(resumed.ok_or(Problem::Unauthorized)?), None)
        }
        None => return Err(Problem::Unauthorized),
    };
    let (api_key, is_legacy) = (Mark::of(&digest), ApiKeyText::is_legacy(key));
    let caller = Caller::new(principal, origin)
        .with_api_key(api_key_id)
        .with_long_evaluations(long_evaluation::run);
    Ok(Authenticated { caller, api_key, is_legacy })
}

/// Why there is no caller, where that is the request's fault or its tenant's.
fn count(app: &App, headers: &HeaderMap, problem: &Problem) {
    let why = match problem {
        Problem::Unauthorized if headers.contains_key(HEADER) => Unauthenticated::Unknown,
        Problem::Unauthorized => Unauthenticated::Missing,
        Problem::BadHeader(_) => Unauthenticated::Malformed,
        Problem::Refused => Unauthenticated::Refused,
        Problem::NoRoute
        | Problem::MethodNotAllowed
        | Problem::NoBearer
        | Problem::UnsupportedMediaType(_)
        | Problem::Gone(_)
        | Problem::TooLarge
        | Problem::LengthRequired
        | Problem::Misdirected
        | Problem::NotReady
        | Problem::NoBodyMemory
        | Problem::NoAnswerMemory
        | Problem::BodyTimeout
        | Problem::Malformed(_)
        | Problem::Sealed
        | Problem::Uncounted
        | Problem::Failed(_) => return,
    };
    app.metrics.unauthenticated.one(why);
}

/// A key's digest, and the application and id of the key that has it.
type KnownKey = ([u8; 32], Option<(Arc<Principal>, ApiKeyId)>);

/// An application's key, found in memory by its digest.
fn known(app: &App, key: &str) -> Result<KnownKey, Problem> {
    // Asked when the head arrived too; but a body may have taken its time since.
    if app.is_sealed() {
        return Err(Problem::Sealed);
    }
    let directory = app.directory.load();
    let directory = directory.as_ref().ok_or(Problem::Sealed)?;
    let digest = directory.digest(key);
    match directory.find(&digest) {
        Some(Known::Principal { principal, api_key }) => {
            Ok((digest, Some((Arc::clone(principal), *api_key))))
        }
        Some(Known::Refused) => Err(Problem::Refused),
        None => Ok((digest, None)),
    }
}

/// A header that decides something must not be two: which of them counts is a guess, and a proxy
/// in front may guess otherwise.
pub fn single<'a>(
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
