//! Handlers of the catalogs, which are the same for every tenant and need no lookup.

use scrip_core::policy::ApplicationKind;

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{
        connection_formula,
        policy::application::{self, KIND_RULE},
        query::QueryParameters,
        response,
    },
};

pub(crate) async fn connection_formulas(_: AuthenticatedRequest) -> Handled {
    Ok(response::json(200, connection_formula::catalog_json()))
}

pub(crate) async fn permissions(request: AuthenticatedRequest) -> Handled {
    let query = QueryParameters::parse(request.query.as_deref());
    let kind = query.parse_choice("application_type", ApplicationKind::parse, KIND_RULE)?;
    Ok(response::from_rendered(application::render_permissions(kind)))
}
