//! Requests that create or change a proxy.

use scrip_core::{
    Error, FieldError,
    operations::proxies::update_proxy::ProxyPatch,
    policy::{
        destination::{DestinationUrl, LoopbackDestinations},
        proxy::{
            AuthorityCertificates, ProxyConfiguration, ProxyDetails, ProxyDraft, ProxyTimeout,
            TlsMinimum,
            draft::{TIMEOUT_SECONDS_MAX, count_pattern_work},
        },
    },
    types::{Plaintext, id::ApplicationId},
};
use serde_json::{Map, Value, json};

use crate::wire::{
    ParseError,
    json::{JsonField, JsonFields},
    policy::application::parse_name,
    proxies::{
        proxy_response::writable_attributes,
        transform::{self, REQUEST, RESPONSE, TransformAttributes},
    },
};

const TIMEOUT_RULE: &str = "must be a number of seconds from 1 to 60";
const APPLICATION_RULE: &str = "must be an object with the id of an application";
/// The attributes that the interface removed in 2023, and their replacements.
const REMOVED_ATTRIBUTES: [(&str, &str); 2] = [
    ("request_reactor_id", "was removed; use request_transforms"),
    ("response_reactor_id", "was removed; use response_transforms"),
];
/// The attributes that only callers with `proxy:read` see, and that can contain keys of the
/// destination.
const HIDDEN_ATTRIBUTES: [&str; 6] =
    ["configuration", "ca_pem", REQUEST.single, REQUEST.array, RESPONSE.single, RESPONSE.array];

/// Parses all attributes of a proxy. Transforms and certificates are compiled later.
pub(crate) fn parse_draft(
    body: Plaintext,
    loopback: LoopbackDestinations,
) -> Result<ProxyDraft, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    for (name, hint) in REMOVED_ATTRIBUTES {
        if fields.take_any(name).is_some_and(|it| !it.is_null()) {
            fields.errors.push(FieldError::new(name, hint));
        }
    }
    let name = parse_name(&mut fields);
    let destination = fields.required_text("destination_url");
    let destination =
        parse_one(&mut fields, destination, |it| DestinationUrl::parse(&it, loopback));
    let request_transforms = transform::parse_list(&mut fields, &REQUEST);
    let response_transforms = transform::parse_list(&mut fields, &RESPONSE);
    let application = parse_application(&mut fields);
    let configuration = fields.text_map("configuration");
    let configuration = parse_one(&mut fields, configuration, ProxyConfiguration::parse);
    let require_auth = fields.boolean("require_auth").into_option().unwrap_or(true);
    let disable_detokenization = fields.boolean("disable_detokenization").into_option();
    let timeout_max = usize::try_from(TIMEOUT_SECONDS_MAX).unwrap_or(usize::MAX);
    let timeout = fields.count("timeout", timeout_max, TIMEOUT_RULE);
    let timeout = parse_one(&mut fields, timeout, |it| {
        ProxyTimeout::parse(u64::try_from(it).unwrap_or(u64::MAX))
    });
    let authorities = fields.text("ca_pem");
    let authorities = parse_one(&mut fields, authorities, AuthorityCertificates::from_text);
    let tls_min = fields.text("tls_min");
    let tls_min =
        fields.parse_choice("tls_min", tls_min, TlsMinimum::parse, "must be \"1.2\" or \"1.3\"");
    fields.finish_with(name.zip(destination)).map(|(name, destination)| ProxyDraft {
        name,
        destination,
        request_transforms,
        response_transforms,
        application,
        configuration,
        require_auth,
        disable_detokenization: disable_detokenization.unwrap_or(false),
        timeout,
        authorities,
        tls_min: tls_min.unwrap_or_default(),
    })
}

/// Parses a merge patch. It is applied to the current attributes when they are loaded.
pub(crate) fn parse_patch(
    body: Plaintext,
    loopback: LoopbackDestinations,
) -> Result<ProxyPatch, ParseError> {
    let Value::Object(_) = body.expose() else {
        return Err(ParseError::Malformed("the body must be a JSON object".to_owned()));
    };
    let names_hidden_attributes =
        HIDDEN_ATTRIBUTES.iter().any(|name| body.expose().get(name).is_some());
    let edit = move |details: &ProxyDetails| {
        let merged = merge_patch(writable_attributes(details), body.expose());
        parse_draft(merged, loopback).map_err(|it| match it {
            ParseError::Failed(error) => error,
            ParseError::Malformed(_) => Error::Internal("a merged proxy is not an object".into()),
        })
    };
    Ok(ProxyPatch { names_hidden_attributes, edit: Box::new(edit) })
}

/// The charged work to check the attributes of a request: the limit of a request body is small, but
/// each byte may be checked several times.
pub(crate) fn count_check_work(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(4)
}

/// The charged work to compile the transforms of a patch.
pub(crate) fn count_patch_work(patch: &Plaintext) -> usize {
    let count = |name: &str| match patch.expose().get(name) {
        Some(Value::Array(items)) => items.iter().filter(|it| has_expression(it)).count(),
        Some(item) => usize::from(has_expression(item)),
        None => 0,
    };
    let names = [REQUEST.single, REQUEST.array, RESPONSE.single, RESPONSE.array];
    count_pattern_work(names.into_iter().map(count).fold(0, usize::saturating_add))
}

fn has_expression(transform: &Value) -> bool {
    transform.get("expression").is_some()
}

/// A patch with one form of transforms replaces the other form.
fn merge_patch(mut attributes: Map<String, Value>, patch: &Value) -> Plaintext {
    let is_given = |name: &str| patch.get(name).is_some_and(|it| !it.is_null());
    for TransformAttributes { single, array } in [REQUEST, RESPONSE] {
        if is_given(single) && !is_given(array) {
            attributes.remove(array);
        }
        if is_given(array) && !is_given(single) {
            attributes.remove(single);
        }
    }
    let mut merged = json!(attributes);
    json_patch::merge(&mut merged, patch);
    Plaintext::new(merged)
}

/// Parses a given value, and adds the error of the parser.
fn parse_one<T, U>(
    fields: &mut JsonFields,
    field: JsonField<T>,
    parse: impl FnOnce(T) -> Result<U, FieldError>,
) -> Option<U> {
    fields.parse(field, |it| parse(it).map_err(|error| vec![error])).into_option()
}

fn parse_application(fields: &mut JsonFields) -> Option<ApplicationId> {
    let application = fields.object("application");
    fields
        .parse(application, |object| {
            let id = object.get("id").and_then(Value::as_str).and_then(ApplicationId::parse);
            id.ok_or_else(|| vec![FieldError::new("application.id", APPLICATION_RULE)])
        })
        .into_option()
}

#[cfg(test)]
mod tests;
