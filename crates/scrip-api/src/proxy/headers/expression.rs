//! Expressions in the values of request headers. They can read the request and the configuration of
//! the proxy, but no tokens.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use memchr::memmem;
use scrip_core::{
    FieldError,
    expression::{ValueCounting, evaluate_message, evaluate_rehearsed},
    types::Plaintext,
    work_meter::WorkMeter,
};
use scrip_expression::{
    ExpressionError, ExpressionPlace, MessageExpression, MessageInputs, MessageSource, MessageText,
    NoReferences, Scope, padded_size,
};
use serde_json::{Map, Value, json};

use crate::proxy::error::ProxyError;

/// The values for the expressions of headers, and the limits of their evaluation.
#[derive(Clone, Copy)]
pub struct HeaderInputs<'v> {
    /// The forwarded headers of the client, before any transform.
    pub client_headers: &'v HeaderMap,
    /// `proxy.request.headers`: those of the client. Headers that transforms wrote can contain the
    /// configuration.
    pub readable_headers: &'v HeaderMap,
    /// Whether a transform wrote the header.
    pub is_written: &'v dyn Fn(&HeaderName) -> bool,
    /// The body as it is sent, after all transforms.
    pub body: &'v [u8],
    /// The configuration of the proxy, an object of texts.
    pub configuration: &'v Value,
    pub work: &'v WorkMeter,
    pub fill_random: fn(&mut [u8]),
    /// If the caller may not read the body: the length of the text that decides in its place whether
    /// the work is enough, and whether a result is too long.
    pub stand_in_bytes: Option<usize>,
    /// Whether the caller may not read the configuration.
    pub hides_configuration: bool,
}

impl std::fmt::Debug for HeaderInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeaderInputs")
    }
}

const CONTROL_RULE: &str = "the value contains a control character, which a header cannot have";
const TEXT_RULE: &str = "a header with expressions must be UTF-8 text";
const BODY_RULE: &str = "proxy.request.body is not available: the body is not UTF-8 text";

/// Whether a value contains an expression. Most requests have none.
pub fn has_header_expressions(headers: &HeaderMap) -> bool {
    headers.values().any(has_braces)
}

fn has_braces(value: &HeaderValue) -> bool {
    memmem::find(value.as_bytes(), b"{{").is_some()
}

/// Whether an expression in a value can read the configuration of the proxy, or the body as it is
/// sent, which can contain the configuration.
/// Errors: an expression is invalid.
pub fn reads_hidden_values(headers: &HeaderMap, is_body_hidden: bool) -> Result<bool, ProxyError> {
    let reads = |(_, _, text): &CompiledHeader| {
        reads_configuration(text)
            || (is_body_hidden && text.can_read(&["proxy", "request", "body"]))
    };
    Ok(compile_headers(headers, headers, &|_| false)?.iter().any(reads))
}

/// What header expressions compute with hidden values.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComputedHeaders {
    /// Whether one computes with the body as it is sent, except for a signature.
    pub body: bool,
    /// Whether one computes with the configuration of the proxy, except for a signature and for texts
    /// that are joined.
    pub configuration: bool,
}

/// Finds the header expressions that can succeed or fail, or have another length, by the characters of
/// hidden values.
/// Errors: an expression is invalid.
pub fn find_computed_headers(headers: &HeaderMap) -> Result<ComputedHeaders, ProxyError> {
    let mut computed = ComputedHeaders::default();
    for (_, _, text) in compile_headers(headers, headers, &|_| false)? {
        let reads_body = text.can_read(&["proxy", "request", "body"]);
        let is_signature = text.expressions().all(MessageExpression::is_signature);
        let is_text = text.expressions().all(MessageExpression::is_joined_text);
        computed.body |= reads_body && !is_signature;
        computed.configuration |= reads_configuration(&text) && !is_signature && !is_text;
    }
    Ok(computed)
}

fn reads_configuration(text: &MessageText) -> bool {
    let is_configuration =
        |it: &MessageExpression| matches!(it.source(), MessageSource::Configuration(_));
    text.expressions().any(is_configuration)
        || text.can_read(&["config"])
        || text.can_read(&["proxy", "config"])
}

/// The index of a header, its name, and its value.
type CompiledHeader = (usize, HeaderName, MessageText);

/// Compiles the values that the client sent.
fn compile_headers(
    headers: &HeaderMap,
    client_headers: &HeaderMap,
    is_written: &dyn Fn(&HeaderName) -> bool,
) -> Result<Vec<CompiledHeader>, ProxyError> {
    let mut compiled = Vec::new();
    let mut ordinals = HeaderOrdinals::default();
    for (index, (name, value)) in headers.iter().enumerate() {
        let ordinal = ordinals.next(name);
        if has_braces(value)
            && is_of_client(client_headers, name, ordinal, value)
            && !is_written(name)
        {
            let source = std::str::from_utf8(value.as_bytes())
                .map_err(|_| ProxyError::invalid(header_path(name), TEXT_RULE))?;
            let text = MessageText::parse(source, ExpressionPlace::Header)
                .map_err(|error| explain(name, error))?;
            compiled.push((index, name.clone(), text));
        }
    }
    Ok(compiled)
}

/// Replaces the expressions in the values that the client sent. All expressions read the headers as
/// they were before.
///
/// A value that a transform wrote is text: it can contain the data of a token, or a part of the body
/// of a caller who has no right to evaluate expressions.
/// Errors: an expression is invalid, a filter rejects its value, or a result has a control
/// character.
pub fn evaluate_headers(
    headers: &mut HeaderMap,
    inputs: &HeaderInputs<'_>,
) -> Result<(), ProxyError> {
    let compiled = compile_headers(headers, inputs.client_headers, inputs.is_written)?;
    if compiled.is_empty() {
        return Ok(());
    }
    let reads_body = |text: &MessageText| {
        std::str::from_utf8(inputs.body).is_err() && text.can_read(&["proxy", "request", "body"])
    };
    if let Some((_, name, _)) = compiled.iter().find(|(_, _, text)| reads_body(text)) {
        return Err(ProxyError::invalid(header_path(name), BODY_RULE));
    }
    let mut results = evaluate_compiled(&compiled, inputs)?.into_iter().peekable();
    for (index, (_, value)) in headers.iter_mut().enumerate() {
        if let Some((_, result)) = results.next_if(|(it, _)| *it == index) {
            *value = result;
        }
    }
    Ok(())
}

/// Evaluates the values. If the caller may not read the body or the configuration, stand-ins decide
/// whether the work is enough: headers only join, sign and encode these, so nothing else can fail.
fn evaluate_compiled(
    compiled: &[CompiledHeader],
    inputs: &HeaderInputs<'_>,
) -> Result<Vec<(usize, HeaderValue)>, ProxyError> {
    let body = std::str::from_utf8(inputs.body).unwrap_or_default();
    let evaluate_with = |objects: &Plaintext, configuration: &Value, scope: &Scope<'_>| {
        let message_inputs = MessageInputs {
            references: &NoReferences,
            configuration,
            identifiers: &Value::Null,
            objects: objects.expose(),
        };
        let evaluate_header = |(index, name, text): &CompiledHeader| {
            let value =
                text.evaluate(&message_inputs, scope).map_err(|error| explain(name, error))?;
            Ok((*index, build_value(name, &Plaintext::new(value))?))
        };
        compiled.iter().map(evaluate_header).collect::<Result<Vec<_>, ProxyError>>()
    };
    let HeaderInputs { work, fill_random, configuration, .. } = *inputs;
    let objects = build_objects(inputs, body, configuration);
    let evaluate = |scope: &Scope<'_>| evaluate_with(&objects, configuration, scope);
    if inputs.stand_in_bytes.is_none() && !inputs.hides_configuration {
        return evaluate_message(work, fill_random, ValueCounting::Exact, evaluate)?;
    }
    let stand_in_body = inputs.stand_in_bytes.map(|it| "x".repeat(it));
    let stand_in_configuration = match inputs.hides_configuration {
        true => build_stand_in(configuration),
        false => Plaintext::new(configuration.clone()),
    };
    let stand_in_configuration = stand_in_configuration.expose();
    let stand_in_objects =
        build_objects(inputs, stand_in_body.as_deref().unwrap_or(body), stand_in_configuration);
    let rehearse = |scope: &Scope<'_>| {
        evaluate_with(&stand_in_objects, stand_in_configuration, scope).map(drop)
    };
    evaluate_rehearsed(work, fill_random, rehearse, evaluate)?
}

/// A configuration with the same names, and texts of the sizes by which the values count.
fn build_stand_in(configuration: &Value) -> Plaintext {
    let entries = configuration.as_object().into_iter().flatten();
    let entries = entries.map(|(name, value)| {
        let length = value.as_str().map_or(0, str::len);
        (name.clone(), Value::String("x".repeat(padded_size(length))))
    });
    Plaintext::new(Value::Object(entries.collect()))
}

/// Counts the values of each header. A map lists the values of a name one after the other.
#[derive(Default)]
struct HeaderOrdinals<'h> {
    name: Option<&'h HeaderName>,
    count: usize,
}

impl<'h> HeaderOrdinals<'h> {
    fn next(&mut self, name: &'h HeaderName) -> usize {
        self.count = if self.name == Some(name) { self.count.saturating_add(1) } else { 0 };
        self.name = Some(name);
        self.count
    }
}

/// Transforms append values, or remove all values of a name. So the values of the client come first,
/// and a value at the place of another one is new.
fn is_of_client(
    client_headers: &HeaderMap,
    name: &HeaderName,
    ordinal: usize,
    value: &HeaderValue,
) -> bool {
    client_headers.get_all(name).iter().nth(ordinal) == Some(value)
}

fn header_path(name: &HeaderName) -> String {
    format!("headers.{name}")
}

fn explain(name: &HeaderName, error: ExpressionError) -> ProxyError {
    FieldError::from_expression_error(header_path(name), error).into()
}

/// The objects `proxy` and `config`. Header names are in lower case, and several values of a header
/// are joined as RFC 9110 allows.
fn build_objects(inputs: &HeaderInputs<'_>, body: &str, configuration: &Value) -> Plaintext {
    let headers = inputs.readable_headers;
    let mut request_headers = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|it| String::from_utf8_lossy(it.as_bytes())).collect();
        request_headers.insert(name.as_str().to_owned(), values.join(", ").into());
    }
    Plaintext::new(json!({
        "proxy": {"request": {"headers": request_headers, "body": body}, "config": configuration},
        "config": configuration,
    }))
}

/// Lists and objects are JSON text.
fn build_value(name: &HeaderName, value: &Plaintext) -> Result<HeaderValue, ProxyError> {
    let text = match value.expose() {
        Value::Null => Plaintext::new("".into()),
        Value::String(text) => Plaintext::new(text.as_str().into()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Plaintext::new(other.to_string().into())
        }
    };
    let text = text.expose().as_str().unwrap_or_default();
    let value = Some(text).filter(|it| !it.contains(char::is_control));
    let value = value.and_then(|it| HeaderValue::from_bytes(it.as_bytes()).ok());
    let mut value = value.ok_or_else(|| ProxyError::invalid(header_path(name), CONTROL_RULE))?;
    value.set_sensitive(true);
    Ok(value)
}
