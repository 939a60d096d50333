//! The client chooses the content type, and must not switch an appended value off with it.

use super::*;

fn append_json() -> Value {
    json!({"type": "append_json", "options": {"location": "$.amount", "value": "100"}})
}

fn append_text() -> Value {
    json!({"type": "append_text", "options": {"value": "&amount=100"}})
}

fn apply_to_request(
    transform: Value,
    content_types: &[&str],
    body: &str,
) -> Result<String, ProxyError> {
    let mut message = message("text/plain", body);
    message.headers.remove(CONTENT_TYPE);
    for content_type in content_types {
        message.headers.append(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
    }
    apply(transform, &mut message, TransformKind::Request)?;
    Ok(String::from_utf8(message.body.to_vec()).unwrap())
}

#[test]
fn json_is_appended_only_to_requests_with_json_in_utf8() {
    let accepted: [&[&str]; 5] = [
        &[],
        &["application/json"],
        &["Application/JSON; charset=UTF-8"],
        &["application/vnd.api+json"],
        &["application/json; charset=\"utf-8\""],
    ];
    for content_types in accepted {
        let body = apply_to_request(append_json(), content_types, r#"{"amount":1}"#).unwrap();
        assert_eq!(body, r#"{"amount":"100"}"#, "{content_types:?}");
    }
    let rejected: [(&[&str], &str); 8] = [
        (&["application/x-www-form-urlencoded"], "not JSON"),
        (&["text/plain"], "not JSON"),
        (&[""], "not JSON"),
        (&["multipart/form-data; boundary=b"], "not JSON"),
        (&["application/json; charset=utf-16"], "charset"),
        (&["application/json; charset=utf-7"], "charset"),
        (&["application/json", "text/plain"], "several content types"),
        (&["application/json, text/plain"], "several content types"),
    ];
    for (content_types, rule) in rejected {
        let error = apply_to_request(append_json(), content_types, r#"{"amount":1}"#).unwrap_err();
        assert!(detail(&error).contains(rule), "{content_types:?}: {}", detail(&error));
        assert_eq!(
            (error.status(), error.delivery()),
            (StatusCode::BAD_REQUEST, CallDelivery::NotSent)
        );
    }
    assert!(apply_to_request(append_json(), &[], "no json").is_err());
}

#[test]
fn text_is_not_appended_to_multipart_requests_and_other_charsets() {
    let accepted: [&[&str]; 4] = [
        &[],
        &["text/plain"],
        &["application/x-www-form-urlencoded"],
        &["application/x-www-form-urlencoded; charset=utf-8"],
    ];
    for content_types in accepted {
        let body = apply_to_request(append_text(), content_types, "a=1").unwrap();
        assert_eq!(body, "a=1&amount=100", "{content_types:?}");
    }
    let rejected: [(&[&str], &str); 5] = [
        (&["multipart/form-data; boundary=b"], "multipart"),
        (&["Multipart/Mixed; boundary=b"], "multipart"),
        (&["multipart/form-data"], "multipart"),
        (&["application/x-www-form-urlencoded; charset=utf-16"], "charset"),
        (&["text/plain", "multipart/form-data; boundary=b"], "several content types"),
    ];
    for (content_types, rule) in rejected {
        let body = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--\r\n";
        let error = apply_to_request(append_text(), content_types, body).unwrap_err();
        assert!(detail(&error).contains(rule), "{content_types:?}: {}", detail(&error));
        assert_eq!(
            (error.status(), error.delivery()),
            (StatusCode::BAD_REQUEST, CallDelivery::NotSent)
        );
    }
}
