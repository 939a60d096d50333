//! The content types of requests to which a transform may append.
//!
//! The client chooses the content type, and the destination reads the body by it. An appended value that
//! the destination does not read would be as if the transform had been skipped.

use hyper::{HeaderMap, header::CONTENT_TYPE};

use super::{error::TransformError, mask::check_charset};
use crate::proxy::body::is_json_type;

const JSON_RULE: &str = "cannot be applied: the content type of the request is not JSON; send it with \
                         Content-Type: application/json";
const MULTIPART_RULE: &str = "cannot be applied: a text after the last boundary of a multipart body \
                              belongs to no part; send a form or another content type";
const SEVERAL_RULE: &str = "cannot be applied: the request has several content types";

/// Errors: the request has a content type that is not JSON in UTF-8.
pub(in crate::proxy) fn check_json_type(headers: &HeaderMap) -> Result<(), TransformError> {
    check_single(headers)?;
    check_charset(headers)?;
    match headers.get(CONTENT_TYPE) {
        // The body must be JSON, and it is validated as JSON.
        None => Ok(()),
        Some(value) if value.to_str().is_ok_and(is_json_type) => Ok(()),
        Some(_) => Err(TransformError::Rule(JSON_RULE)),
    }
}

/// Errors: the body is multipart or in another charset than UTF-8.
pub(in crate::proxy) fn check_text_type(headers: &HeaderMap) -> Result<(), TransformError> {
    check_single(headers)?;
    check_charset(headers)?;
    let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = content_type.and_then(|it| it.split('/').next()).unwrap_or_default();
    match kind.trim().eq_ignore_ascii_case("multipart") {
        true => Err(TransformError::Rule(MULTIPART_RULE)),
        false => Ok(()),
    }
}

fn check_single(headers: &HeaderMap) -> Result<(), TransformError> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let essence = |it: &[u8]| it.split(|byte| *byte == b';').next().unwrap_or_default().to_vec();
    let is_list = values.next().is_some_and(|it| essence(it.as_bytes()).contains(&b','));
    match is_list || values.next().is_some() {
        true => Err(TransformError::Rule(SEVERAL_RULE)),
        false => Ok(()),
    }
}
