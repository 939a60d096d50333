//! What a row of the route table says, and what its handler is given.

use std::{future::Future, pin::Pin, sync::Arc};

use axum::{response::Response, routing::MethodFilter};
use bytes::Bytes;
use hyper::header::HeaderValue;
use scrip_core::{
    audit::Operation,
    error::Error,
    idempotency::{IdempotencyClaim, RenderedResponse, ResponseRecorder},
    policy::{Caller, CallerRequirement, Directory, PolicyPermit, RequestOrigin},
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use zeroize::Zeroizing;

use crate::{app::App, middleware::trace::TraceId, problem::Problem};

/// What a handler returns.
pub(crate) type Handled = Result<Response, Problem>;
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// One row: everything that is decided about a route, in one place.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub operation: Operation,
    pub(crate) method: MethodFilter,
    pub path: &'static str,
    pub requirement: CallerRequirement,
    pub(crate) body: BodyKind,
    /// How many names the path has.
    pub(crate) path_parameter_count: usize,
    pub(crate) handler: fn(AuthenticatedRequest) -> HandlerFuture,
}

impl Route {
    pub fn method_name(&self) -> &'static str {
        let known = [
            (MethodFilter::GET, "GET"),
            (MethodFilter::POST, "POST"),
            (MethodFilter::PUT, "PUT"),
            (MethodFilter::PATCH, "PATCH"),
            (MethodFilter::DELETE, "DELETE"),
        ];
        known.into_iter().find(|(it, _)| *it == self.method).map_or("", |(_, name)| name)
    }
}

/// What a route reads. Routes that read a body and do something honour an idempotency key; the
/// others ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    None,
    /// Whatever comes is passed over, but the idempotency key counts.
    Ignored,
    Json,
    /// JSON that changes nothing, or nothing more when it comes twice: there is no answer to
    /// remember.
    ReadOnlyJson,
    MergePatch,
}

impl BodyKind {
    /// Whether a response is stored for a request with an idempotency key.
    pub(crate) fn is_idempotent(self) -> bool {
        match self {
            Self::Ignored | Self::Json | Self::MergePatch => true,
            Self::None | Self::ReadOnlyJson => false,
        }
    }

    /// The one that is read.
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Ignored => None,
            Self::Json | Self::ReadOnlyJson => Some("application/json"),
            Self::MergePatch => Some("application/merge-patch+json"),
        }
    }
}

/// What the handler of a route is given.
pub(crate) struct AuthenticatedRequest {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) requirement: CallerRequirement,
    /// What stands in the path where the route has a name for it.
    pub(crate) id: String,
    pub(crate) inner_id: String,
    pub(crate) query: Option<String>,
    /// What the client says it reads.
    pub(crate) accept: Option<HeaderValue>,
    pub(crate) body: Bytes,
    pub(crate) claim: Option<IdempotencyClaim>,
}

impl AuthenticatedRequest {
    pub(crate) fn policy_permit(&self) -> Result<PolicyPermit, Problem> {
        Ok(self.caller.permit_policy(self.requirement)?)
    }

    /// What remembers the answer, when the request has an idempotency key.
    pub(crate) fn response_recorder<T: ?Sized>(
        &mut self,
        render: impl Fn(&T) -> RenderedResponse + Send + Sync + 'static,
    ) -> Option<ResponseRecorder<T>> {
        self.claim.take().map(|claim| ResponseRecorder::new(claim, render))
    }
}

/// Parses an id of a path. A text that is not an id is a 404, as an unknown id is.
pub(crate) fn parse_path_id<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Problem> {
    parse(text).ok_or(Problem::Failed(Error::NotFound))
}

/// A row of what browsers and directory servers tell without a key.
pub(crate) struct CallbackRoute {
    pub(crate) operation: Operation,
    pub(crate) path: &'static str,
    pub(crate) format: CallbackFormat,
    /// Renders a refusal for whoever sent this.
    pub(crate) render_rejection: fn(Response, &Problem) -> Response,
    pub(crate) handler: fn(CallbackRequest) -> HandlerFuture,
}

/// What is posted, and how it must arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallbackFormat {
    pub(crate) content_type: &'static str,
    pub(crate) needs_length: bool,
    pub(crate) bytes_max: usize,
}

impl CallbackFormat {
    /// By a page, for a person to see what comes of it.
    pub(crate) const FORM: Self = Self {
        content_type: "application/x-www-form-urlencoded",
        needs_length: true,
        bytes_max: 64 * 1024,
    };
    /// By a directory server, which may send chunks.
    pub(crate) const MESSAGE: Self = Self {
        content_type: "application/json",
        needs_length: false,
        bytes_max: MESSAGE_BYTES_MAX,
    };
}

/// What the handler of a callback is given.
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

/// A row of what needs no key.
pub(crate) struct KeylessRoute {
    pub(crate) address_limit: AddressLimit,
    pub(crate) path: &'static str,
    pub(crate) handler: fn(Arc<App>, TraceId) -> ResponseFuture,
}

/// Whether asking counts against an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressLimit {
    /// A probe is asked by machines that must be answered.
    Exempt,
    Counted,
}

pub(crate) const fn count_path_parameters(path: &str) -> usize {
    let mut count = 0_usize;
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'{' {
            count = count.saturating_add(1);
        }
        rest = tail;
    }
    count
}
