//! The record of a call that was rejected before it started.

use hyper::StatusCode;
use scrip_core::{
    operations::{
        proxy_calls::{record_rejected_use::queue_unsent_call, start_proxy_call::CallDestination},
        record_rejection::RejectedRequest,
    },
    policy::CallerRequirement,
    types::Operation,
};

use crate::{
    app::App,
    middleware::rejection_record::write_rejection,
    proxy::{
        call::{party::CallParty, selection::SelectedProxy},
        error::ProxyError,
    },
};

/// Records a rejected call. A call that was started has its own records.
pub(super) async fn record_rejected_call(
    app: &App,
    party: &CallParty,
    selected: &SelectedProxy,
    method: &'static str,
    error: &ProxyError,
) {
    let outcome = match (error.problem(), error.status()) {
        (Some(problem), _) => problem.audit_outcome(),
        (None, StatusCode::UNPROCESSABLE_ENTITY) => Some("unprocessable"),
        (None, _) => None,
    };
    let Some(outcome) = outcome else { return };
    let proxy = selected.proxy().map(|it| it.record().id.to_string());
    let Some(caller) = party.caller() else {
        // The destination is not known before the proxy is opened.
        let destination = CallDestination { proxy, host: String::new(), method };
        if let Ok(sender) = party.sender(selected) {
            queue_unsent_call(&app.vault, sender, destination, outcome, &[]);
        }
        return;
    };
    let proxy = proxy.unwrap_or_default();
    let rejected = RejectedRequest {
        operation: Operation::InvokeProxy,
        requirement: CallerRequirement::AnyKey,
        entity: &proxy,
        outcome,
    };
    write_rejection(app, caller, rejected).await;
}
