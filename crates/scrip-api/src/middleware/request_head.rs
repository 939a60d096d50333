//! The ids in the path of a request, its query, its content type and single headers.

use axum::{RequestPartsExt, extract::Path};
use hyper::{
    HeaderMap,
    header::{AsHeaderName, CONTENT_TYPE, HeaderValue},
    http::request::Parts,
};

use crate::{
    problem::Problem,
    route::{BodyKind, Route},
    wire::list_parameters,
};

pub(crate) async fn extract_path_ids(count: usize, head: &mut Parts) -> (String, String) {
    match count {
        0 => (String::new(), String::new()),
        1 => {
            let id = head.extract::<Path<String>>().await;
            (id.map(|Path(id)| id).unwrap_or_default(), String::new())
        }
        _ => {
            head.extract::<Path<(String, String)>>().await.map(|Path(ids)| ids).unwrap_or_default()
        }
    }
}

pub(crate) fn check_content_type(
    expected: Option<&'static str>,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let Some(expected) = expected else { return Ok(()) };
    let given = single_header(headers, CONTENT_TYPE.as_str(), "Content-Type")?;
    let given = given.and_then(|it| it.to_str().ok()).and_then(|it| it.split(';').next());
    if given.is_some_and(|it| it.trim().eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    Err(Problem::UnsupportedMediaType(expected))
}

/// Checks the query of a list and the `Content-Type` of a body.
/// Errors: the list has no such parameter, or the body has another type.
pub(crate) fn check_head(
    route: &Route,
    is_body_omitted: bool,
    head: &Parts,
) -> Result<(), Problem> {
    list_parameters::check(route.operation, head.uri.query())?;
    check_body_type(route.body, is_body_omitted, &head.headers)
}

/// Checks the `Content-Type` of a body. An optional body may have the type of a JSON Patch: the
/// official Python client sends `{}` with this type if it has nothing to say.
///
/// Errors: the body has another type.
fn check_body_type(kind: BodyKind, is_omitted: bool, headers: &HeaderMap) -> Result<(), Problem> {
    let is_optional = kind == BodyKind::OptionalJson;
    if is_optional
        && (is_omitted || check_content_type(Some("application/json-patch+json"), headers).is_ok())
    {
        return Ok(());
    }
    check_content_type(kind.content_type(), headers)
}

/// Rejects a repeated header. Otherwise a proxy in front could use another one of the values than
/// this server.
pub fn single_header<'a>(
    headers: &'a HeaderMap,
    name: impl AsHeaderName,
    display_name: &'static str,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Problem::BadHeader(display_name)),
    }
}
