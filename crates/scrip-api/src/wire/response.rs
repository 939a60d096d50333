//! Builds responses. The data of a token is the last attribute of its object: data can be omitted
//! or inserted into a stored response, at any position of the object, without parsing the rest.

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use scrip_core::{
    idempotency::{
        RenderedResponse, Replay,
        response::{TokenSpan, replay::ReplayVisibility},
    },
    token::{TokenView, VisibleData},
    types::Plaintext,
};
use serde::Serialize;
use serde_json::{Map, Value};

pub fn json(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let content_type = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response without a body has no content type.
pub(crate) fn from_rendered(rendered: RenderedResponse) -> Response {
    if rendered.status != 204 {
        return json(rendered.status, rendered.body);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(crate) fn no_content() -> RenderedResponse {
    RenderedResponse::without_tokens(204, String::new())
}

pub(crate) fn render(status: u16, body: &impl Serialize) -> RenderedResponse {
    RenderedResponse::without_tokens(status, serde_json::to_string(body).unwrap_or_default())
}

pub(crate) fn with_token(rendered: RenderedResponse, token: TokenView) -> Response {
    with_tokens(rendered, vec![token])
}

/// Builds a response, and inserts the visible data of the tokens.
pub(crate) fn with_tokens(rendered: RenderedResponse, tokens: Vec<TokenView>) -> Response {
    let mut visible: Vec<_> = tokens.into_iter().map(|it| it.detail.map(|it| it.visible)).collect();
    let inserts = rendered.tokens.into_iter().map(|span| {
        let data = visible
            .get_mut(span.write_index)
            .and_then(Option::take)
            .and_then(VisibleData::into_data);
        (span, data.map_or(TokenInsert::Nothing, TokenInsert::Data))
    });
    json(rendered.status, insert_token_data(&rendered.body, inserts))
}

/// Builds a replayed response, with the data that its caller may still read.
pub(crate) fn from_replay(replay: Replay) -> Response {
    let inserts = replay.tokens.into_iter().map(|it| {
        let insert = match it.visibility {
            ReplayVisibility::Full(Some(data)) => TokenInsert::Data(data),
            ReplayVisibility::Full(None) => TokenInsert::Nothing,
            ReplayVisibility::Outline => TokenInsert::Outline,
        };
        (it.span, insert)
    });
    let body = insert_token_data(&replay.body, inserts);
    from_rendered(RenderedResponse::without_tokens(replay.status, body))
}

/// How the object of a token in the body changes.
enum TokenInsert {
    Nothing,
    Data(Plaintext),
    /// Only the attributes of [`reduce_to_outline`] remain.
    Outline,
}

/// Inserts the data of tokens into their objects. `inserts` are in the order of the body.
fn insert_token_data(
    body: &str,
    inserts: impl Iterator<Item = (TokenSpan, TokenInsert)>,
) -> String {
    let mut text = String::with_capacity(body.len().saturating_add(256));
    let mut copied_to = 0;
    let text_between = |from: usize, to: usize| body.get(from..to).unwrap_or_default();
    for (span, insert) in inserts {
        let brace = span.end.saturating_sub(1);
        match insert {
            TokenInsert::Nothing => continue,
            TokenInsert::Data(data) => {
                text.push_str(text_between(copied_to, brace));
                text.push_str(",\"data\":");
                // Serializing into memory cannot fail. If it did, the response would be invalid
                // JSON, not false data.
                text.push_str(&serde_json::to_string(data.expose()).unwrap_or_default());
                copied_to = brace;
            }
            TokenInsert::Outline => {
                text.push_str(text_between(copied_to, span.start));
                text.push_str(&reduce_to_outline(text_between(span.start, span.end)));
                copied_to = span.end;
            }
        }
    }
    text.push_str(text_between(copied_to, body.len()));
    text
}

/// Reduces a token to the attributes that identify it.
fn reduce_to_outline(object: &str) -> String {
    const OUTLINE_ATTRIBUTES: [&str; 6] =
        ["id", "tenant_id", "type", "fingerprint", "containers", "_extras"];
    let mut object: Map<String, Value> = serde_json::from_str(object).unwrap_or_default();
    object.retain(|name, _| OUTLINE_ATTRIBUTES.contains(&name.as_str()));
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(value: Value) -> TokenInsert {
        TokenInsert::Data(Plaintext::new(value))
    }

    #[test]
    fn token_data_is_inserted_last_in_each_object() {
        let body = r#"[{"id":"a"},"é",{"b":{"id":"b","metadata":{},"type":"token"}}]"#;
        let span = |token, object: &str| {
            let start = body.find(object).unwrap();
            TokenSpan { write_index: token, start, end: start + object.len() }
        };
        let spans = || {
            let second = r#"{"id":"b","metadata":{},"type":"token"}"#;
            [span(0, r#"{"id":"a"}"#), span(1, second)].into_iter()
        };
        let check = |inserts: [TokenInsert; 2], expected: &str| {
            assert_eq!(insert_token_data(body, spans().zip(inserts)), expected);
        };
        check([TokenInsert::Nothing, TokenInsert::Nothing], body);
        let number = serde_json::json!({"number": "4242"});
        check(
            [data(number), data(1.into())],
            r#"[{"id":"a","data":{"number":"4242"}},"é",{"b":{"id":"b","metadata":{},"type":"token","data":1}}]"#,
        );
        check(
            [data(Value::Null), TokenInsert::Outline],
            r#"[{"id":"a","data":null},"é",{"b":{"id":"b","type":"token"}}]"#,
        );
    }
}
