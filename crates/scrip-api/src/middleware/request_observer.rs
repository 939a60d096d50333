//! Measures a request for metrics, spans and logs: duration, status, panics. Never records the path
//! parameters or the body.

use std::{panic::AssertUnwindSafe, time::Duration};

use axum::response::Response;
use futures_util::FutureExt;
use hyper::HeaderMap;
use scrip_core::{Error, types::Operation};
use tracing::{Instrument, Span};

use crate::{
    app::App,
    middleware::span::{self, RouteName},
    problem::Problem,
    trace_id::TraceId,
};

pub(crate) struct RequestObserver {
    operation: Operation,
    started: Duration,
    span: Span,
}

impl RequestObserver {
    pub(crate) fn start(app: &App, name: RouteName, trace: &TraceId, headers: &HeaderMap) -> Self {
        let span = span::request_span(&name, trace, headers);
        Self { operation: name.operation, started: (app.ticks)(), span }
    }

    /// Runs the handler in the span of the request. Catches a panic here, and not in an outer
    /// layer, so that it is counted for its operation.
    pub(crate) async fn run_handler(
        &self,
        app: &App,
        handler: impl Future<Output = Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        let handler = handler.instrument(self.span.clone());
        AssertUnwindSafe(handler).catch_unwind().await.unwrap_or_else(|_| {
            app.metrics.panics.increment();
            Err(Error::Internal("a handler panicked".into()).into())
        })
    }

    pub(crate) fn finish(&self, app: &App, trace: &TraceId, status: u16) {
        let duration = (app.ticks)().saturating_sub(self.started);
        app.metrics.record_response(self.operation, status, duration);
        span::record_status(&self.span, status);
        let (trace, operation) = (&*trace.0, self.operation.as_str());
        tracing::debug!(
            trace,
            operation,
            status,
            duration_us = duration.as_micros(),
            "request completed"
        );
    }
}
