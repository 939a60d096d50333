//! Handlers of the logs: a sentence each.

use scrip_core::operations::logs::list_logs::list_logs;

use crate::{
    route::{Asked, Handled},
    wire::{answer, log, query::Query},
};

pub(crate) async fn list(asked: Asked) -> Handled {
    let logs = log::parse(&Query::parse(asked.query.as_deref()))?;
    Ok(answer::rendered(log::listed(&list_logs(&asked.app.vault, &asked.caller, logs).await?)))
}

pub(crate) async fn entity_types(_: Asked) -> Handled {
    Ok(answer::rendered(log::entity_types()))
}
