//! Unsealing of a vault after the start.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use scrip_api::app::{App, readiness::NotReadyReason};
use scrip_core::{error::Error, policy::Directory};
use scrip_seal::KeySource;
use tokio::time::sleep;

use crate::storage::explain;

const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Retries until the root key opens the vault. Creates nothing: an empty vault stays sealed.
pub async fn unseal_with_retries<F>(app: Arc<App>, find_source: F)
where
    F: Fn() -> anyhow::Result<Arc<dyn KeySource>> + Send,
{
    let mut pause = PAUSE_MIN;
    let mut logged_causes = BTreeSet::new();
    while let Err(SealedBy { reason, error }) = try_unseal(&app, &find_source).await {
        app.sealed_by.replace(Some(reason));
        let cause = format!("{error:#}");
        // The store logs its own outage.
        if app.storage_reason().is_none() && logged_causes.insert(cause.clone()) {
            match reason.is_sealed() {
                true => tracing::error!(cause, "the vault is sealed; retrying"),
                false => tracing::error!(cause, "the vault cannot be loaded; retrying"),
            }
        }
        // A storage can return at any time, and a vault that cannot be read is no reason to wait.
        pause = if reason.is_sealed() { pause } else { PAUSE_MIN };
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
    tracing::info!("the vault is open");
}

/// Why the vault could not be unsealed.
struct SealedBy {
    reason: NotReadyReason,
    error: anyhow::Error,
}

fn sealed_by_store(error: impl Into<Error>) -> SealedBy {
    let error = error.into();
    SealedBy { reason: NotReadyReason::from_store_error(&error), error: explain(error) }
}

fn sealed_by_key(error: anyhow::Error) -> SealedBy {
    SealedBy { reason: NotReadyReason::RootKey, error }
}

/// Unseals the vault. Opening the directory decrypts the pepper, so a wrong root key is an error.
async fn try_unseal<F>(app: &App, find_source: &F) -> Result<(), SealedBy>
where
    F: Fn() -> anyhow::Result<Arc<dyn KeySource>>,
{
    let records = app.vault.store.load_directory().await.map_err(sealed_by_store)?;
    if records.system_keys.is_none() {
        return Err(sealed_by_key(anyhow::anyhow!("the vault is empty; run: scrip init")));
    }
    let source = find_source().map_err(sealed_by_key)?;
    let directory = Directory::open(records, &*source, None);
    let directory = directory.map_err(|it| sealed_by_key(explain(it)))?;
    app.start_clock(&directory).await.map_err(sealed_by_store)?;
    app.unseal(directory, source);
    Ok(())
}
