//! The templates of transforms.

use scrip_core::policy::proxy::ProxyTransform;
use scrip_expression::{ExpressionPlace, MessageTemplate};
use serde_json::Value;

use crate::proxy::edits::TransformError;

/// The template of a transform; `None` if it has none.
pub(super) fn parse_template(
    transform: &ProxyTransform,
) -> Result<Option<MessageTemplate>, TransformError> {
    let text;
    let source = match transform {
        ProxyTransform::Tokenize { token, .. } => token,
        ProxyTransform::AppendJson { value, .. }
        | ProxyTransform::AppendText { value }
        | ProxyTransform::AppendHeader { value, .. } => {
            text = Value::String(value.clone());
            &text
        }
        ProxyTransform::Code { .. }
        | ProxyTransform::Mask { .. }
        | ProxyTransform::OversizedMask
        | ProxyTransform::RejectedTemplate => return Ok(None),
    };
    let template = MessageTemplate::parse(source, ExpressionPlace::Transform);
    template.map(Some).map_err(TransformError::Expression)
}
