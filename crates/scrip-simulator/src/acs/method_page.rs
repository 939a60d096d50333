//! The page of the method URL. It runs in an invisible frame and posts a notification.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use scrip_threeds::{code::Scheme, encoding::MethodData};

use crate::{
    acs::form_field,
    behavior::MethodBehavior,
    page::{error_page, method_page, policy_origin},
    state::SimulatorState,
};

/// `POST /sim/acs/{scheme}/method`.
pub(crate) async fn receive(
    State(state): State<Arc<SimulatorState>>,
    Path(path): Path<String>,
    body: Bytes,
) -> Response {
    let Some(scheme) = Scheme::from_slug(&path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let method_data =
        form_field(&body, "threeDSMethodData").and_then(|it| MethodData::decode(&it).ok());
    let notification =
        method_data.and_then(|it| it.notification_url.map(|url| (it.server_trans_id, url)));
    let Some((server_trans_id, url)) =
        notification.filter(|(_, url)| policy_origin(url.expose()).is_some())
    else {
        return error_page(StatusCode::BAD_REQUEST, "Invalid method data.");
    };
    if state.behavior(scheme).method == MethodBehavior::Hang {
        return method_page(None);
    }
    let data = MethodData { server_trans_id, notification_url: None }.encode();
    method_page(Some((url.expose(), &data)))
}
