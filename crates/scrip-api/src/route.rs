//! Types of the route tables, and the requests that handlers receive.

pub(crate) mod proxy_path;

use std::{future::Future, net::IpAddr, pin::Pin, sync::Arc};

use axum::{body::Body, response::Response, routing::MethodFilter};
use bytes::Bytes;
use hyper::{header::HeaderValue, http::request::Parts};
use scrip_core::{
    Error,
    idempotency::{IdempotencyClaim, RenderedResponse, ResponseRecorder},
    policy::{Caller, CallerRequirement, Directory, PolicyPermit, RequestOrigin},
    types::Operation,
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use zeroize::Zeroizing;

use crate::{app::App, problem::Problem, trace_id::TraceId};

/// The result of a handler.
pub(crate) type Handled = Result<Response, Problem>;
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// One row of the route table: everything that is decided about a route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub operation: Operation,
    pub(crate) method: MethodFilter,
    pub path: &'static str,
    pub requirement: CallerRequirement,
    pub(crate) body: BodyKind,
    /// The number of parameters in the path.
    pub(crate) path_parameter_count: usize,
    pub(crate) handler: fn(AuthenticatedRequest) -> HandlerFuture,
}

impl Route {
    pub fn method_name(&self) -> &'static str {
        let names = [
            (MethodFilter::GET, "GET"),
            (MethodFilter::POST, "POST"),
            (MethodFilter::PUT, "PUT"),
            (MethodFilter::PATCH, "PATCH"),
            (MethodFilter::DELETE, "DELETE"),
        ];
        names.into_iter().find(|(it, _)| *it == self.method).map_or("", |(_, name)| name)
    }
}

/// The request body that a route accepts. Routes that read a body and change data honor an
/// idempotency key; other routes ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    None,
    /// The body is not read, but the idempotency key is honored.
    Ignored,
    Json,
    /// JSON, or no body at all.
    OptionalJson,
    /// JSON of a request that changes nothing, or nothing more when it is repeated: no response is
    /// stored.
    ReadOnlyJson,
    MergePatch,
}

impl BodyKind {
    /// Whether a response is stored for a request with an idempotency key.
    pub(crate) fn is_idempotent(self) -> bool {
        match self {
            Self::Ignored | Self::Json | Self::OptionalJson | Self::MergePatch => true,
            Self::None | Self::ReadOnlyJson => false,
        }
    }

    /// The required `Content-Type`.
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Ignored => None,
            Self::Json | Self::OptionalJson | Self::ReadOnlyJson => Some("application/json"),
            Self::MergePatch => Some("application/merge-patch+json"),
        }
    }
}

/// The request that the handler of a keyed route receives.
pub(crate) struct AuthenticatedRequest {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) requirement: CallerRequirement,
    /// The first parameter of the path; empty if the path has none.
    pub(crate) id: String,
    pub(crate) inner_id: String,
    pub(crate) query: Option<String>,
    /// The `Accept` header of the request.
    pub(crate) accept: Option<HeaderValue>,
    pub(crate) body: Bytes,
    pub(crate) claim: Option<IdempotencyClaim>,
}

impl AuthenticatedRequest {
    pub(crate) fn policy_permit(&self) -> Result<PolicyPermit, Problem> {
        Ok(self.caller.permit_policy(self.requirement)?)
    }

    /// Returns the recorder that stores the response, if the request has an idempotency key.
    pub(crate) fn response_recorder<T: ?Sized>(
        &mut self,
        render: impl Fn(&T) -> RenderedResponse + Send + Sync + 'static,
    ) -> Option<ResponseRecorder<T>> {
        self.claim.take().map(|claim| ResponseRecorder::new(claim, render))
    }
}

/// A request on its way through the pipeline.
pub(crate) struct IncomingRequest {
    pub(crate) head: Parts,
    pub(crate) body: Body,
    pub(crate) trace: TraceId,
    pub(crate) address: IpAddr,
}

/// Parses an id from the path. Text that is not an id is a 404, the same as an unknown id.
pub(crate) fn parse_path_id<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Problem> {
    parse(text).ok_or(Problem::Failed(Error::NotFound))
}

/// A route for notifications of browsers and directory servers, which have no API key.
pub(crate) struct CallbackRoute {
    pub(crate) operation: Operation,
    pub(crate) path: &'static str,
    pub(crate) format: CallbackFormat,
    /// Renders a rejection in the format that the sender expects.
    pub(crate) render_rejection: fn(Response, &Problem) -> Response,
    pub(crate) handler: fn(CallbackRequest) -> HandlerFuture,
}

/// The required format of a callback body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallbackFormat {
    pub(crate) content_type: &'static str,
    pub(crate) needs_length: bool,
    pub(crate) bytes_max: usize,
}

impl CallbackFormat {
    /// Posted by a page. A person sees the response.
    pub(crate) const FORM: Self = Self {
        content_type: "application/x-www-form-urlencoded",
        needs_length: true,
        bytes_max: 64 * 1024,
    };
    /// Posted by a directory server, which may use chunked encoding.
    pub(crate) const MESSAGE: Self = Self {
        content_type: "application/json",
        needs_length: false,
        bytes_max: MESSAGE_BYTES_MAX,
    };
}

/// The request that the handler of a callback receives.
pub(crate) struct CallbackRequest {
    pub(crate) app: Arc<App>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) origin: RequestOrigin,
    pub(crate) id: String,
    pub(crate) secret: Zeroizing<String>,
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
}

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A route that needs no API key.
pub(crate) struct KeylessRoute {
    pub(crate) address_limit: AddressLimit,
    pub(crate) path: &'static str,
    pub(crate) handler: fn(Arc<App>, TraceId) -> ResponseFuture,
}

/// The `Cache-Control` of a response that is the same for all clients. A header of a handler has no
/// effect: a proxied answer must not be cached, whatever its destination says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublicCacheControl(pub(crate) &'static str);

/// Whether requests count toward the rate limit of the client address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressLimit {
    /// For probes: orchestrators must always receive a response.
    Exempt,
    Counted,
}

pub(crate) const fn count_path_parameters(path: &str) -> usize {
    let mut count = 0_usize;
    let mut remaining = path.as_bytes();
    while let [byte, tail @ ..] = remaining {
        if *byte == b'{' {
            count = count.saturating_add(1);
        }
        remaining = tail;
    }
    count
}
