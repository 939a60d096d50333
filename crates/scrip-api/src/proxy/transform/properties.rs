//! What a transform can do, by its template alone.

use scrip_core::proxy::ProxyTransform;
use scrip_expression::MessageText;

use super::{parse_template, tokenize};

/// Whether the transform can write the configuration of the proxy into the body.
#[must_use]
pub fn writes_configuration(transform: &ProxyTransform) -> bool {
    let is_body_edit =
        matches!(transform, ProxyTransform::AppendJson { .. } | ProxyTransform::AppendText { .. });
    let template = parse_template(transform).ok().flatten().filter(|_| is_body_edit);
    let leaf_reads = |text: &MessageText| text.reads().any(|it| it.object == "config");
    template.is_some_and(|it| it.leaves().iter().any(|(_, text)| leaf_reads(text)))
}

/// Whether the transform stores the data that a client encrypted for the call.
#[must_use]
pub fn stores_encrypted(transform: &ProxyTransform) -> bool {
    let template = parse_template(transform).ok().flatten();
    template.is_some_and(|it| tokenize::find_encrypted(&it).is_some())
}
