//! What is told of a request at a route to whoever runs the server: how long, what status, and that
//! it panicked. Never what stood in its path or its body.

use std::{panic::AssertUnwindSafe, time::Duration};

use axum::response::Response;
use futures_util::FutureExt;
use hyper::HeaderMap;
use scrip_core::{audit::Operation, error::Error};
use tracing::{Instrument, Span};

use crate::{
    app::App,
    middleware::{
        span::{self, RouteName},
        trace::TraceId,
    },
    problem::Problem,
};

pub(crate) struct Watch {
    operation: Operation,
    begun: Duration,
    span: Span,
}

impl Watch {
    pub(crate) fn begin(app: &App, name: RouteName, trace: &TraceId, headers: &HeaderMap) -> Self {
        let span = span::of_request(&name, trace, headers);
        Self { operation: name.operation, begun: (app.ticks)(), span }
    }

    /// A panic is caught here and not further out, so that it is counted as what it was.
    pub(crate) async fn over(
        &self,
        app: &App,
        handling: impl Future<Output = Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        let handling = handling.instrument(self.span.clone());
        AssertUnwindSafe(handling).catch_unwind().await.unwrap_or_else(|_| {
            app.metrics.panics.one();
            Err(Error::Internal("a handler panicked".into()).into())
        })
    }

    pub(crate) fn end(&self, app: &App, trace: &TraceId, status: u16) {
        let took = (app.ticks)().saturating_sub(self.begun);
        app.metrics.answered(self.operation, status, took);
        span::answered(&self.span, status);
        let (trace, operation) = (&*trace.0, self.operation.as_str());
        tracing::debug!(trace, operation, status, took_us = took.as_micros(), "answered");
    }
}
