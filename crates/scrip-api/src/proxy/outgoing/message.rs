//! Builds the message to a destination from the request of a client and from usable plaintext.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue},
};
use scrip_core::{
    expression::{ValueCounting, evaluate_message},
    operations::reference_data::ReferenceData,
    policy::{
        destination::destination_url::FieldNames,
        proxy::transform::{JsonLocation, LocationStep},
    },
    types::{DisclosureRule, DisclosureRules, Plaintext},
    work_meter::WorkMeter,
};
use scrip_egress::{ConnectionScope, Destination, EgressBody, EgressClient, SendError, TlsOptions};
use scrip_expression::{
    CountedSize, MessageInputs, MessageTemplate, NoReferences, Reference, ResolveReference, Scope,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::UsablePlaintext;
use crate::proxy::{
    body::{
        BodyInputs, MessageBody, RenderedBody, SourceCounting, is_json_type, remove_form_fields,
    },
    edits::{MaskEdit, TransformError, TransformMessage, append, mask::check_charset},
    error::ProxyError,
    headers::{HeaderInputs, evaluate_headers},
    json_scanner::{RENDERED_DEPTH_MAX, has_similar_property},
    secret_buffer::ENCODED_GROWTH,
};

/// A message to a destination. It can contain data that the caller may not read, so its bytes go to
/// the destination and nowhere else:
/// ```compile_fail,E0616
/// fn read(message: scrip_api::proxy::outgoing::OutgoingMessage) -> bytes::Bytes {
///     message.message.body
/// }
/// ```
/// ```compile_fail,E0599
/// fn copy(message: scrip_api::proxy::outgoing::OutgoingMessage) {
///     let copy = message.clone();
/// }
/// ```
/// ```compile_fail,E0277
/// fn parse(message: &scrip_api::proxy::outgoing::OutgoingMessage) -> serde_json::Value {
///     serde_json::to_value(message).unwrap()
/// }
/// ```
pub struct OutgoingMessage {
    message: TransformMessage,
    counting: SourceCounting,
    /// The length of the body, with values as they count. A transform that removes a value does not
    /// reduce it, because the difference would be the length of the value.
    counted_bytes: usize,
    /// The headers that a transform wrote. The client's values of these are removed.
    written_headers: Vec<String>,
    /// The fields that a transform appended to a form. The client's values of these are removed.
    written_fields: FieldNames,
}

/// The values for the expressions of a call, and the limits of their evaluation.
#[derive(Debug, Clone, Copy)]
pub struct ExpressionInputs<'v> {
    pub references: &'v ReferenceData<UsablePlaintext>,
    /// The configuration of the proxy, an object of texts; empty if nothing reads it.
    pub configuration: &'v UsablePlaintext,
    pub work: &'v WorkMeter,
    pub fill_random: fn(&mut [u8]),
    /// The maximum length of the body.
    pub bytes_max: usize,
    pub hidden: HiddenInputs,
}

/// What the caller may not read.
#[derive(Debug, Clone, Copy)]
pub struct HiddenInputs {
    pub counting: SourceCounting,
    /// Whether the body as it is sent contains such values. Then headers only sign it.
    pub in_body: bool,
    /// Whether the configuration is such a value. Then headers only sign and join it.
    pub configuration: bool,
}

const SIMILAR_RULE: &str = "cannot be applied: the body has another property of this name, or one \
    that differs only in case or in - and _";

/// The values of references. Only this module can pass them to expressions.
struct ExposedReferences<'a>(&'a ReferenceData<UsablePlaintext>);

impl ResolveReference for ExposedReferences<'_> {
    fn resolve(&self, reference: &Reference) -> Option<&Value> {
        Some(self.0.find(reference)?.read(UsablePlaintext::expose_for_message))
    }
}

impl OutgoingMessage {
    /// Evaluates the expressions of the body.
    /// Errors: an expression fails, or the body is too large. The failure may depend on the data.
    pub fn render(
        body: &MessageBody,
        mut headers: HeaderMap,
        inputs: &ExpressionInputs<'_>,
    ) -> Result<Self, ProxyError> {
        let ExpressionInputs { references, configuration, work, fill_random, bytes_max, hidden } =
            *inputs;
        let counting = hidden.counting;
        let rendered = body.render(&BodyInputs {
            references: &ExposedReferences(references),
            configuration: configuration.expose_for_message(),
            work,
            fill_random,
            bytes_max,
            counting,
        })?;
        let RenderedBody { bytes, counted_bytes, content_type } = rendered;
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        let message = TransformMessage { headers, body: bytes };
        Ok(Self { counted_bytes, ..Self::new(message, counting) })
    }

    fn new(message: TransformMessage, counting: SourceCounting) -> Self {
        let counted_bytes = message.body.len();
        let (written_headers, written_fields) = (Vec::new(), FieldNames::default());
        Self { message, counting, counted_bytes, written_headers, written_fields }
    }

    /// Checks that all tokens and intents of the body exist. This does not depend on their data.
    /// Errors: a token or an intent is unknown.
    pub(crate) fn check_references(
        body: &MessageBody,
        references: &ReferenceData<UsablePlaintext>,
    ) -> Result<(), ProxyError> {
        body.check_references(&ExposedReferences(references))
    }

    /// An explicit copy, for a rehearsal of transforms.
    pub(in crate::proxy) fn duplicate(&self) -> Self {
        Self {
            message: self.message.clone(),
            counting: self.counting,
            counted_bytes: self.counted_bytes,
            written_headers: self.written_headers.clone(),
            written_fields: self.written_fields.clone(),
        }
    }

    pub(in crate::proxy) fn is_encoded(&self) -> bool {
        self.message.is_encoded()
    }

    /// The length by which the body counts.
    pub(in crate::proxy) fn body_length(&self) -> usize {
        if self.counting.is_padded() { self.counted_bytes } else { self.message.body.len() }
    }

    /// Counts a value that is appended to the body. Returns the maximum of the exact length.
    fn count_appended(
        &mut self,
        counted_bytes: usize,
        bytes_max: usize,
    ) -> Result<usize, TransformError> {
        if !self.counting.is_padded() {
            return Ok(bytes_max);
        }
        self.counted_bytes = self.counted_bytes.saturating_add(counted_bytes);
        if self.counted_bytes > bytes_max { Err(TransformError::TooLarge) } else { Ok(usize::MAX) }
    }

    pub(in crate::proxy) fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.message.headers.keys()
    }

    pub(in crate::proxy) fn mask(&mut self, edit: &mut MaskEdit<'_>) -> Result<(), TransformError> {
        edit.apply_to_body(&mut self.message)
    }

    pub(in crate::proxy) fn append_json(
        &mut self,
        location: &JsonLocation,
        value: &TemplateValue,
        bytes_max: usize,
    ) -> Result<(), TransformError> {
        const PUNCTUATION: usize = 2;
        check_json_type(&self.message.headers)?;
        let edit = append::find_json_edit(&self.message, location, RENDERED_DEPTH_MAX)?;
        let text = std::str::from_utf8(&self.message.body).unwrap_or_default();
        if has_similar_property(text, location.steps(), RENDERED_DEPTH_MAX) {
            return Err(TransformError::Rule(SIMILAR_RULE));
        }
        let name = match location.steps().last() {
            Some(LocationStep::Name(name)) => name.as_str(),
            Some(_) | None => "",
        };
        let size = value.size.with_text(name.len()).encoded(ENCODED_GROWTH);
        let bytes_max = self.count_appended(size.saturating_add(PUNCTUATION), bytes_max)?;
        let value = value.value.expose_for_message();
        append::write_json(&mut self.message, &edit, value, bytes_max)
    }

    /// Appends a text. The first field of a name that a transform appends to a form replaces the
    /// fields of the client: another program could take the first one of two.
    pub(in crate::proxy) fn append_text(
        &mut self,
        value: &TemplateValue,
        bytes_max: usize,
    ) -> Result<(), TransformError> {
        check_text_type(&self.message.headers)?;
        let text = append::render_text(value.value.expose_for_message())?;
        if is_form(&self.message.headers) {
            let body = &self.message.body;
            let fields = String::from_utf8_lossy(appended_fields(body, text.as_slice()));
            let mut new_names = FieldNames::default();
            new_names.add(&fields, |it| !self.written_fields.matches(it));
            self.written_fields.add(&fields, |_| true);
            if let Some(body) = remove_form_fields(body, |it| new_names.matches(it)) {
                self.message.change_body(body);
            }
        }
        let bytes_max = self.count_appended(value.size.encoded(1), bytes_max)?;
        append::append_text(&mut self.message, text.as_slice(), bytes_max)
    }

    /// Appends a header. The first value of a name that a transform appends replaces the values of
    /// the client, in any case and with `_` for `-`: many servers do not distinguish these names.
    pub(in crate::proxy) fn append_header(
        &mut self,
        name: &str,
        value: &TemplateValue,
    ) -> Result<(), TransformError> {
        let folded = fold_name(name);
        if !self.written_headers.contains(&folded) {
            let headers = &mut self.message.headers;
            let names = headers.keys().filter(|it| fold_name(it.as_str()) == folded);
            let names: Vec<_> = names.cloned().collect();
            for name in names {
                headers.remove(name);
            }
            self.written_headers.push(folded);
        }
        append::append_header(&mut self.message.headers, name, value.value.expose_for_message())
    }

    /// Evaluates the expressions in the headers of the client. They can read the body as it is sent,
    /// so this is the last step.
    ///
    /// Errors: an expression fails, or a result is no value of a header. The failure may depend on
    /// the data.
    pub fn evaluate_headers(
        &mut self,
        client_headers: &HeaderMap,
        inputs: &ExpressionInputs<'_>,
        rules: DisclosureRules,
    ) -> Result<(), ProxyError> {
        let hidden = inputs.hidden;
        let stand_in_bytes = hidden.in_body.then(|| self.body_length());
        let TransformMessage { headers, body } = &mut self.message;
        let reads_client = rules.applies(DisclosureRule::ConfigurationHiddenFromBrowsers);
        let sent_headers = (!reads_client).then(|| headers.clone());
        let is_written = |it: &HeaderName| self.written_headers.contains(&fold_name(it.as_str()));
        let header_inputs = HeaderInputs {
            client_headers,
            readable_headers: sent_headers.as_ref().unwrap_or(client_headers),
            is_written: &is_written,
            body,
            configuration: inputs.configuration.expose_for_message(),
            work: inputs.work,
            fill_random: inputs.fill_random,
            stand_in_bytes,
            hides_configuration: hidden.configuration,
        };
        evaluate_headers(headers, &header_inputs)
    }

    /// The detokenized body and its content type, for control runs of the non-interference test
    /// without the rule that templates read the client's message. `None` while the rule applies.
    pub(in crate::proxy) fn detokenized_for_control_run(
        &self,
        rules: DisclosureRules,
    ) -> Option<(Option<HeaderValue>, Bytes)> {
        if rules.applies(DisclosureRule::TemplatesReadClientMessage) {
            return None;
        }
        Some((self.message.headers.get(CONTENT_TYPE).cloned(), self.message.body.clone()))
    }

    /// Sends the message: the only way out.
    /// Errors: the destination does not answer.
    pub async fn send(
        self,
        client: &EgressClient,
        method: Method,
        destination: &Destination,
        scope: ConnectionScope,
        tls: Option<&Arc<TlsOptions>>,
        deadline: Instant,
    ) -> Result<Response<EgressBody>, SendError> {
        let TransformMessage { headers, body } = self.message;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        client.send(destination, scope, tls, request, deadline).await
    }
}

/// Evaluates the template of a transform that changes the outgoing message. `objects` has the
/// messages that the template reads; the configuration is added for the evaluation only.
///
/// Errors: an expression fails.
pub(in crate::proxy) fn evaluate_template(
    template: &MessageTemplate,
    objects: &mut Plaintext,
    identifiers: &Value,
    inputs: TemplateInputs<'_>,
) -> Result<TemplateValue, TransformError> {
    const CONFIGURATION: &str = "config";
    let TemplateInputs { configuration, work, fill_random, counting } = inputs;
    let configuration = configuration.expose_for_message();
    if let (Value::Object(objects), true) =
        (objects.expose_mut(), template.can_read(&[CONFIGURATION]))
    {
        objects.insert(CONFIGURATION.to_owned(), configuration.clone());
    }
    let message_inputs = MessageInputs {
        references: &NoReferences,
        configuration,
        identifiers,
        objects: objects.expose(),
    };
    let evaluate = |scope: &Scope<'_>| match counting {
        ValueCounting::Exact => template.evaluate_exactly(&message_inputs, scope),
        ValueCounting::Padded => template.evaluate_counted(&message_inputs, scope),
    };
    let value = evaluate_message(work, fill_random, counting, evaluate);
    if let Value::Object(objects) = objects.expose_mut() {
        let configuration = objects.remove(CONFIGURATION);
        drop(configuration.map(Plaintext::new));
    }
    let value = value.map_err(|error| TransformError::Failed(Box::new(error.into())))?;
    let (value, size) = value.map_err(TransformError::Expression)?;
    Ok(TemplateValue { value: Plaintext::new(value).into(), size })
}

/// The value of a template, and the size by which it counts.
#[derive(Debug)]
pub(in crate::proxy) struct TemplateValue {
    value: UsablePlaintext,
    size: CountedSize,
}

/// The inputs of [`evaluate_template`].
#[derive(Debug, Clone, Copy)]
pub(in crate::proxy) struct TemplateInputs<'v> {
    pub(in crate::proxy) configuration: &'v UsablePlaintext,
    pub(in crate::proxy) work: &'v WorkMeter,
    pub(in crate::proxy) fill_random: fn(&mut [u8]),
    pub(in crate::proxy) counting: ValueCounting,
}

/// The same text for all names that servers may treat as equal.
fn fold_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = content_type.and_then(|it| it.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
        && !headers.contains_key(CONTENT_ENCODING)
}

/// The fields in an appended text. Its start continues the last field of the body,
/// unless one of them has a separator there.
fn appended_fields<'t>(body: &[u8], text: &'t [u8]) -> &'t [u8] {
    let is_separate = body.is_empty() || body.ends_with(b"&") || text.starts_with(b"&");
    match is_separate {
        true => text,
        false => {
            text.iter().position(|it| *it == b'&').and_then(|it| text.get(it..)).unwrap_or_default()
        }
    }
}

impl fmt::Debug for OutgoingMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutgoingMessage")
    }
}

/// The configuration of a proxy, for the expressions of a call.
impl FromIterator<(String, String)> for UsablePlaintext {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(name, value)| (name, Value::from(value)));
        Plaintext::new(Value::Object(entries.collect::<Map<_, _>>())).into()
    }
}

#[cfg(test)]
impl OutgoingMessage {
    pub(in crate::proxy) fn of_test(message: TransformMessage) -> Self {
        Self::new(message, SourceCounting::EXACT)
    }

    pub(in crate::proxy) fn into_message_of_test(self) -> TransformMessage {
        self.message
    }
}

const JSON_RULE: &str = "cannot be applied: the content type of the request is not JSON; send it with \
                         Content-Type: application/json";
const MULTIPART_RULE: &str = "cannot be applied: a text after the last boundary of a multipart body \
                              belongs to no part; send a form or another content type";
const SEVERAL_RULE: &str = "cannot be applied: the request has several content types";

/// Checks the content type before JSON is appended. The client chooses it, and the destination reads the
/// body by it: an appended value that the destination does not read would be as if the transform had
/// been skipped.
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
