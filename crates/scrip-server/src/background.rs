//! Background tasks. They end with the runtime; the next start continues unfinished work.

mod directory;
mod key_rotation;
pub mod unseal;
pub mod webhooks;

use std::{future::Future, sync::Arc, time::Duration};

use scrip_api::{
    app::{App, auth_failures},
    metrics::{Label, SweepTarget},
};
use scrip_core::{
    Vault,
    audit::SignedWatermark,
    operations::{
        claim_idempotency_key::RESPONSE_RETENTION,
        client_keys::expire_client_key::expire_client_keys,
        logs::prune_logs::prune_logs,
        tenants::{
            delete_tenant::destroy_due_tenants,
            purge_tenants::{find_deleted_tenants, find_forged_deletions, purge_tenants},
        },
        threeds_sessions::expire_threeds_session::expire_threeds_session,
        tokens::expire_token::{erase_cvcs, expire_token, expire_token_intent},
    },
    policy::Directory,
    types::{
        StoreError,
        id::TenantId,
        time::{ClockWatermark, Month},
    },
};
use tokio::time::sleep;

use crate::{
    background::directory::reload_directory_on_change,
    directory_servers::range_refresh::refresh_periodically,
    node::Node,
    periodic_tasks::{
        FailureLog, PAUSE_BETWEEN_STEPS, TaskFuture, delayed_interval, restart_after_panic,
    },
};

const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// After this many steps (about 15 minutes) the backlog needs the short pause to end within the hour.
const GENTLE_STEPS_MAX: u32 = 100_000;
const PAUSE_WHEN_BEHIND: Duration = Duration::from_millis(1);
/// A crash loses at most the counts of this interval and of one write.
const WRITE_GUESS_COUNTS_EVERY: Duration = Duration::from_millis(250);
/// A crash loses at most the outcomes of this interval and of one write. The records before the
/// calls are on disk.
const WRITE_CALL_OUTCOMES_EVERY: Duration = Duration::from_millis(100);
/// The same while calls arrive: few outcomes at a time, because new calls wait for the same writer.
const WRITE_CALL_OUTCOMES_EVERY_UNDER_LOAD: Duration = Duration::from_millis(3);
const SWEEP_COUNTERS_EVERY: Duration = Duration::from_secs(1);
const CHECK_KEYS_EVERY: Duration = Duration::from_secs(1);
const RENEW_KEYS_EVERY: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Detects an outage of PostgreSQL, and the end of an outage of any storage.
const PROBE_STORAGE_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn start(node: &Node) {
    let app = &node.app;
    let spawn = |task, work: fn(Arc<App>) -> TaskFuture| {
        let app = Arc::clone(app);
        restart_after_panic(task, move || work(Arc::clone(&app)));
    };
    spawn("reload_directory_on_change", |app| Box::pin(reload_directory_on_change(app)));
    spawn("probe_storage", |app| Box::pin(probe_storage(app)));
    spawn("destroy_epoch_keys", |app| Box::pin(destroy_epoch_keys(app)));
    if app.vault.epoch_keys.exchange().is_some() {
        spawn("republish_epoch_keys", |app| Box::pin(republish_epoch_keys(app)));
    }
    spawn("expire_tokens", |app| {
        Box::pin(sweep_expired(app, SweepTarget::Tokens, |vault, directory| async move {
            expire_token(&vault, &directory).await
        }))
    });
    spawn("expire_token_intents", |app| {
        Box::pin(sweep_expired(app, SweepTarget::TokenIntents, |vault, directory| async move {
            expire_token_intent(&vault, &directory).await
        }))
    });
    spawn("expire_threeds_sessions", |app| {
        Box::pin(sweep_expired(app, SweepTarget::ThreeDsSessions, |vault, directory| async move {
            expire_threeds_session(&vault, &directory).await
        }))
    });
    spawn("sweep_counters", |app| Box::pin(sweep_counters(app)));
    spawn("record_failed_authentication", |app| {
        Box::pin(auth_failures::write_periodically(
            Arc::clone(&app.auth_failures),
            app.vault.clone(),
        ))
    });
    spawn("sweep_other", |app| Box::pin(sweep_other(app)));
    spawn("write_guess_counts", |app| Box::pin(write_guess_counts(app)));
    spawn("write_call_outcomes", |app| Box::pin(write_call_outcomes(app)));
    spawn("prune_old_records", |app| Box::pin(prune_old_records(app)));
    webhooks::start(node);
    key_rotation::start(node);
    for scheme in node.settings.directory_servers.iter().flat_map(|it| it.connected_schemes()) {
        let (vault, interval) = (app.vault.clone(), node.settings.card_ranges_age_max);
        restart_after_panic("refresh_card_ranges", move || {
            refresh_periodically(vault.clone(), Arc::clone(&scheme), interval)
        });
    }
}

/// Evicts expired counters. Requests do so too, but there may be few of them.
async fn sweep_counters(app: Arc<App>) {
    let mut ticks = delayed_interval(SWEEP_COUNTERS_EVERY);
    loop {
        ticks.tick().await;
        app.limiter.sweep(app.vault.clock.now());
    }
}

/// Probes the storage. After a failed commit a probe write brings the vault back without a client.
async fn probe_storage(app: Arc<App>) {
    let mut ticks = delayed_interval(PROBE_STORAGE_EVERY);
    loop {
        ticks.tick().await;
        // The store logs an outage and its end.
        drop(app.vault.store.probe().await);
    }
}

/// Destroys the keys of expired epochs on time.
async fn destroy_epoch_keys(app: Arc<App>) {
    let vault = &app.vault;
    let mut failures = FailureLog::error(
        "saving epoch keys failed: a restart would lose CVCs",
        "epoch keys are saved again",
    );
    loop {
        let now = vault.clock.now();
        failures.record(&vault.epoch_keys.destroy_expired(now.unix_ms).map_err(anyhow::Error::new));
        let time_left = vault.epoch_keys.next_expiry_ms().map(|it| it.saturating_sub(now.unix_ms));
        let time_left = time_left.and_then(|it| u64::try_from(it).ok()).map(Duration::from_millis);
        // The clock may be set forward during the pause, and new keys may expire earlier.
        sleep(time_left.unwrap_or(CHECK_KEYS_EVERY).clamp(PAUSE_MIN, CHECK_KEYS_EVERY)).await;
    }
}

/// Restores keys that were lost in Redis (restart or manual deletion) from the memory of this node.
/// Other nodes need these keys to decrypt CVCs.
async fn republish_epoch_keys(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(RENEW_KEYS_EVERY);
    loop {
        ticks.tick().await;
        // The key exchange has already logged that it is unavailable.
        drop(app.vault.epoch_keys.republish().await);
    }
}

/// Deletes expired rows, which requests can no longer read. Each target has its own task, so that a
/// large backlog does not delay the others. Waits until the vault is unsealed: deletions are
/// recorded in the audit log, which requires a key.
async fn sweep_expired<F>(app: Arc<App>, target: SweepTarget, step: fn(Vault, Arc<Directory>) -> F)
where
    F: Future<Output = Result<usize, StoreError>>,
{
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        sweep_in_steps(&app, target, || async {
            match app.directory.load_full() {
                Some(directory) => step(app.vault.clone(), directory).await,
                None => Ok(0),
            }
        })
        .await;
    }
}

/// Deletes all other expired data. Waits until the vault is unsealed: a sealed vault may be the
/// target of a running import.
async fn sweep_other(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let vault = &app.vault;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    let (store, clock) = (&vault.store, &vault.clock);
    let mut watermark_failures = FailureLog::warning(
        "saving the clock watermark failed; retrying every 30 seconds",
        "the clock watermark is saved again",
    );
    let (day, mut deleted_tenants) =
        (Duration::from_secs(24 * 60 * 60), load_deleted_tenants(&app).await);
    loop {
        ticks.tick().await;
        sweep_in_steps(&app, SweepTarget::VerificationCodes, || async {
            match app.directory.load_full() {
                Some(directory) => erase_cvcs(vault, &directory).await,
                None => Ok(0),
            }
        })
        .await;
        // A node with a clock that is ahead must not delete data that other nodes still serve.
        let read_clocks = async {
            Ok((
                store.cap_at_shared_clock(clock.now()).await?,
                store.cap_at_shared_clock(clock.earliest()).await?,
            ))
        };
        let (now, earliest) = match read_clocks.await {
            Ok(it) => it,
            Err(error) => {
                let error: StoreError = error;
                tracing::warn!(
                    cause = %error,
                    "sweep skipped: reading the clock of the store failed"
                );
                continue;
            }
        };
        save_watermark(vault, ClockWatermark { now, earliest }, &mut watermark_failures).await;
        let response_cutoff = now.minus(RESPONSE_RETENTION);
        sweep_in_steps(&app, SweepTarget::StoredResponses, || {
            store.delete_expired_responses(response_cutoff)
        })
        .await;
        sweep_in_steps(&app, SweepTarget::AccessSessions, || {
            store.delete_expired_access_sessions(now)
        })
        .await;
        sweep_in_steps(&app, SweepTarget::GuessBudgets, || store.delete_expired_guesses(earliest))
            .await;
        // Usage that is not written yet has the time at which its request started.
        let first_month_kept = Month::from_timestamp(earliest.minus(day));
        sweep_in_steps(&app, SweepTarget::UsageCounters, || {
            store.delete_old_usage(first_month_kept)
        })
        .await;
        expire_due_client_keys(&app).await;
        destroy_due_tenant_keys(&app).await;
        report_forged_deletions(vault).await;
        sweep_in_steps(&app, SweepTarget::DeletedTenants, || {
            purge_tenants(vault, &deleted_tenants)
        })
        .await;
        deleted_tenants.clear();
    }
}

/// Saves the time, so that the next start does not begin earlier, whatever its wall clock says.
async fn save_watermark(vault: &Vault, time: ClockWatermark, failures: &mut FailureLog) {
    let Some(key) = vault.audit_trail.key() else { return };
    if let Ok(Some(stored)) = vault.store.load_watermark().await
        && !stored.has_valid_mac(key)
    {
        tracing::error!(
            "the row of clock_watermark has no valid MAC and is replaced: it was altered outside \
             of the vault, or a node with a newer vault key wrote it; run: scrip doctor"
        );
    }
    failures.record(&vault.store.save_watermark(SignedWatermark::new(key, time)).await);
}

/// Deleted tenants to purge once after a start, independent of the list of due deletions.
async fn load_deleted_tenants(app: &App) -> Vec<TenantId> {
    let Some(directory) = app.directory.load_full() else { return Vec::new() };
    find_deleted_tenants(&app.vault, &directory).await.unwrap_or_else(|error| {
        tracing::warn!(cause = error.cause_text(), "finding deleted tenants failed");
        Vec::new()
    })
}

/// Destroys the keys of deleted tenants after their grace period.
async fn destroy_due_tenant_keys(app: &App) {
    let Some(directory) = app.directory.load_full() else { return };
    match destroy_due_tenants(&app.vault, &directory).await {
        Ok(0) => (),
        Ok(count) => {
            tracing::info!(count, "destroyed the keys of deleted tenants");
            drop(app.reload().await);
        }
        Err(error) => tracing::warn!(
            cause = error.cause_text(),
            "destroying the keys of deleted tenants failed; retrying at the next sweep"
        ),
    }
}

async fn report_forged_deletions(vault: &Vault) {
    for tenant in find_forged_deletions(vault).await.unwrap_or_default() {
        tracing::error!(
            %tenant,
            "a row of deleted_tenants is not authentic; the tenant is not purged; run: scrip doctor"
        );
    }
}

/// Writes the counts of the guessing budget after the requests that they belong to.
async fn write_guess_counts(app: Arc<App>) {
    let mut ticks = delayed_interval(WRITE_GUESS_COUNTS_EVERY);
    let mut failures = FailureLog::warning(
        "writing the counts of the guessing budget failed; retrying",
        "the counts of the guessing budget are written again",
    );
    loop {
        ticks.tick().await;
        let vault = &app.vault;
        failures.record(&vault.guess_ledger.flush(&*vault.store, vault.clock.now()).await);
    }
}

/// Writes the outcomes of proxied calls after the responses that they belong to.
async fn write_call_outcomes(app: Arc<App>) {
    let mut interval = WRITE_CALL_OUTCOMES_EVERY;
    let mut failures = FailureLog::error(
        "the outcomes of proxied calls cannot be recorded; their start is recorded",
        "the outcomes of proxied calls are recorded again",
    );
    loop {
        sleep(interval).await;
        interval = match app.vault.outcome_queue.is_empty() {
            true => WRITE_CALL_OUTCOMES_EVERY,
            false => WRITE_CALL_OUTCOMES_EVERY_UNDER_LOAD,
        };
        let lost_outcomes = app.vault.outcome_queue.flush(&*app.vault.store).await;
        let result = match lost_outcomes {
            0 => Ok(()),
            1.. => Err(anyhow::anyhow!("{lost_outcomes} outcomes are lost")),
        };
        failures.record(&result);
    }
}

/// Deletes records past the retention of their tenant. Waits until the vault is unsealed: the
/// remaining records start with a checkpoint, which requires a key.
async fn prune_old_records(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        let Some(directory) = app.directory.load_full() else { continue };
        match prune_logs(&app.vault, &directory).await {
            Err(error) => tracing::warn!(
                cause = error.cause_text(),
                "finding records past their retention failed"
            ),
            Ok(chains) => {
                for chain in chains {
                    let step = || app.vault.store.prune_chain(chain.clone());
                    sweep_in_steps(&app, SweepTarget::AuditRecords, step).await;
                }
            }
        }
    }
}

/// Deletes in small steps with pauses, so that other writes do not wait long.
async fn sweep_in_steps<F>(app: &App, target: SweepTarget, step: impl Fn() -> F)
where
    F: Future<Output = Result<usize, StoreError>>,
{
    let metrics = &app.metrics;
    for steps in 0_u32.. {
        match step().await {
            Ok(0) => {
                let now_ms = u64::try_from(app.vault.clock.now().unix_ms).unwrap_or_default();
                return metrics.sweep_finished.set(target, now_ms);
            }
            Ok(removed) => {
                metrics.swept.add(target, removed.try_into().unwrap_or(u64::MAX));
                let is_gentle = steps < GENTLE_STEPS_MAX;
                sleep(if is_gentle { PAUSE_BETWEEN_STEPS } else { PAUSE_WHEN_BEHIND }).await;
            }
            Err(error) => {
                metrics.sweep_failures.increment(target);
                tracing::warn!(
                    cause = %error,
                    what = target.as_str(),
                    "deleting expired data failed; retrying at the next sweep"
                );
                return;
            }
        }
    }
}

/// Deletes the expired keys of all tenants. Each deletion is a change of policy.
async fn expire_due_client_keys(app: &App) {
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
