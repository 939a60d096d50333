//! Counts the memory of large responses until their clients have read them.

use std::net::IpAddr;

use axum::{
    body::{Body, HttpBody},
    response::Response,
    routing::MethodFilter,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use scrip_core::{Error, policy::rate_limit::ClientNetwork};

use crate::{
    app::App,
    metrics::MemoryRejection,
    problem::Problem,
    route::{BodyKind, Route},
};

/// Smaller responses are not counted: most of them fit into the buffers of the kernel.
const UNCOUNTED_BYTES: u64 = 64 * 1024;

/// The share of response memory of one client network.
pub(crate) struct ResponseBudget<'a> {
    app: &'a App,
    /// `None` for a trusted proxy, which forwards requests of many clients.
    network: Option<ClientNetwork>,
}

impl<'a> ResponseBudget<'a> {
    pub(crate) fn new(app: &'a App, address: IpAddr) -> Self {
        let network = (!app.settings.trusted_proxies.contains(address))
            .then(|| ClientNetwork::from_address(address));
        Self { app, network }
    }

    /// Fails if the network has used up its share. Called before a request is processed.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.app.memory.responses.check(self.network).map_err(|it| self.reject(it))
    }

    /// Counts a response. The response to a write is sent regardless of the limits, because the
    /// write has already taken effect.
    pub(crate) async fn count(
        &self,
        route: &Route,
        response: Response,
    ) -> Result<Response, Problem> {
        if response.body().size_hint().lower() <= UNCOUNTED_BYTES {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let broken = |_| Error::Internal("the body of a response is incomplete".into());
        let bytes = body.collect().await.map_err(broken)?.to_bytes();
        let memory = &self.app.memory.responses;
        let counted_bytes = if is_read(route) {
            memory.count(self.network, bytes).map_err(|it| self.reject(it))?
        } else {
            memory.count_always(self.network, bytes)
        };
        Ok(Response::from_parts(head, Body::from(counted_bytes)))
    }

    /// Counts the answer of a destination. It is sent regardless of the limits, because the call
    /// has taken effect.
    pub(crate) fn count_answer(&self, bytes: Bytes) -> Bytes {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length <= UNCOUNTED_BYTES {
            return bytes;
        }
        self.app.memory.responses.count_always(self.network, bytes)
    }

    fn reject(&self, rejection: MemoryRejection) -> Problem {
        self.app.metrics.responses_rejected.increment(rejection);
        Problem::NoResponseMemory
    }
}

/// Returns whether the request changes nothing, so that the client can repeat it.
fn is_read(route: &Route) -> bool {
    match route.body {
        BodyKind::ReadOnlyJson => true,
        BodyKind::None => route.method == MethodFilter::GET,
        BodyKind::Ignored | BodyKind::Json | BodyKind::OptionalJson | BodyKind::MergePatch => false,
    }
}
