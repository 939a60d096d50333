//! The way of a proxied call through the pipeline.

use std::sync::Arc;

use axum::response::Response;
use scrip_core::types::Operation;

use crate::{
    app::App,
    middleware::{
        admission::count_anonymous,
        request_observer::{RequestObserver, RouteName},
    },
    pipeline::elements::{check_proxied_call, is_field_host, restrict_answer},
    problem::not_ready::name_storage_cause,
    proxy::{
        call::{CallEntry, method_name, serve_call},
        error::{CallDelivery, ProxyError},
    },
    route::{IncomingRequest, PROXY_PATH},
};

async fn serve_allowed_call(
    app: &Arc<App>,
    entry: CallEntry,
    incoming: &mut IncomingRequest,
) -> Result<Response, ProxyError> {
    if let Err(problem) = check_proxied_call(app, &incoming.head) {
        count_anonymous(app, incoming.address).await?;
        return Err(problem.into());
    }
    serve_call(app, entry, incoming).await
}

/// Runs a proxied call. All of its errors have the form of the proxy.
pub(super) async fn run_call(
    app: &Arc<App>,
    entry: CallEntry,
    incoming: &mut IncomingRequest,
) -> Response {
    let (trace, is_field_host) = (incoming.trace.clone(), is_field_host(app, &incoming.head));
    let operation = Operation::InvokeProxy;
    let name =
        RouteName { operation, method: method_name(&incoming.head.method), path: PROXY_PATH };
    let watch = RequestObserver::start(app, name, &trace, &incoming.head.headers);
    let handling = async {
        // Boxed, because the observer moves the future of its handler.
        let result = Box::pin(serve_allowed_call(app, entry, incoming)).await;
        let name_cause =
            |error: ProxyError| error.map_problem(|problem| name_storage_cause(app, problem));
        Ok(result.unwrap_or_else(|error| {
            let error = name_cause(error);
            let mut response = error.response(&trace);
            if let Some(problem) = error.problem() {
                problem.reason().add_to(&mut response);
            }
            response
        }))
    };
    let mut response = watch.run_handler(app, handling).await.unwrap_or_else(|problem| {
        // The call may have been sent before the panic.
        ProxyError::from(problem).with_delivery(CallDelivery::MaybeSent).response(&trace)
    });
    if is_field_host {
        restrict_answer(response.headers_mut());
    }
    watch.finish(app, &trace, response.status().as_u16());
    response
}
