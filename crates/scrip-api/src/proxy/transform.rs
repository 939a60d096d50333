//! Transforms without code: they change a message between the client and the destination.
//!
//! A transform is never skipped. If it cannot be applied, the message is not passed on, because
//! leaving out a mask would show what it hides.

mod message_marks;
mod objects;
mod properties;
pub mod tokenize;

use bytes::Bytes;
use hyper::{HeaderMap, header::CONTENT_TYPE};
use scrip_core::{
    Error,
    expression::{MessageThread, ValueCounting, charge_message_work, evaluate_message},
    policy::proxy::{
        ProxyTransform,
        transform::{
            JsonLocation, LocationStep, MaskMatcher, TemplateObject, TransformTemplate,
            template::EncryptedRead,
        },
    },
    types::{DisclosureRule, DisclosureRules, Plaintext, error::Denial},
    work_meter::WorkMeter,
};
use scrip_expression::{MessageInputs, MessageTemplate, NoReferences, Scope};
use serde_json::{Map, Value};

use self::objects::{ClientMessage, TemplateObjects};
pub use self::{
    message_marks::TransformTarget,
    properties::{
        check_hidden_body, check_property_names, hidden_body_work, stores_encrypted, writes_body,
    },
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
    /// The declared work that was done on a worker of the async runtime.
    inline_work: usize,
    /// Whether the call used a token that its sender may not read.
    hides_answer: bool,
}

/// All masks of a call may do this work together. It takes at most about 0.3 seconds.
pub(crate) const MASK_WORK_MAX: u64 = 40_000_000;
/// The masks of a call may do this work on a worker of the async runtime. It takes at most about a
/// millisecond.
pub const INLINE_MASK_WORK_MAX: u64 = 150_000;
/// The transforms of a call may do this declared work on a worker of the async runtime: as much as
/// parsing 64 KiB, which takes about a millisecond.
pub const INLINE_TRANSFORM_WORK_MAX: usize = 256 * 1024;

/// The effect of a transform.
#[derive(Debug)]
pub enum TransformEffect {
    /// The message is changed.
    Done,
    /// Create this token, then call [`TransformRun::bind_token`].
    CreateToken(CollectedToken),
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
        let (mask_work, inline_work, hides_answer) = (0, 0, false);
        Self { inputs, objects, identifiers, mask_work, inline_work, hides_answer }
    }

    /// Charges the work of [`TransformRun::check_client_message`] for all transforms of the call, and
    /// returns where the check must run.
    /// Errors: the call has used up its work.
    pub fn charge_client_check<'t>(
        &mut self,
        transforms: impl Iterator<Item = &'t ProxyTransform>,
    ) -> Result<MessageThread, Error> {
        if !self.inputs.rules.applies(DisclosureRule::TemplatesReadClientMessage) {
            return Ok(MessageThread::Worker);
        }
        let templates = transforms.filter_map(ProxyTransform::template);
        let (mut lookup_work, mut parse_work) = (0_usize, 0);
        for template in templates.filter(|it| it.can_read(TemplateObject::Request)) {
            lookup_work = lookup_work.saturating_add(template.lookup_work());
            // The message is parsed once.
            parse_work = self.objects.parse_work(template, None).max(parse_work);
        }
        let units = lookup_work.saturating_add(parse_work);
        let thread = match self.inline_work.saturating_add(units) <= INLINE_TRANSFORM_WORK_MAX {
            true => MessageThread::Worker,
            false => MessageThread::Slot,
        };
        self.charge_units(units, thread)?;
        Ok(thread)
    }

    /// Checks the values that templates read from the client's message, before a token is loaded. The
    /// work was charged by [`TransformRun::charge_client_check`].
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
        let template = transform.template().filter(|it| it.can_read(TemplateObject::Request));
        let Some(template) = template else { return Ok(()) };
        self.objects.read_request(template)?;
        let mut reads = template.reads(TemplateObject::Request);
        let has_braces = reads.any(|it| self.objects.marks(it).has_braces);
        if self.inputs.evaluates_expressions && has_braces {
            return Err(TransformError::Rule(tokenize::BRACES_RULE));
        }
        if matches!(transform, ProxyTransform::Tokenize { .. }) {
            tokenize::check_cvc(template, TemplateObject::Request, &self.objects)?;
        }
        Ok(())
    }

    /// The call used a token that its sender may not read, so an answer can contain its data.
    /// Errors: a transform copies the answer into another attribute of a token than `data`.
    pub(crate) fn hide_answer(&mut self, transforms: &[ProxyTransform]) -> Result<(), ProxyError> {
        if !self.inputs.rules.applies(DisclosureRule::TemplatesReadClientMessage) {
            return Ok(());
        }
        self.hides_answer = true;
        if transforms.iter().any(|it| tokenize::copies_object(it, TemplateObject::Response)) {
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
        let result = self.apply_unchecked(transform, target, MessageThread::Slot);
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
        match self.apply_unchecked(transform, target, MessageThread::Worker) {
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
        thread: MessageThread,
    ) -> Result<(), TransformError> {
        let work_max = match thread {
            MessageThread::Worker => INLINE_MASK_WORK_MAX,
            MessageThread::Slot => MASK_WORK_MAX,
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

    /// The work that a transform declares before it runs: looking up the values of its template,
    /// parsing the messages that it reads, and scanning the body. Evaluations and masks are charged on
    /// their own.
    fn count_work(&self, transform: &ProxyTransform, target: &TransformTarget<'_>) -> usize {
        let template = transform.template();
        let lookup_work = template.map_or(0, TransformTemplate::lookup_work);
        let parse_work = template.map_or(0, |it| self.objects.parse_work(it, target.response()));
        let scans = match transform {
            ProxyTransform::AppendJson { .. } if target.response().is_some() => ANSWER_SCANS,
            ProxyTransform::AppendJson { location, .. } => count_json_scans(location),
            ProxyTransform::AppendText { .. } if target.response().is_some() => ANSWER_SCANS,
            ProxyTransform::AppendText { .. } => FORM_SCANS,
            ProxyTransform::Code { .. }
            | ProxyTransform::Mask { .. }
            | ProxyTransform::OversizedMask
            | ProxyTransform::RejectedTemplate
            | ProxyTransform::Tokenize { .. }
            | ProxyTransform::AppendHeader { .. } => 0,
        };
        let scan_work = target.body_length().saturating_mul(scans);
        lookup_work.saturating_add(parse_work).saturating_add(scan_work)
    }

    /// Charges the declared work of a transform, before it runs.
    fn charge_transform(
        &mut self,
        transform: &ProxyTransform,
        target: &TransformTarget<'_>,
        thread: MessageThread,
    ) -> Result<(), TransformError> {
        let units = self.count_work(transform, target);
        let is_too_long = self.inline_work.saturating_add(units) > INLINE_TRANSFORM_WORK_MAX;
        if thread == MessageThread::Worker && is_too_long {
            return Err(TransformError::Work);
        }
        let charged = self.charge_units(units, thread);
        charged.map_err(|error| TransformError::Failed(Box::new(error.into())))
    }

    fn charge_units(&mut self, units: usize, thread: MessageThread) -> Result<(), Error> {
        if thread == MessageThread::Worker {
            self.inline_work = self.inline_work.saturating_add(units);
        }
        charge_message_work(self.inputs.work, units, thread)
    }

    fn apply_unchecked(
        &mut self,
        transform: &ProxyTransform,
        target: &mut TransformTarget<'_>,
        thread: MessageThread,
    ) -> Result<TransformEffect, TransformError> {
        if target.is_encoded() {
            return Err(TransformError::Rule(ENCODED_RULE));
        }
        if let TransformTarget::Request(message) = target
            && let Some((content_type, body)) =
                message.detokenized_for_control_run(self.inputs.rules)
        {
            self.objects.replace_request(content_type, body);
        }
        self.charge_transform(transform, target, thread)?;
        let template = transform.template();
        if let Some(template) = template {
            self.objects.read(template, target.response())?;
        }
        match (transform, template) {
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
        template: &TransformTemplate,
        message: &mut OutgoingMessage,
    ) -> Result<(), TransformError> {
        let TransformInputs { configuration, work, fill_random, bytes_max, counting, .. } =
            self.inputs;
        let inputs = TemplateInputs { configuration, work, fill_random, counting };
        let objects = self.objects.values_mut();
        let message_template = template.message();
        let value =
            evaluate_template(message_template, objects, self.identifiers.expose(), inputs)?;
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
        template: &TransformTemplate,
        message: &mut TransformMessage,
    ) -> Result<(), TransformError> {
        let (value, bytes_max) = (self.evaluate(template.message())?, self.inputs.bytes_max);
        match transform {
            ProxyTransform::AppendJson { location, .. } => {
                self.objects.forget_response();
                let edit = append::find_json_edit(message, location, DEPTH_MAX)?;
                append::write_json(message, &edit, value.expose(), bytes_max)
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
        template: &TransformTemplate,
        target: &TransformTarget<'_>,
    ) -> Result<CollectedToken, TransformError> {
        let reads_answer =
            target.response().is_some() && template.can_read(TemplateObject::Response);
        if reads_answer {
            tokenize::check_cvc(template, TemplateObject::Response, &self.objects)?;
        }
        if let Some(EncryptedRead { name, rest, rest_template }) = template.encrypted() {
            let encrypted = self.inputs.encrypted;
            let is_from_browser = self.inputs.is_from_browser;
            let data = encrypted.and_then(|it| it.collect_data(name.as_deref(), is_from_browser));
            let declared_type = token.get("type").and_then(Value::as_str);
            let data = data.filter(|it| Some(it.token_type().as_str()) == declared_type);
            let data = data.ok_or(TransformError::Rule(ENCRYPTED_RULE))?;
            let body = self.evaluate(rest_template)?;
            tokenize::check_expressions(rest, body.expose())?;
            return Ok(CollectedToken { body, data: CollectedTokenData::Encrypted(data) });
        }
        let body = self.evaluate(template.message())?;
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

/// An answer is validated, and copied.
const ANSWER_SCANS: usize = 2;
/// The fields of a form are decoded and looked up among the appended ones, and the body is copied.
const FORM_SCANS: usize = 4;

/// How often an append reads the JSON of a request: to validate it, to compare its names, and to find
/// the place and copy it. Letters that are no ASCII take longer to compare.
fn count_json_scans(location: &JsonLocation) -> usize {
    const ASCII_SCANS: usize = 3;
    const UNICODE_SCANS: usize = 8;
    let is_ascii = |step: &LocationStep| match step {
        LocationStep::Name(name) => name.as_str().is_ascii(),
        LocationStep::Index(_) => true,
    };
    if location.steps().iter().all(is_ascii) { ASCII_SCANS } else { UNICODE_SCANS }
}

#[cfg(test)]
mod tests;
