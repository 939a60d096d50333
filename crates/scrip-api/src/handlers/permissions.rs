//! The catalog of permissions.

use scrip_core::policy::ApplicationKind;

use crate::{
    route::{Asked, Handling},
    wire::{
        answer,
        policy::application::{self, KIND_RULE},
        query::{Query, invalid},
    },
};

pub(crate) fn list(asked: Asked) -> Handling {
    Box::pin(async move {
        let query = Query::parse(asked.query.as_deref());
        let kind = match query.one("application_type")? {
            None => None,
            Some(text) => Some(
                ApplicationKind::parse(text)
                    .ok_or_else(|| invalid("application_type", KIND_RULE))?,
            ),
        };
        Ok(answer::rendered(application::permissions(kind)))
    })
}
