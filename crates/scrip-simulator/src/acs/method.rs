//! The method page: runs in a frame that nobody sees, and tells that it has run.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use scrip_threeds::{code::Scheme, encoding::MethodData};

use crate::{
    acs::field,
    knob::Method,
    page::{error, method, origin},
    world::World,
};

/// `POST /sim/acs/{scheme}/method`.
pub(crate) async fn receive(
    State(world): State<Arc<World>>,
    Path(path): Path<String>,
    body: Bytes,
) -> Response {
    let Some(scheme) = Scheme::from_slug(&path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let sent = field(&body, "threeDSMethodData").and_then(|it| MethodData::read(&it).ok());
    let place = sent.and_then(|it| it.notification_url.map(|url| (it.server_trans_id, url)));
    let Some((server_trans_id, url)) = place.filter(|(_, url)| origin(url.expose()).is_some())
    else {
        return error(StatusCode::BAD_REQUEST, "The method data cannot be read.");
    };
    if world.knobs(scheme).method == Method::Hang {
        return method(None);
    }
    let told = MethodData { server_trans_id, notification_url: None }.write();
    method(Some((url.expose(), &told)))
}
