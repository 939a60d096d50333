//! Answers. A token's data comes last in its object, so that it can be left out, or put back into
//! a remembered answer, without reading the rest; wherever in the answer the object stands.

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use scrip_core::{
    idempotency::{
        Rendered, Replay,
        answer::{Sight, Span},
    },
    token::{Plain, Shown, TokenView},
};
use serde::Serialize;
use serde_json::{Map, Value};

pub fn json(status: u16, body: impl Into<Body>) -> Response {
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
    Rendered::plain(204, String::new())
}

pub(crate) fn render(status: u16, body: &impl Serialize) -> Rendered {
    Rendered::plain(status, serde_json::to_string(body).unwrap_or_default())
}

pub(crate) fn token(rendered: Rendered, token: TokenView) -> Response {
    tokens(rendered, vec![token])
}

/// An answer that shows these tokens where it says so.
pub(crate) fn tokens(rendered: Rendered, tokens: Vec<TokenView>) -> Response {
    let mut shown: Vec<_> = tokens.into_iter().map(|it| it.detail.map(|it| it.shown)).collect();
    let inserts = rendered.tokens.into_iter().map(|span| {
        let data = shown.get_mut(span.token).and_then(Option::take).and_then(Shown::into_data);
        (span, data.map_or(Insert::Nothing, Insert::Data))
    });
    json(rendered.status, spliced(&rendered.body, inserts))
}

/// A remembered answer, with what its caller may still see.
pub(crate) fn replayed(replay: Replay) -> Response {
    let inserts = replay.tokens.into_iter().map(|it| {
        let insert = match it.sight {
            Sight::Whole(Some(data)) => Insert::Data(data),
            Sight::Whole(None) => Insert::Nothing,
            Sight::Outline => Insert::Outline,
        };
        (it.span, insert)
    });
    let body = spliced(&replay.body, inserts);
    rendered(Rendered::plain(replay.status, body))
}

/// What becomes of a token's object in a body.
enum Insert {
    Nothing,
    Data(Plain),
    /// Only what says that it is there stays.
    Outline,
}

/// Puts the data of tokens into their objects. These come in the order of the body.
fn spliced(body: &str, inserts: impl Iterator<Item = (Span, Insert)>) -> String {
    let mut text = String::with_capacity(body.len().saturating_add(256));
    let mut copied = 0;
    let part = |from: usize, to: usize| body.get(from..to).unwrap_or_default();
    for (span, insert) in inserts {
        let brace = span.end.saturating_sub(1);
        match insert {
            Insert::Nothing => continue,
            Insert::Data(data) => {
                text.push_str(part(copied, brace));
                text.push_str(",\"data\":");
                // Writing a value into memory cannot fail; were it to, the answer would be
                // broken, not wrong.
                text.push_str(&serde_json::to_string(data.expose()).unwrap_or_default());
                copied = brace;
            }
            Insert::Outline => {
                text.push_str(part(copied, span.start));
                text.push_str(&outline(part(span.start, span.end)));
                copied = span.end;
            }
        }
    }
    text.push_str(part(copied, body.len()));
    text
}

/// What says that a token is there, and nothing about it.
fn outline(object: &str) -> String {
    const SHOWN: [&str; 6] = ["id", "tenant_id", "type", "fingerprint", "containers", "_extras"];
    let mut object: Map<String, Value> = serde_json::from_str(object).unwrap_or_default();
    object.retain(|name, _| SHOWN.contains(&name.as_str()));
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(value: Value) -> Insert {
        Insert::Data(Plain::new(value))
    }

    #[test]
    fn data_comes_last_in_each_object() {
        let body = r#"[{"id":"a"},"é",{"b":{"id":"b","metadata":{},"type":"token"}}]"#;
        let span = |token, object: &str| {
            let start = body.find(object).unwrap();
            Span { token, start, end: start + object.len() }
        };
        let spans = || {
            let second = r#"{"id":"b","metadata":{},"type":"token"}"#;
            [span(0, r#"{"id":"a"}"#), span(1, second)].into_iter()
        };
        let check = |inserts: [Insert; 2], expected: &str| {
            assert_eq!(spliced(body, spans().zip(inserts)), expected);
        };
        check([Insert::Nothing, Insert::Nothing], body);
        let number = serde_json::json!({"number": "4242"});
        check(
            [data(number), data(1.into())],
            r#"[{"id":"a","data":{"number":"4242"}},"é",{"b":{"id":"b","metadata":{},"type":"token","data":1}}]"#,
        );
        check(
            [data(Value::Null), Insert::Outline],
            r#"[{"id":"a","data":null},"é",{"b":{"id":"b","type":"token"}}]"#,
        );
    }
}
