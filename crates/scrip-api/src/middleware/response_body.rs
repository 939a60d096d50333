//! Large answers are counted until their clients have read them.

use std::net::IpAddr;

use axum::{
    body::{Body, HttpBody},
    response::Response,
    routing::MethodFilter,
};
use http_body_util::BodyExt;
use scrip_core::{error::Error, policy::rate_limit::ClientNetwork};

use crate::{
    app::{App, memory_pool::MemoryExhausted},
    metrics::MemoryRejection,
    problem::Problem,
    route::{BodyKind, Route},
};

/// Answers up to this length are not counted: the kernel's buffers take most of them at once.
const UNCOUNTED_BYTES: u64 = 64 * 1024;

/// Where the answers of one client are counted.
pub(crate) struct ResponseBudget<'a> {
    app: &'a App,
    /// None for a trusted proxy, which speaks for many clients.
    network: Option<ClientNetwork>,
}

impl<'a> ResponseBudget<'a> {
    pub(crate) fn new(app: &'a App, address: IpAddr) -> Self {
        let network =
            (!app.trusted_proxies.contains(address)).then(|| ClientNetwork::from_address(address));
        Self { app, network }
    }

    /// Before anything is done for a request: whether its network has read what it asked for.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.app.response_memory.check(self.network).map_err(|it| self.reject(it))
    }

    /// Counts an answer that was made. A write has taken effect by now, so that its answer is given
    /// whatever it takes.
    pub(crate) async fn count(
        &self,
        route: &Route,
        response: Response,
    ) -> Result<Response, Problem> {
        if response.body().size_hint().lower() <= UNCOUNTED_BYTES {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let broken = |_| Error::Internal("the body of an answer broke off".into());
        let bytes = body.collect().await.map_err(broken)?.to_bytes();
        let memory = &self.app.response_memory;
        let counted = if is_read(route) {
            memory.count(self.network, bytes).map_err(|it| self.reject(it))?
        } else {
            memory.count_always(self.network, bytes)
        };
        Ok(Response::from_parts(head, Body::from(counted)))
    }

    fn reject(&self, exhausted: MemoryExhausted) -> Problem {
        self.app.metrics.responses_rejected.increment(MemoryRejection::from_exhausted(exhausted));
        Problem::NoResponseMemory
    }
}

/// Whether the request may be repeated: it has changed nothing.
fn is_read(route: &Route) -> bool {
    match route.body {
        BodyKind::ReadOnlyJson => true,
        BodyKind::None => route.method == MethodFilter::GET,
        BodyKind::Ignored | BodyKind::Json | BodyKind::MergePatch => false,
    }
}
