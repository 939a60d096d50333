//! Transforms without code: they change a message between the client and the destination.
//!
//! A transform is never skipped. If it cannot be applied, the message is not passed on, because
//! leaving out a mask would show what it hides.

mod objects;
mod properties;
mod target;
mod template;
pub mod tokenize;

use bytes::Bytes;
use hyper::{HeaderMap, header::CONTENT_TYPE};
use scrip_core::{
    Error,
    expression::message::{ValueCounting, charge_message_bytes, evaluate_message},
    policy::proxy::{ProxyTransform, transform::MaskMatcher},
    types::{DisclosureRule, DisclosureRules, Plaintext, error::Denial},
    work_meter::WorkMeter,
};
use scrip_expression::{
    ExpressionPlace, MessageInputs, MessageRead, MessageTemplate, NoReferences, Scope,
};
use serde_json::{Map, Value};

use self::{
    objects::{ClientMessage, TemplateObjects},
    template::parse_template,
};
pub use self::{
    properties::{
        check_hidden_body, check_property_names, hidden_body_work, stores_encrypted, writes_body,
    },
    target::TransformTarget,
    tokenize::{CollectedToken, CollectedTokenData},
};
use crate::proxy::{
    edits::{
        MaskEdit, TransformError, TransformKind, TransformMessage, append,
        match_finder::WorkAllowance,
    },
    error::ProxyError,
    json_scanner::DEPTH_MAX,
    outgoing::{OutgoingMessage, TemplateInputs, UsablePlaintext, evaluate_template},
};

/// What all transforms of a call share.
#[derive(Debug, Clone, Copy)]
pub struct TransformInputs<'c> {
    /// The configuration of the proxy, an object of texts. Only transforms of the request read it.
    pub configuration: &'c UsablePlaintext,
    /// The data that the client encrypted for the call. It can become the data of a token.
    pub encrypted: Option<&'c UsablePlaintext>,
    pub work: &'c WorkMeter,
    pub fill_random: fn(&mut [u8]),
    /// The maximum length of a transformed body.
    pub bytes_max: usize,
    /// Whether `{{` in the request begins an expression.
    pub evaluates_expressions: bool,
    /// How the values of templates count that can contain the configuration.
    pub counting: ValueCounting,
    pub is_from_browser: bool,
    pub rules: DisclosureRules,
}

/// The transforms of one call, of its request and then of its response.
#[derive(Debug)]
pub struct TransformRun<'c> {
    inputs: TransformInputs<'c>,
    /// `req` is the request as the client sent it: the data of tokens must not reach a new token, a
    /// header or the client through a template.
    objects: TemplateObjects,
    /// The tokens that transforms created, by identifier.
    identifiers: Plaintext,
    /// The work that the masks of the call have done.
    mask_work: u64,
    /// The bytes that were read on a worker of the async runtime.
    inline_bytes: usize,
    /// Whether the call used a token that its sender may not read.
    hides_answer: bool,
}

/// All masks of a call may do this work together. It takes at most about 0.3 seconds.
pub(crate) const MASK_WORK_MAX: u64 = 40_000_000;
/// The masks of a call may do this work on a worker of the async runtime. It takes at most about a
/// millisecond.
pub(crate) const INLINE_MASK_WORK_MAX: u64 = 150_000;
/// The transforms of a call may parse this many bytes on a worker of the async runtime.
pub(crate) const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The effect of a transform.
#[derive(Debug)]
pub enum TransformEffect {
    /// The message is changed.
    Done,
    /// Create this token, then call [`TransformRun::bind_token`].
    CreateToken(CollectedToken),
}

/// The thread on which a transform runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransformThread {
    /// A worker of the async runtime. A transform that takes long does not run there.
    Worker,
    /// A slot for long evaluations.
    Slot,
}

const OVERSIZED_RULE: &str = "cannot be applied: the expression of the mask has too many steps";
const REJECTED_RULE: &str = "cannot be applied: the template breaks a rule";
const ENCODED_RULE: &str = "cannot be applied: the body has a Content-Encoding";
const ENCRYPTED_RULE: &str =
    "cannot be applied: the request has no encrypted data of this name and type";

impl<'c> TransformRun<'c> {
    /// `headers` and `body` are those of the client, before any change.
    pub fn new(inputs: TransformInputs<'c>, headers: &HeaderMap, body: Bytes) -> Self {
        let content_type = headers.get(CONTENT_TYPE).cloned();
        let objects = TemplateObjects::new(ClientMessage { content_type, body });
        let identifiers = Plaintext::new(Map::new().into());
        let (mask_work, inline_bytes, hides_answer) = (0, 0, false);
        Self { inputs, objects, identifiers, mask_work, inline_bytes, hides_answer }
    }

    /// The bytes of the client's message that its templates parse.
    pub(crate) fn unread_bytes(&self, transforms: &[ProxyTransform]) -> usize {
        let templates = transforms.iter().filter_map(|it| parse_template(it).ok().flatten());
        templates.map(|it| self.objects.unread_bytes(&it, None)).max().unwrap_or(0)
    }

    /// Checks the values that templates read from the client's message, before a token is loaded.
    ///
    /// Errors: a value contains `{{` in a call that evaluates expressions, or would keep a CVC; or
    /// the message cannot be parsed.
    pub(crate) fn check_client_message(
        &mut self,
        transforms: &[ProxyTransform],
        list: TransformKind,
    ) -> Result<(), ProxyError> {
        if !self.inputs.rules.applies(DisclosureRule::TemplatesReadClientMessage) {
            return Ok(());
        }
        for (index, transform) in transforms.iter().enumerate() {
            let checked = self.check_template_reads(transform);
            checked.map_err(|error| error.explain(index, list))?;
        }
        Ok(())
    }

    fn check_template_reads(&mut self, transform: &ProxyTransform) -> Result<(), TransformError> {
        const REQUEST: &str = "req";
        let Some(template) = parse_template(transform)? else { return Ok(()) };
        if !template.can_read(&[REQUEST]) {
            return Ok(());
        }
        self.objects.read_request(&template, self.inputs.work)?;
        let objects = self.objects.values();
        let leaves = template.leaves();
        let mut reads = leaves.iter().flat_map(|(_, text)| text.reads());
        let has_braces = |it: MessageRead<'_>| {
            it.object == REQUEST && it.find(objects).is_some_and(tokenize::contains_braces)
        };
        if self.inputs.evaluates_expressions && reads.any(has_braces) {
            return Err(TransformError::Rule(tokenize::BRACES_RULE));
        }
        match transform {
            ProxyTransform::Tokenize { token, .. } => {
                tokenize::check_cvc(token, &template, REQUEST, objects)
            }
            ProxyTransform::Code { .. }
            | ProxyTransform::Mask { .. }
            | ProxyTransform::OversizedMask
            | ProxyTransform::RejectedTemplate
            | ProxyTransform::AppendJson { .. }
            | ProxyTransform::AppendText { .. }
            | ProxyTransform::AppendHeader { .. } => Ok(()),
        }
    }

    /// The call used a token that its sender may not read, so an answer can contain its data.
    /// Errors: a transform copies the answer into another attribute of a token than `data`.
    pub(crate) fn hide_answer(&mut self, transforms: &[ProxyTransform]) -> Result<(), ProxyError> {
        if !self.inputs.rules.applies(DisclosureRule::TemplatesReadClientMessage) {
            return Ok(());
        }
        self.hides_answer = true;
        if transforms.iter().any(|it| tokenize::copies_object(it, "res")) {
            return Err(Error::Forbidden(Denial::HiddenAnswer).into());
        }
        Ok(())
    }

    /// Applies the transform with this index in its list. It can take long: see
    /// [`TransformRun::apply_inline`].
    /// Errors: the transform cannot be applied to this message.
    pub fn apply(
        &mut self,
        index: usize,
        transform: &ProxyTransform,
        target: &mut TransformTarget<'_>,
    ) -> Result<TransformEffect, ProxyError> {
        let kind = target.kind();
        let result = self.apply_unchecked(transform, target, TransformThread::Slot);
        result.map_err(|error| error.explain(index, kind))
    }

    /// Like [`TransformRun::apply`], for a worker of the async runtime. Returns `None` if the
    /// transform takes too long for it; then the message is unchanged.
    ///
    /// Errors: the transform cannot be applied to this message.
    pub(crate) fn apply_inline(
        &mut self,
        index: usize,
        transform: &ProxyTransform,
        target: &mut TransformTarget<'_>,
    ) -> Result<Option<TransformEffect>, ProxyError> {
        let kind = target.kind();
        match self.apply_unchecked(transform, target, TransformThread::Worker) {
            Err(TransformError::Work) => Ok(None),
            Ok(effect) => Ok(Some(effect)),
            Err(error) => Err(error.explain(index, kind)),
        }
    }

    fn mask(
        &mut self,
        matcher: &MaskMatcher,
        replacement: char,
        target: &mut TransformTarget<'_>,
        thread: TransformThread,
    ) -> Result<(), TransformError> {
        let work_max = match thread {
            TransformThread::Worker => INLINE_MASK_WORK_MAX,
            TransformThread::Slot => MASK_WORK_MAX,
        };
        let allowed = work_max.saturating_sub(self.mask_work);
        let (work, bytes_max) = (WorkAllowance::new(allowed), self.inputs.bytes_max);
        let mut edit = MaskEdit { matcher, replacement, bytes_max, work };
        let masked = match target {
            TransformTarget::Request(message) => message.mask(&mut edit),
            TransformTarget::Response { message, .. } => {
                self.objects.forget_response();
                edit.apply_to_answer(message)
            }
        };
        let done = allowed.saturating_sub(edit.work.left());
        self.mask_work = self.mask_work.saturating_add(done);
        masked
    }

    /// Counts the bytes that the transform reads.
    fn charge_bytes(
        &mut self,
        transform: &ProxyTransform,
        template: Option<&MessageTemplate>,
        target: &TransformTarget<'_>,
        thread: TransformThread,
    ) -> Result<(), TransformError> {
        // The whole body is scanned for the location, or for fields of a form, and copied.
        const SCANS: usize = 2;
        let is_body_scanned = matches!(
            transform,
            ProxyTransform::AppendJson { .. } | ProxyTransform::AppendText { .. }
        );
        let scanned_bytes =
            if is_body_scanned { target.body_length().saturating_mul(SCANS) } else { 0 };
        let read_bytes = template.map_or(0, |it| self.objects.unread_bytes(it, target.response()));
        if thread == TransformThread::Worker {
            let inline_bytes =
                self.inline_bytes.saturating_add(read_bytes).saturating_add(scanned_bytes);
            if inline_bytes > INLINE_BYTES_MAX {
                return Err(TransformError::Work);
            }
            self.inline_bytes = inline_bytes;
        }
        let charged = charge_message_bytes(self.inputs.work, scanned_bytes);
        charged.map_err(|error| TransformError::Failed(Box::new(error.into())))
    }

    fn apply_unchecked(
        &mut self,
        transform: &ProxyTransform,
        target: &mut TransformTarget<'_>,
        thread: TransformThread,
    ) -> Result<TransformEffect, TransformError> {
        if target.is_encoded() {
            return Err(TransformError::Rule(ENCODED_RULE));
        }
        let template = parse_template(transform)?;
        if let TransformTarget::Request(message) = target
            && let Some((content_type, body)) =
                message.detokenized_for_control_run(self.inputs.rules)
        {
            self.objects.replace_request(content_type, body);
        }
        self.charge_bytes(transform, template.as_ref(), target, thread)?;
        if let Some(template) = &template {
            self.objects.read(template, target.response(), self.inputs.work)?;
        }
        match (transform, &template) {
            (ProxyTransform::Code { .. }, _) => return Err(TransformError::Code),
            (ProxyTransform::OversizedMask, _) => return Err(TransformError::Rule(OVERSIZED_RULE)),
            (ProxyTransform::Mask { matcher, replacement }, _) => {
                self.mask(matcher, *replacement, target, thread)?;
            }
            (ProxyTransform::Tokenize { token, .. }, Some(template)) => {
                return self.build_token(token, template, target).map(TransformEffect::CreateToken);
            }
            (transform, Some(template)) => match target {
                TransformTarget::Request(message) => {
                    self.append_to_request(transform, template, message)?;
                }
                TransformTarget::Response { message, .. } => {
                    self.append_to_response(transform, template, message)?;
                }
            },
            (_, None) => return Err(TransformError::Rule(REJECTED_RULE)),
        }
        Ok(TransformEffect::Done)
    }

    fn append_to_request(
        &mut self,
        transform: &ProxyTransform,
        template: &MessageTemplate,
        message: &mut OutgoingMessage,
    ) -> Result<(), TransformError> {
        let TransformInputs { configuration, work, fill_random, bytes_max, counting, .. } =
            self.inputs;
        let inputs = TemplateInputs { configuration, work, fill_random, counting };
        let objects = self.objects.values_mut();
        let value = evaluate_template(template, objects, self.identifiers.expose(), inputs)?;
        match transform {
            ProxyTransform::AppendJson { location, .. } => {
                message.append_json(location, &value, bytes_max)
            }
            ProxyTransform::AppendText { .. } => message.append_text(&value, bytes_max),
            ProxyTransform::AppendHeader { name, .. } => message.append_header(name, &value),
            ProxyTransform::Code { .. }
            | ProxyTransform::Mask { .. }
            | ProxyTransform::OversizedMask
            | ProxyTransform::RejectedTemplate
            | ProxyTransform::Tokenize { .. } => Err(TransformError::Rule(REJECTED_RULE)),
        }
    }

    fn append_to_response(
        &mut self,
        transform: &ProxyTransform,
        template: &MessageTemplate,
        message: &mut TransformMessage,
    ) -> Result<(), TransformError> {
        let (value, bytes_max) = (self.evaluate(template)?, self.inputs.bytes_max);
        match transform {
            ProxyTransform::AppendJson { location, .. } => {
                self.objects.forget_response();
                let limits = append::JsonLimits { bytes_max, depth_max: DEPTH_MAX };
                append::append_json(message, location, value.expose(), limits)
            }
            ProxyTransform::AppendText { .. } => {
                self.objects.forget_response();
                let text = append::render_text(value.expose())?;
                append::append_text(message, text.as_slice(), bytes_max)
            }
            ProxyTransform::AppendHeader { name, .. } => {
                append::append_header(&mut message.headers, name, value.expose())
            }
            ProxyTransform::Code { .. }
            | ProxyTransform::Mask { .. }
            | ProxyTransform::OversizedMask
            | ProxyTransform::RejectedTemplate
            | ProxyTransform::Tokenize { .. } => Err(TransformError::Rule(REJECTED_RULE)),
        }
    }

    fn build_token(
        &self,
        token: &Value,
        template: &MessageTemplate,
        target: &TransformTarget<'_>,
    ) -> Result<CollectedToken, TransformError> {
        let reads_answer = target.response().is_some() && template.can_read(&["res"]);
        if reads_answer {
            tokenize::check_cvc(token, template, "res", self.objects.values())?;
        }
        if let Some(name) = tokenize::find_encrypted(template) {
            let encrypted = self.inputs.encrypted;
            let is_from_browser = self.inputs.is_from_browser;
            let data = encrypted.and_then(|it| it.collect_data(name.as_deref(), is_from_browser));
            let declared_type = token.get("type").and_then(Value::as_str);
            let data = data.filter(|it| Some(it.token_type().as_str()) == declared_type);
            let data = data.ok_or(TransformError::Rule(ENCRYPTED_RULE))?;
            let mut rest = token.clone();
            // The data takes this place after the request was parsed.
            if let Value::Object(members) = &mut rest {
                members.insert("data".to_owned(), Value::String(String::new()));
            }
            let template = MessageTemplate::parse(&rest, ExpressionPlace::Transform)
                .map_err(TransformError::Expression)?;
            let body = self.evaluate(&template)?;
            tokenize::check_expressions(&rest, body.expose())?;
            return Ok(CollectedToken { body, data: CollectedTokenData::Encrypted(data) });
        }
        let body = self.evaluate(template)?;
        tokenize::check_expressions(token, body.expose())?;
        let is_hidden = self.hides_answer && reads_answer;
        let data =
            if is_hidden { CollectedTokenData::HiddenInBody } else { CollectedTokenData::InBody };
        Ok(CollectedToken { body, data })
    }

    /// Evaluates a template without the configuration.
    fn evaluate(&self, template: &MessageTemplate) -> Result<Plaintext, TransformError> {
        let message_inputs = MessageInputs {
            references: &NoReferences,
            configuration: &Value::Null,
            identifiers: self.identifiers.expose(),
            objects: self.objects.values(),
        };
        let evaluate = |scope: &Scope<'_>| template.evaluate(&message_inputs, scope);
        let TransformInputs { work, fill_random, .. } = self.inputs;
        let value = evaluate_message(work, fill_random, ValueCounting::Exact, evaluate);
        let value = value.map_err(|error| TransformError::Failed(Box::new(error.into())))?;
        value.map(Plaintext::new).map_err(TransformError::Expression)
    }

    /// Makes a created token available to later transforms. `token` is the JSON that the client may
    /// see: it must not contain the data.
    pub(crate) fn bind_token(&mut self, identifier: &str, mut token: Plaintext) {
        if let Value::Object(identifiers) = self.identifiers.expose_mut() {
            identifiers.insert(identifier.to_owned(), std::mem::take(token.expose_mut()));
        }
    }

    /// Forgets the tokens and the masks of a rehearsal.
    pub(crate) fn end_rehearsal(&mut self) {
        self.identifiers = Plaintext::new(Map::new().into());
        self.mask_work = 0;
    }
}

#[cfg(test)]
mod tests;
