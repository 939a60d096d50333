//! Handlers of the catalogs, which need no lookup in the store.

use scrip_core::{Error, card::bin_data::BinPrefix, types::ApplicationKind};

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{
        connection_formula,
        policy::application::{self, KIND_RULE},
        query::invalid_parameter,
        response,
        tokens::bin_details,
    },
};

const BIN_RULE: &str = "must be the first 6 to 8 digits of a card number";

pub(crate) async fn connection_formulas(_: AuthenticatedRequest) -> Handled {
    Ok(response::json(200, connection_formula::catalog_json()))
}

pub(crate) async fn permissions(request: AuthenticatedRequest) -> Handled {
    let query = request.query();
    let kind = query.parse_choice("application_type", ApplicationKind::parse, KIND_RULE)?;
    Ok(response::from_rendered(application::render_permissions(kind)))
}

/// The BIN is not recorded: a page sends it for every card that is typed into a field.
pub(crate) async fn card_details(request: AuthenticatedRequest) -> Handled {
    let query = request.query();
    let bin = query.parse_choice("bin", BinPrefix::parse, BIN_RULE)?;
    let bin = bin.ok_or_else(|| invalid_parameter("bin", BIN_RULE))?;
    let kind = request.caller.tenant().kind;
    let details = request.app.vault.bin_data.find_by_prefix(kind, &bin).ok_or(Error::NotFound)?;
    Ok(response::from_rendered(bin_details::render(&bin, &details)))
}
