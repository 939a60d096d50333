//! Handlers of the logs.

use scrip_core::operations::logs::list_logs::list_logs;

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{log, response},
};

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let logs = log::parse(&request.query())?;
    Ok(response::from_rendered(log::render_page(
        &list_logs(&request.app.vault, &request.caller, logs).await?,
    )))
}

pub(crate) async fn entity_types(_: AuthenticatedRequest) -> Handled {
    Ok(response::from_rendered(log::render_entity_types()))
}
