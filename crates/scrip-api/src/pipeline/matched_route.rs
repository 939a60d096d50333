//! The route of a request, as the router or the path alone decides it.

use std::sync::Arc;

use axum::response::Response;

use crate::{
    app::App,
    middleware::span::RouteName,
    pipeline::elements::FieldPath,
    problem::{Problem, not_ready::name_storage_cause},
    route::{CallbackRoute, KeylessRoute, Route},
    trace_id::TraceId,
};

/// The route that matches a request.
#[derive(Clone)]
pub(crate) enum MatchedRoute {
    /// Needs an API key.
    Keyed(&'static Route),
    /// A notification of a browser or a directory server, which have no API key.
    Callback(&'static CallbackRoute),
    Keyless(&'static KeylessRoute),
    /// A proxied call.
    Proxy,
    /// A file of the hosted fields.
    HostedField(FieldPath),
    /// No route matches; every request gets the same problem.
    Unmatched(Arc<Problem>),
}

impl MatchedRoute {
    /// Returns the name for metrics and spans. Only routes of an operation are measured.
    pub(super) fn route_name(&self) -> Option<RouteName> {
        match self {
            Self::Keyed(route @ Route { operation, path, .. }) => {
                Some(RouteName { operation: *operation, method: route.method_name(), path })
            }
            Self::Callback(CallbackRoute { operation, path, .. }) => {
                Some(RouteName { operation: *operation, method: "POST", path })
            }
            Self::Keyless(_) | Self::Proxy | Self::HostedField(_) | Self::Unmatched(_) => None,
        }
    }

    pub(super) fn reject(&self, app: &App, problem: Problem, trace: &TraceId) -> Response {
        let problem = name_storage_cause(app, problem);
        let response = problem.response(trace);
        match self {
            Self::Callback(row) => (row.render_rejection)(response, &problem),
            Self::Keyed(_)
            | Self::Keyless(_)
            | Self::Proxy
            | Self::HostedField(_)
            | Self::Unmatched(_) => response,
        }
    }
}
