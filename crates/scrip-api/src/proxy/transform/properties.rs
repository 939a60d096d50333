//! What a transform can do, by its template alone.

use scrip_core::{
    Error,
    policy::proxy::{ProxyTransform, transform::LocationStep},
    types::error::Denial,
};

use crate::proxy::body::MessageBody;

/// Whether the transform writes into the body: the configuration of the proxy, or a text of its
/// administrator, which can be a secret too.
pub fn writes_body(transform: &ProxyTransform) -> bool {
    matches!(transform, ProxyTransform::AppendJson { .. } | ProxyTransform::AppendText { .. })
}

/// The work of [`check_hidden_body`].
pub fn hidden_body_work(transforms: &[ProxyTransform], body_bytes: usize) -> usize {
    let scans_body = |it: &&ProxyTransform| matches!(it, ProxyTransform::AppendJson { location, .. } if location.steps().len() > 1);
    transforms.iter().filter(scans_body).count().saturating_mul(body_bytes)
}

/// Checks that no transform of a request reads values in the body that the caller may not read: what it
/// finds, how long it takes and whether it fails would depend on them.
///
/// Errors: a transform is a mask, or appends to a body that is no JSON, or inside of such a value.
pub fn check_hidden_body(transforms: &[ProxyTransform], body: &MessageBody) -> Result<(), Error> {
    let mut written: Vec<&[LocationStep]> = Vec::new();
    for transform in transforms {
        let is_allowed = match transform {
            ProxyTransform::Mask { .. } | ProxyTransform::OversizedMask => false,
            ProxyTransform::AppendJson { location, .. } => {
                let steps = location.steps();
                // An earlier transform replaced the value.
                let is_replaced = written.iter().any(|it| steps.starts_with(it));
                written.push(steps);
                body.has_fixed_location(if is_replaced { &[] } else { steps })
            }
            ProxyTransform::AppendText { .. }
            | ProxyTransform::AppendHeader { .. }
            | ProxyTransform::Tokenize { .. }
            | ProxyTransform::RejectedTemplate
            | ProxyTransform::Code { .. } => true,
        };
        if !is_allowed {
            return Err(Error::Forbidden(Denial::TransformOnHiddenData));
        }
    }
    Ok(())
}

/// Checks that no value that the caller may not read becomes a part of the name of a property.
///
/// A transform that appends to JSON rejects similar names, so it would compare the value with a
/// guess. Expressions of JSON bodies are in text values only.
/// Errors: a transform appends to a body that is no JSON and has expressions.
pub fn check_property_names(
    transforms: &[ProxyTransform],
    body: &MessageBody,
) -> Result<(), Error> {
    let appends_json = |it: &ProxyTransform| matches!(it, ProxyTransform::AppendJson { .. });
    if transforms.iter().any(appends_json) && !body.has_json_expressions_only() {
        return Err(Error::Forbidden(Denial::TransformOnHiddenData));
    }
    Ok(())
}

/// Whether the transform stores the data that a client encrypted for the call.
pub fn stores_encrypted(transform: &ProxyTransform) -> bool {
    transform.template().is_some_and(|it| it.encrypted().is_some())
}
