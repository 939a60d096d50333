//! Passes the answer of a destination on: streamed if possible, and stored for repetitions of a call
//! with an idempotency key.

use std::{
    borrow::Cow,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, StatusCode,
    body::{Body as HttpBody, Frame, SizeHint},
    header::{CONTENT_RANGE, HeaderName, HeaderValue},
};
use scrip_core::{
    equality::EvaluatedEntity,
    idempotency::CallResponse,
    operations::proxy_calls::{
        finish_proxy_call::CallOutcome, use_tokens::count_rejected_evaluation,
    },
};
use scrip_egress::{BodyError, EgressBody};

use crate::{
    app::{App, body_memory::BodyReservation, failed_call_log::CallFailureCause},
    metrics::CallFailureReason,
    middleware::body::ResponseBudget,
    proxy::{
        call::{
            exchange::{CallEnd, SentCall},
            plan::CallPlan,
            received_call::ReceivedCall,
            selection::CallEntry,
            transforms::{CallTransforms, TokenStorage},
        },
        edits::TransformMessage,
        error::{CallDelivery, ProxyError},
        headers::{filter_replayed_headers, forward_response_headers},
        transform::TransformTarget,
    },
};

/// Marks a response with a body that is still being received. Its connection is in use until the
/// body ends.
#[derive(Debug, Clone, Copy)]
pub struct StreamedAnswer;

/// Answers up to this size are collected: the connection to the destination is free earlier, and an
/// incomplete answer becomes an error instead of a broken response.
const COLLECTED_BYTES_MAX: u64 = 64 * 1024;

/// A mask does not match a part of a value.
const PARTIAL_RULE: &str = "cannot be applied: the destination answered with a part only";

/// Builds the response of a call.
pub(super) struct AnswerBuilder<'a, 'c> {
    pub(super) app: &'a App,
    pub(super) call: &'a ReceivedCall,
    pub(super) plan: &'a CallPlan,
    pub(super) transforms: Option<&'a mut CallTransforms<'c>>,
    /// Whether the answer is stored for repetitions.
    pub(super) is_stored: bool,
    /// Whether the sender may learn why a transform failed.
    pub(super) is_explained: bool,
    /// The data that the sender may not read. The answer can repeat it.
    pub(super) hidden_data: Vec<EvaluatedEntity>,
    /// The memory of the call. It also counts an answer while the answer is collected.
    pub(super) reservation: BodyReservation,
}

/// Why an answer is not collected.
enum CollectError {
    Body(BodyError),
    NoMemory,
}

const TRANSFORM_CAUSE: &str = "a transform cannot be applied to the answer";
const MEMORY_RULE: &str = "the memory for the answers of destinations is used up";

impl AnswerBuilder<'_, '_> {
    /// Passes the answer on and records the outcome of the call.
    /// Errors: the answer is incomplete or too large, or a transform cannot be applied to it.
    pub(super) async fn pass_on(
        mut self,
        mut sent: SentCall<'_>,
        answer: hyper::Response<EgressBody>,
    ) -> Result<Response, ProxyError> {
        let (head, body) = answer.into_parts();
        let (status, bytes_max) =
            (head.status, self.app.egress.proxied_calls.limits.body_bytes_max);
        let length = HttpBody::size_hint(&body);
        let length_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        if length.lower() > length_max {
            return Err(self.fail(sent, status, CollectError::Body(BodyError::TooLarge)).await);
        }
        let is_transformed = status.is_success() && !self.plan.response_transforms().is_empty();
        let short_length = length.exact().filter(|it| *it <= COLLECTED_BYTES_MAX);
        let short_length = short_length.and_then(|it| usize::try_from(it).ok());
        // Without memory, an answer that need not be collected is passed on while it arrives.
        let is_short = !is_transformed
            && short_length.is_some_and(|it| self.reservation.grow_for_answer(it).is_ok());
        if is_transformed || is_short {
            let collected = match is_short {
                true => body.collect(bytes_max).await.map_err(CollectError::Body),
                false => self.collect_counted(body.with_max_bytes(length_max)).await,
            };
            let collected = match collected {
                Ok(collected) => collected,
                Err(error) => return Err(self.fail(sent, status, error).await),
            };
            let mut message = TransformMessage { headers: head.headers, body: collected };
            let transformed = match is_transformed {
                true => self.transform(&mut message, status).await,
                false => Ok(()),
            };
            if let Some(transforms) = &mut self.transforms {
                sent.add_created_tokens(&transforms.take_created_tokens());
            }
            if let Err(error) = transformed {
                let error = match self.count_failure().await {
                    Ok(()) => error,
                    Err(count_error) => count_error,
                };
                let failure = CallFailureReason::Transform;
                let cause = CallFailureCause::new(failure, TRANSFORM_CAUSE);
                let error = error.with_logged_cause(cause).after_answer(status);
                let error = if self.is_explained { error } else { error.without_cause() };
                let end = CallEnd { status: error.status(), failure: Some(failure) };
                sent.finish_without_response(status, end).await;
                self.app.metrics.proxy_failures.increment(failure);
                return Err(error);
            }
            let headers = self.forward_headers(&message.headers, status);
            return Ok(self.respond_collected(sent, status, headers, message.body).await);
        }
        let headers = self.forward_headers(&head.headers, status);
        let body = body.with_max_bytes(length_max);
        let stored_bytes = CallResponse::BODY_BYTES_MAX;
        if self.is_stored && self.reservation.grow_for_answer(stored_bytes).is_ok() {
            return self.respond_stored(sent, status, headers, body).await;
        }
        sent.finish_without_response(status, CallEnd { status, failure: None }).await;
        Ok(respond_streamed(status, headers, Body::new(body)))
    }

    /// Records the outcome of a call with an answer that the client does not get.
    async fn fail(
        &self,
        sent: SentCall<'_>,
        status: StatusCode,
        error: CollectError,
    ) -> ProxyError {
        let (end_status, reason, detail) = match error {
            CollectError::Body(error) => {
                let (status, reason) = classify_body_error(&error);
                (status, reason, error.to_string().into())
            }
            CollectError::NoMemory => (
                StatusCode::SERVICE_UNAVAILABLE,
                CallFailureReason::Overloaded,
                Cow::Borrowed(MEMORY_RULE),
            ),
        };
        let end = CallEnd { status: end_status, failure: Some(reason) };
        sent.finish_without_response(status, end).await;
        self.app.metrics.proxy_failures.increment(reason);
        let cause = CallFailureCause::new(reason, detail.clone());
        ProxyError::new(end_status, CallDelivery::Answered, detail)
            .with_logged_cause(cause)
            .after_answer(status)
    }

    /// Counts a failed transform for the data that the answer can repeat.
    async fn count_failure(&self) -> Result<(), ProxyError> {
        let Some(caller) = self.call.party.caller() else { return Ok(()) };
        Ok(count_rejected_evaluation(&self.app.vault, caller, &self.hidden_data).await?)
    }

    /// Collects an answer and counts its bytes as they arrive.
    async fn collect_counted(&mut self, mut body: EgressBody) -> Result<Bytes, CollectError> {
        let mut collected = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(CollectError::Body)?.into_data() else { continue };
            let grown = self.reservation.grow_for_answer(data.len());
            grown.map_err(|_| CollectError::NoMemory)?;
            collected.extend_from_slice(&data);
        }
        Ok(collected.freeze())
    }

    fn forward_headers(&self, headers: &HeaderMap, status: StatusCode) -> HeaderMap {
        forward_response_headers(headers, status, self.call.entry.response_origin())
    }

    async fn transform(
        &mut self,
        message: &mut TransformMessage,
        status: StatusCode,
    ) -> Result<(), ProxyError> {
        let is_partial = matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::IM_USED);
        if is_partial || message.headers.contains_key(CONTENT_RANGE) {
            return Err(ProxyError::invalid("response_transforms", PARTIAL_RULE));
        }
        let Some(transforms) = &mut self.transforms else { return Ok(()) };
        let mut target = TransformTarget::Response { message, status };
        let list = self.plan.response_transforms();
        transforms.apply(list, &mut target, TokenStorage::Store).await
    }

    async fn respond_collected(
        &self,
        sent: SentCall<'_>,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response {
        let is_storable = self.is_stored && body.len() <= CallResponse::BODY_BYTES_MAX;
        let response = is_storable.then(|| to_stored_response(status, &headers, &body));
        let outcome = CallOutcome::Answered { status: status.as_u16(), response };
        sent.finish(outcome, CallEnd { status, failure: None }).await;
        let address = self.call.party.origin().address;
        let body = ResponseBudget::new(self.app, address).count_answer(body);
        build_response(status, headers, Body::from(body))
    }

    /// Reads as much as is stored. A longer answer is passed on while it arrives, and a repetition
    /// of the call is rejected.
    async fn respond_stored(
        &self,
        sent: SentCall<'_>,
        status: StatusCode,
        headers: HeaderMap,
        mut body: EgressBody,
    ) -> Result<Response, ProxyError> {
        let mut start = BytesMut::new();
        while start.len() <= CallResponse::BODY_BYTES_MAX {
            match body.frame().await {
                None => {
                    return Ok(self.respond_collected(sent, status, headers, start.freeze()).await);
                }
                Some(Err(error)) => {
                    return Err(self.fail(sent, status, CollectError::Body(error)).await);
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        start.extend_from_slice(&data);
                    }
                }
            }
        }
        sent.finish_without_response(status, CallEnd { status, failure: None }).await;
        let body = PrefixedBody { prefix: Some(start.freeze()), rest: body };
        Ok(respond_streamed(status, headers, Body::new(body)))
    }
}

/// The status for the client, and the reason for metrics and for the event of the call.
fn classify_body_error(error: &BodyError) -> (StatusCode, CallFailureReason) {
    match error {
        BodyError::TooLarge => (StatusCode::BAD_GATEWAY, CallFailureReason::TooLarge),
        BodyError::Timeout => (StatusCode::REQUEST_TIMEOUT, CallFailureReason::Timeout),
        BodyError::Closed => (StatusCode::BAD_GATEWAY, CallFailureReason::Closed),
        BodyError::Malformed => (StatusCode::BAD_GATEWAY, CallFailureReason::Malformed),
    }
}

/// The response of a repeated call, with the headers that its entry allows.
pub(super) fn replay_response(stored: CallResponse, entry: CallEntry) -> Response {
    let CallResponse { status, headers, body } = stored;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
            map.append(name, value);
        }
    }
    filter_replayed_headers(&mut map, entry.response_origin());
    build_response(status, map, Body::from(body))
}

fn to_stored_response(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> CallResponse {
    let headers =
        headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    CallResponse { status: status.as_u16(), headers: headers.collect(), body: body.to_vec() }
}

fn build_response(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

fn respond_streamed(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = build_response(status, headers, body);
    response.extensions_mut().insert(StreamedAnswer);
    response
}

/// The start of an answer that was already read, followed by its rest.
struct PrefixedBody {
    prefix: Option<Bytes>,
    rest: EgressBody,
}

impl HttpBody for PrefixedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.prefix.take() {
            Some(prefix) => Poll::Ready(Some(Ok(Frame::data(prefix)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_none() && HttpBody::is_end_stream(&self.rest)
    }

    fn size_hint(&self) -> SizeHint {
        let prefix = self.prefix.as_ref().map_or(0, Bytes::len);
        let prefix = u64::try_from(prefix).unwrap_or(u64::MAX);
        let rest = HttpBody::size_hint(&self.rest);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(prefix));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(prefix));
        }
        hint
    }
}
