//! A log of the requests of the client listener.

use std::{fmt::Debug, sync::Arc, time::Duration};

use axum::response::Response;
use hyper::{Method, Request};
use scrip_api::problem::reason::ProblemReason;

use crate::clock::ticks;

/// Gets every request of the client listener when its response begins. A call must not block.
pub trait RequestLog: Debug + Send + Sync {
    fn record(&self, request: &CompletedRequest<'_>);
}

/// A request and its response. The path has no query string.
#[derive(Debug)]
pub struct CompletedRequest<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub status: u16,
    pub duration: Duration,
    /// The reason of a failure of the vault. The answer of a destination has none.
    pub reason: Option<&'a ProblemReason>,
}

/// A request whose response is not known yet.
pub(crate) struct LoggedRequest {
    log: Arc<dyn RequestLog>,
    method: Method,
    path: String,
    started: Duration,
}

impl LoggedRequest {
    pub(crate) fn new<B>(log: Arc<dyn RequestLog>, request: &Request<B>) -> Self {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        Self { log, method, path, started: ticks() }
    }

    pub(crate) fn record(&self, response: &Response) {
        self.log.record(&CompletedRequest {
            method: &self.method,
            path: &self.path,
            status: response.status().as_u16(),
            duration: ticks().saturating_sub(self.started),
            reason: response.extensions().get(),
        });
    }
}
