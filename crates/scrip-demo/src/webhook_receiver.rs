//! A receiver of webhook deliveries with its own listener. It verifies both signatures, as the
//! receiver of another company does.

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use scrip_seal::{WebhookSecret, verify_with_public_key, verify_with_secret};
use serde_json::Value;
use tokio::net::TcpListener;

/// More than an event ever has.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What a receiver knows of the vault.
#[derive(Debug)]
pub struct ReceiverKeys {
    pub secret: WebhookSecret,
    /// As PEM.
    pub public_key: String,
}

/// A delivery with two valid signatures.
#[derive(Debug)]
pub struct ReceivedDelivery {
    pub body: Value,
}

/// Why a request is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDelivery(pub &'static str);

pub type DeliveryHandler = Box<dyn Fn(Result<ReceivedDelivery, InvalidDelivery>) + Send + Sync>;

struct ReceiverState {
    keys: ReceiverKeys,
    handle: DeliveryHandler,
}

impl fmt::Debug for ReceiverState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReceiverState")
    }
}

/// Serves the receiver until the process exits.
/// Errors: the address of the listener is unknown.
pub fn start(
    listener: TcpListener,
    keys: ReceiverKeys,
    handle: DeliveryHandler,
) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let service = Router::new()
        .route("/", post(receive))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::new(ReceiverState { keys, handle }));
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

async fn receive(
    State(state): State<Arc<ReceiverState>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let delivery = verify(&state.keys, &headers, &body);
    let status = if delivery.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::BAD_REQUEST };
    (state.handle)(delivery);
    status
}

fn verify(
    keys: &ReceiverKeys,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<ReceivedDelivery, InvalidDelivery> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let unix_seconds = text("webhook-timestamp").parse();
    let unix_seconds = unix_seconds.map_err(|_| InvalidDelivery("webhook-timestamp is missing"))?;
    let (id, signatures) = (text("webhook-id"), text("webhook-signature"));
    if !verify_with_secret(&keys.secret, id, unix_seconds, body, signatures) {
        return Err(InvalidDelivery("webhook-signature does not match the secret"));
    }
    if !verify_with_public_key(&keys.public_key, body, text("bt-signature")) {
        return Err(InvalidDelivery("BT-SIGNATURE does not match the public key"));
    }
    let body = serde_json::from_slice(body).map_err(|_| InvalidDelivery("the body is not JSON"))?;
    Ok(ReceivedDelivery { body })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use scrip_seal::{RootKey, WebhookSigningKey, sign_with_secrets};

    use super::*;

    fn keys(signing_key: &WebhookSigningKey) -> ReceiverKeys {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        ReceiverKeys { secret, public_key: signing_key.public_key_pem().to_owned() }
    }

    fn signing_key() -> WebhookSigningKey {
        let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        WebhookSigningKey::create(&root).unwrap().0
    }

    #[test]
    fn delivery_needs_both_signatures() {
        let (signing_key, body) = (signing_key(), b"{}");
        let keys = keys(&signing_key);
        let signature = sign_with_secrets(&[&keys.secret], "a", 7, body);
        let headers = [
            ("webhook-id", "a".to_owned()),
            ("webhook-timestamp", "7".to_owned()),
            ("webhook-signature", signature),
            ("bt-signature", signing_key.sign(body).unwrap()),
        ];
        let headers: HeaderMap = headers
            .into_iter()
            .map(|(name, it)| (name.parse().unwrap(), HeaderValue::try_from(it).unwrap()))
            .collect();
        assert!(verify(&keys, &headers, body).is_ok());
        assert!(verify(&keys, &headers, b"{ }").is_err());
        for (name, expected) in [
            ("webhook-id", "webhook-signature"),
            ("webhook-timestamp", "webhook-timestamp"),
            ("webhook-signature", "webhook-signature"),
            ("bt-signature", "BT-SIGNATURE"),
        ] {
            let mut headers = headers.clone();
            headers.remove(name);
            let InvalidDelivery(reason) = verify(&keys, &headers, body).unwrap_err();
            assert!(reason.starts_with(expected), "{name}: {reason}");
        }
    }
}
