//! The key that signs deliveries to webhooks.

use std::sync::Arc;

use scrip_core::{Error, store::Store};
use scrip_seal::{KeySource, Pepper, Sealed, WebhookKeyError, WebhookSigningKey};
use tokio::{sync::Mutex, task::spawn_blocking};

/// The key pair of the vault in memory, after its first use. The pepper that was loaded with it shows
/// whether the vault key was rotated since: a compromise also replaces the key pair.
#[derive(Debug, Default)]
pub struct WebhookKeyCache(Mutex<Option<(Arc<Pepper>, Arc<WebhookSigningKey>)>>);

impl WebhookKeyCache {
    /// The key for this pepper. It is made at the first need, because most vaults have no webhook.
    /// Concurrent calls wait for one of them.
    pub(super) async fn load(
        &self,
        pepper: Arc<Pepper>,
        source: &Arc<dyn KeySource>,
        store: &dyn Store,
    ) -> Result<Arc<WebhookSigningKey>, Error> {
        let mut cache = self.0.lock().await;
        if let Some((_, key)) = cache.as_ref().filter(|(it, _)| Arc::ptr_eq(it, &pepper)) {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(load_webhook_key(source, store).await?);
        *cache = Some((pepper, Arc::clone(&key)));
        Ok(key)
    }
}

async fn load_webhook_key(
    source: &Arc<dyn KeySource>,
    store: &dyn Store,
) -> Result<WebhookSigningKey, Error> {
    if let Some(wrapped) = store.find_webhook_signing_key().await? {
        return unwrap_key(source, wrapped).await;
    }
    let (key, wrapped) = create_key(source).await?;
    let stored = store.insert_webhook_signing_key(wrapped.clone()).await?;
    if stored != wrapped {
        // Another node stored its key first.
        return unwrap_key(source, stored).await;
    }
    tracing::info!(
        "made the key pair that signs deliveries to webhooks; receivers get the public key from \
         /.well-known/webhooks.v1.key"
    );
    Ok(key)
}

/// Making an RSA key takes up to a second, and a key source may call another service. No request
/// may wait for either.
async fn create_key(source: &Arc<dyn KeySource>) -> Result<(WebhookSigningKey, Sealed), Error> {
    let source = Arc::clone(source);
    let task = spawn_blocking(move || WebhookSigningKey::create(&*source));
    task.await.map_err(|_| panicked())?.map_err(explain)
}

async fn unwrap_key(
    source: &Arc<dyn KeySource>,
    wrapped: Sealed,
) -> Result<WebhookSigningKey, Error> {
    let source = Arc::clone(source);
    let task = spawn_blocking(move || WebhookSigningKey::unwrap(&*source, &wrapped));
    task.await.map_err(|_| panicked())?.map_err(explain)
}

fn explain(error: WebhookKeyError) -> Error {
    Error::Internal(error.to_string().into())
}

fn panicked() -> Error {
    Error::Internal("making or unwrapping the key for webhooks panicked".into())
}
