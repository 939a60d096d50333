//! Reloads the directory: tenants, applications and keys.

use std::{sync::Arc, time::Duration};

use scrip_api::app::{
    App, ReloadMode,
    readiness::{NotReadyReason, ReloadError},
};
use scrip_core::Error;
use tokio::time::Instant;

use crate::periodic_tasks::delayed_interval;

/// Changes by other processes take effect within a second.
const POLL_DIRECTORY_EVERY: Duration = Duration::from_millis(250);
/// Rows can be altered without a new version number, so the directory is also reloaded without
/// comparing the number. The interval depends on the cost of a reload: a small policy is reloaded
/// every second, and a reload never takes more than half a percent of the time.
const RELOAD_EVERY_MIN: Duration = Duration::from_secs(1);
const RELOAD_EVERY_MAX: Duration = Duration::from_secs(30);
const RELOAD_COST_FACTOR: u32 = 200;
/// After this many consecutive failures (2 seconds) revoked rights may still be in memory, so all
/// requests are rejected.
const FAILURES_MAX: u32 = 8;
/// A rotation of the vault key commits before the node has the new key in memory, so one failure is
/// no reason for a warning.
const LOGGED_FAILURES_MIN: u32 = 2;

/// Loads changes that other processes made to tenants, applications and keys.
pub(super) async fn reload_directory_on_change(app: Arc<App>) {
    let mut ticks = delayed_interval(POLL_DIRECTORY_EVERY);
    let mut failures = 0_u32;
    let (mut reloaded_at, mut reload_every) = (Instant::now(), RELOAD_EVERY_MIN);
    loop {
        tokio::select! {
            _ = ticks.tick() => (),
            // Engines with change notifications wake the task early. For other engines this future
            // never completes.
            Ok(()) = app.vault.store.wait_for_directory_change() => (),
        }
        let is_due = reloaded_at.elapsed() >= reload_every;
        let mode = if is_due { ReloadMode::Always } else { ReloadMode::IfChanged };
        let started = Instant::now();
        match app.reload_with_mode(mode).await {
            Ok(()) => {
                failures = 0;
                app.health.directory_age.set_compared();
                if mode == ReloadMode::Always {
                    let cost = started.elapsed().saturating_mul(RELOAD_COST_FACTOR);
                    reload_every = cost.clamp(RELOAD_EVERY_MIN, RELOAD_EVERY_MAX);
                    reloaded_at = Instant::now();
                }
                if app.health.stale_by.replace(None).is_some() {
                    tracing::info!("tenants, applications and keys are up to date again");
                }
            }
            Err(ReloadError { cause: error, reason }) => {
                let was_logged = failures >= LOGGED_FAILURES_MIN;
                // A slow reload counts as the polls that it delayed.
                let missed_polls = started.elapsed().as_millis() / POLL_DIRECTORY_EVERY.as_millis();
                let missed_polls = u32::try_from(missed_polls).unwrap_or(u32::MAX);
                failures = failures.saturating_add(1).saturating_add(missed_polls);
                // The store logs its own outage.
                let is_logged = !was_logged && failures >= LOGGED_FAILURES_MIN;
                if is_logged && reason != NotReadyReason::StoreUnreachable {
                    tracing::warn!(
                        cause = error.cause_text(),
                        "reloading tenants, applications and keys failed; retrying"
                    );
                }
                if failures >= FAILURES_MAX
                    && app.health.stale_by.replace(Some(reason)).is_none()
                    && app.storage_reason().is_none()
                {
                    log_stale_directory(reason, &error);
                }
            }
        }
    }
}

fn log_stale_directory(reason: NotReadyReason, error: &Error) {
    match reason.is_sealed() {
        true => tracing::error!(
            cause = error.cause_text(),
            "tenants, applications and keys may be outdated: the vault is sealed until a reload \
             succeeds"
        ),
        false => tracing::error!(
            cause = error.cause_text(),
            "tenants, applications and keys may be outdated: requests are refused until a reload \
             succeeds"
        ),
    }
}
