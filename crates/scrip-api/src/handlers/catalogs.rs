//! Handlers of catalogs, which are the same for every tenant: nothing is looked up.

use scrip_core::policy::ApplicationKind;

use crate::{
    route::{Asked, Handled},
    wire::{
        answer, connection_formula,
        policy::application::{self, KIND_RULE},
        query::Query,
    },
};

pub(crate) async fn connection_formulas(_: Asked) -> Handled {
    Ok(answer::json(200, connection_formula::catalog()))
}

pub(crate) async fn permissions(asked: Asked) -> Handled {
    let query = Query::parse(asked.query.as_deref());
    let kind = query.parse_choice("application_type", ApplicationKind::parse, KIND_RULE)?;
    Ok(answer::rendered(application::permissions(kind)))
}
