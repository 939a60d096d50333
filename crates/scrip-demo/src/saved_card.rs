//! A saved card of the demo: the backend authorizes an access session of the browser for one token.

use axum::body::Body;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::backend::{BackendFuture, ShopBackend};

/// Long enough to show a card, short enough for a browser that stays open.
const SESSION_LENGTH: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizeRequest {
    nonce: String,
    token_id: String,
    purpose: Purpose,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    /// Show the card to its owner.
    Reveal,
    /// Add a security code to the card.
    SecurityCode,
}

/// A real shop checks first that the card belongs to the customer who is signed in. The demo has no
/// customers: it treats the id of the token as the proof.
pub(super) fn authorize<'a>(shop: &'a ShopBackend<'a>, body: Body) -> BackendFuture<'a> {
    Box::pin(async move {
        let request: AuthorizeRequest = shop.read_json(body).await?;
        let body = authorization(&request, shop.app.vault.clock.now().unix_ms);
        shop.call_vault("POST", "/sessions/authorize", Some(body)).await
    })
}

/// The session may do one thing with one token.
fn authorization(request: &AuthorizeRequest, unix_ms: i64) -> Value {
    let now = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let expires_at = now.checked_add(SESSION_LENGTH).unwrap_or(now).to_string();
    let (transform, permission) = match request.purpose {
        Purpose::Reveal => ("reveal", "token:read"),
        Purpose::SecurityCode => ("redact", "token:update"),
    };
    json!({
        "nonce": request.nonce,
        "expires_at": expires_at,
        "rules": [{
            "description": "One card, for its owner",
            "priority": 1,
            "conditions": [
                { "attribute": "id", "operator": "equals", "value": request.token_id },
            ],
            "permissions": [permission],
            "transform": transform,
        }],
    })
}
