//! Handlers of the logs: a sentence each.

use scrip_core::operations::logs::list_logs::list_logs;

use crate::{
    route::{Asked, Handling},
    wire::{answer, log, query::Query},
};

pub(crate) fn list(asked: Asked) -> Handling {
    Box::pin(async move {
        let logs = log::parse(&Query::parse(asked.query.as_deref()))?;
        Ok(answer::rendered(log::listed(&list_logs(&asked.app.vault, &asked.caller, logs).await?)))
    })
}

pub(crate) fn entity_types(_: Asked) -> Handling {
    Box::pin(async move { Ok(answer::rendered(log::entity_types())) })
}
