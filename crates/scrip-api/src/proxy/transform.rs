//! Transforms without code: they change a message between the client and the destination.
//!
//! A transform is never skipped. If it cannot be applied, the message is not passed on, because
//! leaving out a mask would show what it hides.

mod append;
pub mod mask;
mod match_finder;
mod objects;
mod stratus;
mod tokenize;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use scrip_core::{
    error::FieldError,
    proxy::{ProxyTransform, transform::MaskMatcher},
    token::{AttributePath, Plaintext, WorkMeter, expression::message::evaluate_message},
};
use scrip_expression::{
    ExpressionPlace, LeafError, MessageInputs, MessageTemplate, NoReferences, Scope,
};
use serde_json::{Map, Value};

use self::{
    match_finder::{WorkAllowance, WorkExceeded},
    objects::{ClientMessage, build_objects},
};
use crate::proxy::error::{CallDelivery, ProxyError};

/// A request or a response between two transforms.
#[derive(Debug, Clone)]
pub struct TransformMessage {
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransformDirection {
    Request,
    /// The destination answered with this status.
    Response(StatusCode),
}

/// What all transforms of a call share.
#[derive(Debug, Clone, Copy)]
pub struct TransformInputs<'c> {
    /// The configuration of the proxy, an object of texts.
    pub configuration: &'c Value,
    /// The data that the client encrypted for the call. Only `tokenize` transforms can read it: it
    /// must not reach the client through a response.
    pub encrypted: Option<&'c Value>,
    pub work: &'c WorkMeter,
    pub fill_random: fn(&mut [u8]),
    /// The maximum length of a transformed body.
    pub bytes_max: usize,
}

/// The transforms of one call, of its request and then of its response.
#[derive(Debug)]
pub struct TransformRun<'c> {
    inputs: TransformInputs<'c>,
    /// The request as the client sent it. `req` of a response transform reads it: the detokenized
    /// body must not reach the client through a response.
    client_message: ClientMessage,
    /// The tokens that transforms created, by identifier.
    identifiers: Plaintext,
    /// The work that the masks of the call have done.
    mask_work: AtomicU64,
}

/// All masks of a call may do this work together. It takes at most about 0.3 seconds.
pub const MASK_WORK_MAX: u64 = 40_000_000;
/// The masks of a call may do this work on a worker of the async runtime. It takes at most about a
/// millisecond.
pub const INLINE_MASK_WORK_MAX: u64 = 150_000;

/// The effect of a transform.
#[derive(Debug)]
pub enum TransformEffect {
    /// The message is changed.
    Done,
    /// Create a token from this body of a create-token request, then call
    /// [`TransformRun::bind_token`].
    CreateToken(Plaintext),
}

/// Headers that describe the bytes of a body. They are wrong after a change.
const BODY_DIGESTS: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

const WORK_RULE: &str =
    "cannot be applied: the masks of the proxy need too much work for this body";
const OVERSIZED_RULE: &str = "cannot be applied: the expression of the mask has too many steps";
const ENCODED_RULE: &str = "cannot be applied: the body has a Content-Encoding";

impl<'c> TransformRun<'c> {
    /// `headers` and `body` are those of the client, before any change.
    #[must_use]
    pub fn new(inputs: TransformInputs<'c>, headers: &HeaderMap, body: Bytes) -> Self {
        let content_type = headers.get(CONTENT_TYPE).cloned();
        let client_message = ClientMessage { content_type, body };
        let (identifiers, mask_work) = (Plaintext::new(Map::new().into()), AtomicU64::new(0));
        Self { inputs, client_message, identifiers, mask_work }
    }

    /// Applies the transform with this index in its list. A mask can take long: see
    /// [`TransformRun::apply_inline`].
    ///
    /// # Errors
    /// The transform cannot be applied to this message.
    pub fn apply(
        &self,
        index: usize,
        transform: &ProxyTransform,
        message: &mut TransformMessage,
        direction: TransformDirection,
    ) -> Result<TransformEffect, ProxyError> {
        let result = self.apply_unchecked(transform, message, direction, MASK_WORK_MAX);
        result.map_err(|error| error.explain(index, direction))
    }

    /// Like [`TransformRun::apply`], for a worker of the async runtime. Returns `None` if a mask
    /// takes too long for it; then the message is unchanged.
    ///
    /// # Errors
    /// The transform cannot be applied to this message.
    pub fn apply_inline(
        &self,
        index: usize,
        transform: &ProxyTransform,
        message: &mut TransformMessage,
        direction: TransformDirection,
    ) -> Result<Option<TransformEffect>, ProxyError> {
        match self.apply_unchecked(transform, message, direction, INLINE_MASK_WORK_MAX) {
            Err(TransformError::Work) => Ok(None),
            Ok(effect) => Ok(Some(effect)),
            Err(error) => Err(error.explain(index, direction)),
        }
    }

    fn mask_body(
        &self,
        matcher: &MaskMatcher,
        replacement: char,
        body: &Bytes,
        mask_work_max: u64,
    ) -> Result<Bytes, TransformError> {
        let allowed = mask_work_max.saturating_sub(self.mask_work.load(Relaxed));
        let mut work = WorkAllowance::new(allowed);
        let masked = mask::mask_body(matcher, replacement, body, self.inputs.bytes_max, &mut work);
        self.mask_work.fetch_add(allowed.saturating_sub(work.left()), Relaxed);
        masked
    }

    fn apply_unchecked(
        &self,
        transform: &ProxyTransform,
        message: &mut TransformMessage,
        direction: TransformDirection,
        mask_work_max: u64,
    ) -> Result<TransformEffect, TransformError> {
        let mut encodings = message.headers.get_all(CONTENT_ENCODING).iter();
        if encodings.any(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(TransformError::Rule(ENCODED_RULE));
        }
        let bytes_max = self.inputs.bytes_max;
        match transform {
            ProxyTransform::Code { .. } => return Err(TransformError::Code),
            ProxyTransform::Mask { matcher, replacement } => {
                mask::check_charset(&message.headers)?;
                let body = self.mask_body(matcher, *replacement, &message.body, mask_work_max)?;
                message.change_body(body);
            }
            ProxyTransform::OversizedMask => return Err(TransformError::Rule(OVERSIZED_RULE)),
            ProxyTransform::Tokenize { token, .. } => {
                let body = self.evaluate_with(token, message, direction, self.inputs.encrypted)?;
                tokenize::check_expressions(token, body.expose())?;
                return Ok(TransformEffect::CreateToken(body));
            }
            ProxyTransform::AppendJson { location, value } => {
                let value = self.evaluate(&Value::String(value.clone()), message, direction)?;
                let body = append::append_json(&message.body, location, &value, bytes_max)?;
                message.change_body(body);
            }
            ProxyTransform::AppendText { value } => {
                let value = self.evaluate(&Value::String(value.clone()), message, direction)?;
                let body = append::append_text(&message.body, &value, bytes_max)?;
                message.change_body(body);
            }
            ProxyTransform::AppendHeader { name, value } => {
                let value = self.evaluate(&Value::String(value.clone()), message, direction)?;
                append::append_header(&mut message.headers, name, &value)?;
            }
        }
        Ok(TransformEffect::Done)
    }

    /// Evaluates the texts of a value.
    fn evaluate(
        &self,
        source: &Value,
        message: &TransformMessage,
        direction: TransformDirection,
    ) -> Result<Plaintext, TransformError> {
        self.evaluate_with(source, message, direction, None)
    }

    fn evaluate_with(
        &self,
        source: &Value,
        message: &TransformMessage,
        direction: TransformDirection,
        encrypted: Option<&Value>,
    ) -> Result<Plaintext, TransformError> {
        let template = MessageTemplate::parse(source, ExpressionPlace::Transform)
            .map_err(TransformError::Expression)?;
        let mut objects = build_objects(
            &template,
            message,
            direction,
            &self.client_message,
            self.inputs.configuration,
        )?;
        if let (Some(value), Value::Object(objects)) = (encrypted, objects.expose_mut())
            && template.can_read(&["encrypted"])
        {
            objects.insert("encrypted".to_owned(), value.clone());
        }
        let message_inputs = MessageInputs {
            references: &NoReferences,
            configuration: self.inputs.configuration,
            identifiers: self.identifiers.expose(),
            objects: objects.expose(),
        };
        let evaluate = |scope: &Scope<'_>| template.evaluate(&message_inputs, scope);
        let value = evaluate_message(self.inputs.work, self.inputs.fill_random, evaluate);
        let value = value.map_err(|error| TransformError::Failed(Box::new(error.into())))?;
        value.map(Plaintext::new).map_err(TransformError::Expression)
    }

    /// Makes a created token available to later transforms. `token` is the JSON that the client may
    /// see: it must not contain the data.
    pub fn bind_token(&mut self, identifier: &str, mut token: Plaintext) {
        if let Value::Object(identifiers) = self.identifiers.expose_mut() {
            identifiers.insert(identifier.to_owned(), std::mem::take(token.expose_mut()));
        }
    }
}

/// Rejects a call before anything is sent if one of its transforms cannot run.
///
/// # Errors
/// A transform is code.
pub fn check_transforms<'t>(
    transforms: impl IntoIterator<Item = &'t ProxyTransform>,
) -> Result<(), ProxyError> {
    let is_code = |it: &ProxyTransform| matches!(it, ProxyTransform::Code { .. });
    if transforms.into_iter().any(is_code) {
        return Err(TransformError::Code.explain(0, TransformDirection::Request));
    }
    Ok(())
}

impl TransformMessage {
    fn change_body(&mut self, body: Bytes) {
        if body != self.body {
            for name in BODY_DIGESTS {
                self.headers.remove(name);
            }
        }
        self.body = body;
    }
}

/// Why a transform cannot be applied.
#[derive(Debug)]
enum TransformError {
    /// The transform is code.
    Code,
    Rule(&'static str),
    Expression(LeafError),
    TooLarge,
    /// A mask needs more work than allowed.
    Work,
    Failed(Box<ProxyError>),
}

impl From<WorkExceeded> for TransformError {
    fn from(WorkExceeded: WorkExceeded) -> Self {
        Self::Work
    }
}

impl TransformError {
    fn explain(self, index: usize, direction: TransformDirection) -> ProxyError {
        let list = match direction {
            TransformDirection::Request => "request_transforms",
            TransformDirection::Response(_) => "response_transforms",
        };
        let path = format!("{list}[{index}]");
        let error = match self {
            Self::Code => ProxyError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                CallDelivery::NotSent,
                "the proxy has a code transform, which this server cannot run",
            ),
            Self::Rule(rule) => ProxyError::invalid(path, rule),
            Self::Work => ProxyError::invalid(path, WORK_RULE),
            Self::Expression(error) => {
                let steps = AttributePath::from_steps(&error.path);
                let field =
                    FieldError::from_expression_error(steps.as_str().to_owned(), error.cause);
                field.prefix_path(&path).into()
            }
            Self::TooLarge => ProxyError::too_large(),
            Self::Failed(error) => *error,
        };
        match direction {
            TransformDirection::Request => error,
            TransformDirection::Response(status) => error.after_answer(status),
        }
    }
}

#[cfg(test)]
mod tests;
