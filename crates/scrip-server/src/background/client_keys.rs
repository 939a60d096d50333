//! Deletes expired client encryption keys.

use scrip_api::{app::App, metrics::SweepTarget};
use scrip_core::operations::client_keys::expire_client_key::expire_client_keys;

/// Deletes the expired keys of all tenants. Each deletion is a change of policy.
pub(super) async fn expire_due_client_keys(app: &App) {
    let Some(directory) = app.directory.load_full() else { return };
    let metrics = &app.metrics;
    match expire_client_keys(&app.vault, &directory).await {
        Ok(count) => {
            metrics.swept.add(SweepTarget::ClientKeys, count.try_into().unwrap_or(u64::MAX));
            let now_ms = u64::try_from(app.vault.clock.now().unix_ms).unwrap_or_default();
            metrics.sweep_finished.set(SweepTarget::ClientKeys, now_ms);
            if count > 0 {
                drop(app.reload().await);
            }
        }
        Err(error) => {
            metrics.sweep_failures.increment(SweepTarget::ClientKeys);
            tracing::warn!(
                cause = error.cause_text(),
                "deleting expired client encryption keys failed; retrying at the next sweep"
            );
        }
    }
}
