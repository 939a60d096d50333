//! Unsealing of a vault after the start, and after it was sealed again.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use scrip_api::app::readiness::NotReadyReason;
use scrip_core::Error;
use scrip_operator::error::explain;
use tokio::time::sleep;

use crate::unlock::{
    manager::{KeyManager, UnsealError},
    open::open_vault_key,
};

const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Opens the vault, and again each time that it was sealed.
pub async fn keep_unsealed(manager: Arc<KeyManager>) {
    loop {
        unseal_with_retries(&manager).await;
        manager.set_sealed_cause(None);
        manager.sealed.notified().await;
    }
}

/// Retries until an unlock method opens the vault, or people have entered their shares. Creates
/// nothing: an empty vault stays sealed.
async fn unseal_with_retries(manager: &KeyManager) {
    let app = &manager.app;
    if app.directory.load().is_some() {
        return;
    }
    let mut pause = PAUSE_MIN;
    let mut logged_causes = BTreeSet::new();
    while let Err(SealedBy { reason, error }) = try_unseal(manager).await {
        if app.directory.load().is_some() {
            return;
        }
        app.health.sealed_by.replace(Some(reason));
        let cause = format!("{error:#}");
        manager.set_sealed_cause(Some(cause.clone()));
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
        // People may have unsealed it.
        if app.directory.load().is_some() {
            return;
        }
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

fn sealed_by(reason: NotReadyReason, error: Error) -> SealedBy {
    SealedBy { reason, error: explain(error) }
}

/// Unseals the vault. The returned key must open the pepper, so a wrong key is an error.
async fn try_unseal(manager: &KeyManager) -> Result<(), SealedBy> {
    let records = manager.app.vault.store.load_directory().await.map_err(sealed_by_store)?;
    let opened = open_vault_key(&manager.inputs, &records).await;
    let opened = opened.map_err(|it| SealedBy { reason: it.reason, error: it.into() })?;
    manager.unseal(records, opened).await.map_err(|error| match error {
        UnsealError::Store(it) => sealed_by_store(it),
        UnsealError::Keys(it) => sealed_by(NotReadyReason::VaultAltered, it),
        UnsealError::Rotation(it) => sealed_by(NotReadyReason::RotationInterrupted, it),
    })
}
