//! The form of proxy errors.

use std::time::Duration;

use scrip_core::{
    Timestamp,
    types::error::{Denial, RateLimitExceeded},
};
use serde_json::{Value, json};

use super::*;

fn respond(error: &ProxyError) -> Response {
    error.response(&TraceId("trace".into()))
}

fn body(error: &ProxyError) -> Value {
    serde_json::from_str(&error.render()).unwrap()
}

#[test]
fn error_of_an_expression_has_its_path_and_is_not_sent() {
    let error = ProxyError::invalid("body.card.number", "no token has this id");
    assert_eq!(
        error.render(),
        r#"{"proxy_error":{"errors":{"body.card.number":["no token has this id"],"proxy":["not_sent"]},"title":"Invalid proxy request","status":400,"detail":"the request is not valid"}}"#
    );
    let response = respond(&error);
    assert_eq!(response.status(), 400);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers().get(DESTINATION_STATUS), None);
}

#[test]
fn failures_of_the_vault_keep_status_detail_and_retry_headers() {
    let rows = [
        (ProxyError::from(Error::NotFound), 404, "Not Found"),
        (Error::Forbidden(Denial::StrongerTransform).into(), 403, "Forbidden"),
        (Error::Unavailable("disk".into()).into(), 503, "Service Unavailable"),
        (Error::Conflict { reason: "again" }.into(), 409, "Conflict"),
        (Problem::TooLarge.into(), 413, "Payload Too Large"),
    ];
    for (error, status, title) in rows {
        let content = &body(&error)["proxy_error"];
        assert_eq!((&content["status"], &content["title"]), (&json!(status), &json!(title)));
        assert_eq!(content["errors"], json!({"proxy": ["not_sent"]}));
        assert_eq!(content["detail"], json!(error.problem().unwrap().detail()));
    }
    let excess = RateLimitExceeded {
        limit: "keyless_proxy",
        requests: 50,
        retry_after: Duration::from_secs(3),
        retry_at: Timestamp { unix_ms: 5000 },
    };
    let response = respond(&Error::RateLimited(excess).into());
    assert_eq!(response.headers()["retry-after"], "3");
    assert_eq!(response.headers()["ratelimit-limit"], "50");
}

#[test]
fn failure_of_a_call_says_whether_the_destination_got_the_request() {
    let error = ProxyError::new(StatusCode::REQUEST_TIMEOUT, CallDelivery::MaybeSent, "too slow");
    let expected = json!({"proxy_error": {
        "errors": {"proxy": ["maybe_sent"]}, "title": "Request Timeout", "status": 408,
        "detail": "too slow",
    }});
    assert_eq!(body(&error), expected);
}

#[test]
fn failure_after_the_answer_is_a_bad_gateway_with_the_status_of_the_destination() {
    let error = ProxyError::invalid("response_transforms[0]", "the body is not text");
    let error = error.after_answer(StatusCode::CREATED);
    let content = &body(&error)["proxy_error"];
    assert_eq!(content["status"], 502);
    assert_eq!(content["errors"], json!({"proxy": ["answered"]}));
    assert_eq!(content["detail"], "response_transforms[0]: the body is not text");
    assert_eq!(respond(&error).headers()[DESTINATION_STATUS], "201");
    let unavailable = ProxyError::from(Error::Unavailable("disk".into()));
    let unavailable = unavailable.after_answer(StatusCode::OK);
    assert_eq!(
        (unavailable.status(), unavailable.delivery()),
        (StatusCode::SERVICE_UNAVAILABLE, CallDelivery::Answered)
    );
}
