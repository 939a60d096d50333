//! Answers. A token's data comes last in its object, so that it can be left out, or put back into
//! a remembered answer, without reading the rest.

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use scrip_core::{
    answer::Rendered,
    cvc::Cvc,
    plain::Plain,
    token::{Shown, TokenView},
};
use serde::Serialize;

pub(crate) fn json(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let form = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, form);
    response
}

/// What has no body says only that it was done.
pub(crate) fn rendered(rendered: Rendered) -> Response {
    if rendered.status != 204 {
        return json(rendered.status, rendered.body);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(crate) fn done() -> Rendered {
    Rendered { status: 204, body: String::new() }
}

pub(crate) fn render(status: u16, body: &impl Serialize) -> Rendered {
    Rendered { status, body: serde_json::to_string(body).unwrap_or_default() }
}

/// What a view shows of its token's data.
pub(crate) fn shown(token: TokenView) -> (Option<Plain>, Option<Cvc>) {
    match token.detail.map(|it| it.shown) {
        Some(Shown { data, cvc, .. }) => (data, cvc),
        None => (None, None),
    }
}

pub(crate) fn token(rendered: Rendered, token: TokenView) -> Response {
    let (data, cvc) = shown(token);
    json(rendered.status, with_data(rendered.body, data, cvc))
}

/// Puts the data into a rendered object.
pub(crate) fn with_data(mut body: String, data: Option<Plain>, cvc: Option<Cvc>) -> String {
    let Some(mut data) = data else { return body };
    if let (Some(cvc), Some(object)) = (cvc, data.expose_mut().as_object_mut()) {
        object.insert("cvc".to_owned(), cvc.expose().into());
    }
    let closing = body.pop();
    body.push_str(",\"data\":");
    // Writing a value into memory cannot fail; were it to, the answer would be broken, not wrong.
    body.push_str(&serde_json::to_string(data.expose()).unwrap_or_default());
    body.extend(closing);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_comes_last() {
        let body = || r#"{"id":"a"}"#.to_owned();
        assert_eq!(with_data(body(), None, None), body());
        let data = Plain::new(serde_json::json!({"number": "4242"}));
        let cvc = Some(Cvc::new("123".to_owned()));
        let expected = r#"{"id":"a","data":{"cvc":"123","number":"4242"}}"#;
        assert_eq!(with_data(body(), Some(data), cvc), expected);
    }
}
