//! Signs deliveries. An RSA signature takes a millisecond of processor time, so it is made on a
//! thread for long work, and only a few at the same time: requests are not delayed.

use std::{sync::Arc, thread::available_parallelism};

use bytes::Bytes;
use hyper::Request;
use scrip_core::{Error, Timestamp, events::EventJson, types::id::EventId};
use scrip_seal::WebhookSigningKey;
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::background::webhooks::{opened_webhook::OpenedWebhook, signed_delivery::EventDelivery};

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
