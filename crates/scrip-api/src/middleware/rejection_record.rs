//! The audit record of a request that was rejected after its caller was authenticated.

use hyper::http::request::Parts;
use scrip_core::{
    operations::record_rejection::{RejectedRequest, record_rejection},
    policy::Caller,
    types::EntityType,
};

use crate::{
    app::App,
    problem::Problem,
    route::{Route, extract_path_ids},
};

/// Writes the audit record of a rejected, authenticated request.
pub(crate) async fn record_rejected_request(
    app: &App,
    route: &Route,
    head: &mut Parts,
    caller: &Caller,
    problem: &Problem,
) {
    let Some(outcome) = problem.audit_outcome() else { return };
    let (id, inner_id) = extract_path_ids(route.path_parameter_count, head).await;
    // The first id in the path of an API key is the id of its application.
    let is_api_key = route.operation.entity_type() == Some(EntityType::ApiKey);
    let entity = if is_api_key { &inner_id } else { &id };
    let rejected = RejectedRequest {
        operation: route.operation,
        requirement: route.requirement,
        entity,
        outcome,
    };
    write_rejection(app, caller, rejected).await;
}

/// Writes the audit record of a rejected request. A failure is logged, and the request stays
/// rejected.
pub(crate) async fn write_rejection(app: &App, caller: &Caller, rejected: RejectedRequest<'_>) {
    let outcome = rejected.outcome;
    if let Err(error) = record_rejection(&app.vault, caller, rejected).await {
        let trace = &*caller.origin().trace;
        tracing::error!(
            trace,
            cause = error.cause_text(),
            outcome,
            "failed to write the audit record of a rejected request"
        );
    }
}
