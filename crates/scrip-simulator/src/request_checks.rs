//! Checks against browser attacks. The simulator has no authentication, so only web pages must be
//! blocked: pages that resolve their own name to this machine (DNS rebinding), and pages that post
//! cross-origin requests without reading the response.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::state::SimulatorState;

/// Accepts requests to a loopback address or to the host of the base URL.
pub(crate) async fn check_host(
    State(state): State<Arc<SimulatorState>>,
    request: Request,
    next: Next,
) -> Response {
    let header = || request.headers().get(header::HOST).and_then(|it| it.to_str().ok());
    let requested_host = request.uri().authority().map(|it| it.as_str()).or_else(header);
    if requested_host.is_some_and(|it| is_own_host(it, &state.base_url)) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, "this host name does not belong to the simulator")
        .into_response()
}

/// A cross-origin page can post text without a preflight request, but not JSON.
pub(crate) async fn check_json(request: Request, next: Next) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let content_type = content_type.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
    if content_type.eq_ignore_ascii_case("application/json") {
        return next.run(request).await;
    }
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "messages must be application/json").into_response()
}

fn is_own_host(authority: &str, base_url: &str) -> bool {
    let Ok(parsed) = authority.parse::<Authority>() else { return false };
    let host = parsed.host().to_ascii_lowercase();
    let unbracketed = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = unbracketed.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback());
    let own_authority =
        base_url.split_once("://").map(|(_, it)| it.split('/').next().unwrap_or_default());
    is_loopback
        || host == "localhost"
        || own_authority.is_some_and(|it| it.eq_ignore_ascii_case(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_base_url_hosts_are_accepted() {
        let base = "http://sim.example:4243/sandbox";
        for host in ["127.0.0.1:1", "localhost", "LOCALHOST:4243", "[::1]:4243", "Sim.example:4243"]
        {
            assert!(is_own_host(host, base), "{host}");
        }
        for host in ["", "sim.example", "evil.example:4243", "127.0.0.1.evil.example", "192.0.2.1"]
        {
            assert!(!is_own_host(host, base), "{host}");
        }
    }
}
