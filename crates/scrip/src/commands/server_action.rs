//! Sends an action to the running server, and waits for a second operator if it must.

use std::time::Duration;

use scrip_operator::{
    action::{ActionAnswer, PreparedAction},
    secret_text::SecretText,
};
use scrip_server::{
    config::Settings,
    control::protocol::{ActionRequest, ControlRequest},
};

use crate::commands::approval::{ServerAnswer, try_change};

/// Errors: the server rejects the action, or it was not approved in time.
pub(crate) fn run_on_server(
    settings: &Settings,
    wait: Duration,
    action: &dyn PreparedAction,
    input: &str,
) -> anyhow::Result<ServerAnswer<ActionAnswer>> {
    let request = ControlRequest::RunAction(ActionRequest {
        action: action.spec().name.to_owned(),
        input: SecretText::new(input.to_owned()),
        database: settings.storage.database(),
        os_user: settings.os_user.as_deref().map(str::to_owned),
    });
    try_change(&settings.control_address(), wait, &request)
}
