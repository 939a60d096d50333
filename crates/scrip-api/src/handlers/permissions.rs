//! The catalog of permissions.

use scrip_core::policy::ApplicationKind;

use crate::{
    route::{Asked, Handled},
    wire::{
        answer,
        policy::application::{self, KIND_RULE},
        query::{Query, invalid},
    },
};

pub(crate) async fn list(asked: Asked) -> Handled {
    let query = Query::parse(asked.query.as_deref());
    let kind = match query.one("application_type")? {
        None => None,
        Some(text) => Some(
            ApplicationKind::parse(text).ok_or_else(|| invalid("application_type", KIND_RULE))?,
        ),
    };
    Ok(answer::rendered(application::permissions(kind)))
}
