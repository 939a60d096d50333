//! Signs deliveries. An RSA signature takes a millisecond of processor time, so it is made on a
//! thread for long work, and only a few at the same time: requests are not delayed.

use std::{sync::Arc, thread::available_parallelism};

use bytes::Bytes;
use hyper::{
    Request,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT},
};
use scrip_core::{Error, Timestamp, events::EventJson, types::id::EventId};
use scrip_seal::{WebhookKeyError, WebhookSecret, WebhookSigningKey, sign_with_secrets};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::background::webhooks::opened_webhook::OpenedWebhook;

/// Half of the processors, and not more than needed for some thousand signatures per second.
const THREADS_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Signer {
    threads: Semaphore,
}

/// A delivery with everything that its signatures need.
#[derive(Debug)]
pub(super) struct UnsignedDelivery {
    pub(super) webhook: Arc<OpenedWebhook>,
    pub(super) key: Arc<WebhookSigningKey>,
    pub(super) event_id: EventId,
    pub(super) event: EventJson,
}

impl Default for Signer {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self { threads: Semaphore::new((processors / 2).clamp(1, THREADS_MAX)) }
    }
}

impl Signer {
    /// Waits for a thread and signs. `now` is the time of the attempt, so it is read last.
    pub(super) async fn sign(
        &self,
        delivery: UnsignedDelivery,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<(Request<Bytes>, Timestamp), Error> {
        let failed = || Error::Internal("the key pair for webhooks cannot sign".into());
        let _thread = self.threads.acquire().await.map_err(|_| failed())?;
        let now = now();
        let task = spawn_blocking(move || {
            let secrets: Vec<_> = delivery.webhook.secrets.valid_at(now).collect();
            let signed = EventDelivery {
                event_id: delivery.event_id,
                event: &delivery.event,
                secrets: &secrets,
                signing_key: &delivery.key,
            };
            signed.sign(now)
        });
        let request = task.await.map_err(|_| failed())?.map_err(|_| failed())?;
        Ok((request, now))
    }
}

/// The version of the signature with the key pair of the vault.
const SIGNATURE_VERSION: HeaderName = HeaderName::from_static("bt-signature-version");
const SIGNATURE: HeaderName = HeaderName::from_static("bt-signature");
/// The headers of the Standard Webhooks specification.
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

const USER_AGENT_VALUE: &str = concat!("scrip-webhooks/", env!("CARGO_PKG_VERSION"));

/// An event that is delivered to one webhook.
#[derive(Debug, Clone, Copy)]
pub struct EventDelivery<'a> {
    pub event_id: EventId,
    pub event: &'a EventJson,
    /// The secret of the webhook, and during a rotation the previous one.
    pub secrets: &'a [&'a WebhookSecret],
    pub signing_key: &'a WebhookSigningKey,
}

impl EventDelivery<'_> {
    /// Builds and signs the request of an attempt at this time. The body is canonical JSON, so that
    /// receivers can verify it as it is or parsed and written again.
    ///
    /// Errors: the key pair of the vault cannot sign.
    pub fn sign(&self, now: Timestamp) -> Result<Request<Bytes>, WebhookKeyError> {
        let body = self.event.to_delivery(now);
        let id = self.event_id.to_string();
        let unix_seconds = now.unix_ms.div_euclid(1000);
        let signatures = [
            (SIGNATURE, self.signing_key.sign(body.as_bytes())?),
            (WEBHOOK_ID, id.clone()),
            (WEBHOOK_TIMESTAMP, unix_seconds.to_string()),
            (
                WEBHOOK_SIGNATURE,
                sign_with_secrets(self.secrets, &id, unix_seconds, body.as_bytes()),
            ),
        ];
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = hyper::Method::POST;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        headers.insert(SIGNATURE_VERSION, HeaderValue::from_static("v1"));
        for (name, value) in signatures {
            // All values are base64, digits and letters.
            let value = HeaderValue::try_from(value).map_err(|_| WebhookKeyError::Unusable)?;
            headers.insert(name, value);
        }
        Ok(request)
    }
}
