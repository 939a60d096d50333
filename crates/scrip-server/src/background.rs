//! Work that no request waits for. It ends with the runtime; whatever it leaves undone, the next
//! start does.

pub mod unseal;

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt;
use scrip_api::{
    app::{App, ReloadMode, auth_failures},
    metrics::{Label, SweepTarget},
};
use scrip_core::{
    Vault,
    audit::SignedWatermark,
    id::TenantId,
    operations::{
        claim_idempotency_key::RESPONSE_RETENTION,
        logs::prune_logs::prune_logs,
        tenants::{
            delete_tenant::destroy_due_tenants,
            purge_tenants::{find_deleted_tenants, find_forged_deletions, purge_tenants},
        },
        threeds_sessions::expire_threeds_session::expire_threeds_session,
        tokens::expire_token::{erase_cvcs, expire_token, expire_token_intent},
    },
    store::StoreError,
    threeds::THREEDS_EVENT_RETENTION,
    time::{ClockWatermark, Month},
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

use crate::{directory_servers::refresh_periodically, node::Node};

const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// A sweep leaves the file to others for so long: to the writer's queue, and to other processes,
/// which the engine lets in only when they find it free.
const PAUSE_BETWEEN_STEPS: Duration = Duration::from_millis(5);
/// After so many steps, some quarter of an hour of them, there is more than gentle sweeping gets
/// done within the hour: then it takes its full share of the writer.
const GENTLE_STEPS_MAX: u32 = 100_000;
const PAUSE_WHEN_BEHIND: Duration = Duration::from_millis(1);
/// A crash loses the counts of so long, and of one write.
const WRITE_GUESS_COUNTS_EVERY: Duration = Duration::from_millis(250);
const SWEEP_COUNTERS_EVERY: Duration = Duration::from_secs(1);
const CHECK_KEYS_EVERY: Duration = Duration::from_secs(1);
const RENEW_KEYS_EVERY: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// A change that another process made counts here within a second.
const POLL_DIRECTORY_EVERY: Duration = Duration::from_millis(250);
/// The version that tells of a change can be altered too, so at times nobody asks it.
const POLLS_BEFORE_RELOAD: u32 = 120;

/// So many looks in a row that failed, two seconds, and rights that were taken away may still be in
/// memory: nobody is let in by them any more.
const FAILURES_MAX: u32 = 8;
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// One piece of work, for as long as the runtime lives.
type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) fn start(node: &Node) {
    let app = &node.app;
    let keep = |what, work: fn(Arc<App>) -> TaskFuture| {
        let app = Arc::clone(app);
        restart_after_panic(what, move || work(Arc::clone(&app)));
    };
    keep("follow_directory", |app| Box::pin(reload_directory_on_change(app)));
    keep("destroy_epoch_keys", |app| Box::pin(destroy_epoch_keys(app)));
    if app.vault.epoch_keys.exchange().is_some() {
        keep("renew_epoch_keys", |app| Box::pin(republish_epoch_keys(app)));
    }
    keep("expire_tokens", |app| {
        Box::pin(sweep_expired(
            app,
            SweepTarget::Tokens,
            |it| async move { expire_token(&it).await },
        ))
    });
    keep("expire_token_intents", |app| {
        Box::pin(sweep_expired(app, SweepTarget::TokenIntents, |it| async move {
            expire_token_intent(&it).await
        }))
    });
    keep("expire_sessions", |app| {
        Box::pin(sweep_expired(app, SweepTarget::ThreeDsSessions, |it| async move {
            expire_threeds_session(&it).await
        }))
    });
    keep("sweep_counters", |app| Box::pin(sweep_counters(app)));
    keep("record_failed_authentication", |app| {
        Box::pin(auth_failures::write_periodically(
            Arc::clone(&app.auth_failures),
            app.vault.clone(),
        ))
    });
    keep("sweep", |app| Box::pin(sweep_other(app)));
    keep("write_guesses", |app| Box::pin(write_guess_counts(app)));
    keep("prune", |app| Box::pin(prune_old_records(app)));
    for peer in node.settings.directory_servers.iter().flat_map(|it| it.connected_schemes()) {
        let (vault, every) = (app.vault.clone(), node.settings.ranges_age_max);
        restart_after_panic("keep_ranges", move || {
            refresh_periodically(vault.clone(), Arc::clone(&peer), every)
        });
    }
}

/// What ends here ends by a panic, and begins again.
fn restart_after_panic<F: Future<Output = ()> + Send + 'static>(
    task: &'static str,
    run: impl Fn() -> F + Send + 'static,
) {
    tokio::spawn(async move {
        loop {
            drop(AssertUnwindSafe(run()).catch_unwind().await);
            tracing::error!(task, "ended by a panic, and begins again");
            sleep(PAUSE_AFTER_PANIC).await;
        }
    });
}

/// Where few ask, few give back what others left.
async fn sweep_counters(app: Arc<App>) {
    let mut ticks = delayed_interval(SWEEP_COUNTERS_EVERY);
    loop {
        ticks.tick().await;
        app.limiter.sweep(app.vault.clock.now());
    }
}

/// Takes over what other processes changed of tenants, applications and keys.
async fn reload_directory_on_change(app: Arc<App>) {
    let mut ticks = delayed_interval(POLL_DIRECTORY_EVERY);
    let (mut looks, mut failures) = (0_u32, 0_u32);
    loop {
        tokio::select! {
            _ = ticks.tick() => looks = looks.saturating_add(1),
            // Whoever changed it says so, where the engine can tell. One that cannot never does.
            Ok(()) = app.vault.store.wait_for_directory_change() => (),
        }
        let load =
            if looks < POLLS_BEFORE_RELOAD { ReloadMode::IfChanged } else { ReloadMode::Always };
        let began = Instant::now();
        match app.mode(load).await {
            Ok(()) => {
                failures = 0;
                if load == ReloadMode::Always {
                    looks = 0;
                }
                if app.directory_is_stale.swap(false, Ordering::Relaxed) {
                    tracing::info!("changes of rights can be followed again");
                }
            }
            Err(error) => {
                let is_first = failures == 0;
                // One that was waited for counts for those that it kept from being taken.
                let missed = began.elapsed().as_millis() / POLL_DIRECTORY_EVERY.as_millis();
                let missed = u32::try_from(missed).unwrap_or(u32::MAX);
                failures = failures.saturating_add(1).saturating_add(missed);
                if is_first {
                    tracing::warn!(?error, "changes of rights could not be followed");
                }
                if failures >= FAILURES_MAX && !app.directory_is_stale.swap(true, Ordering::Relaxed)
                {
                    tracing::error!(?error, "rights in memory may be old: the vault is sealed");
                }
            }
        }
    }
}

/// Destroys the keys of ended epochs, each on time.
async fn destroy_epoch_keys(app: Arc<App>) {
    let vault = &app.vault;
    let mut failed = false;
    loop {
        let now = vault.clock.now();
        match vault.epoch_keys.destroy_expired(now.unix_ms) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::error!(%error, "epoch keys: a restart would lose codes");
            }
            Err(_) => (),
        }
        let left = vault.epoch_keys.next_expiry_ms().map(|it| it.saturating_sub(now.unix_ms));
        let left = left.and_then(|it| u64::try_from(it).ok()).map(Duration::from_millis);
        // The clock may be set forward meanwhile, and keys that end sooner may be made.
        sleep(left.unwrap_or(CHECK_KEYS_EVERY).clamp(PAUSE_MIN, CHECK_KEYS_EVERY)).await;
    }
}

/// What is held here and was lost where nodes share it, by a restart or by a hand, is back there
/// before long: other nodes show codes that were sealed with it.
async fn republish_epoch_keys(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(RENEW_KEYS_EVERY);
    loop {
        ticks.tick().await;
        // That they are away was said by whoever found out.
        drop(app.vault.epoch_keys.republish().await);
    }
}

/// Removes what has expired; it has been out of reach since. Each kind apart from the rest, which must
/// not wait for a million of them. Not before the vault is open: what is removed is recorded, which
/// takes a key.
async fn sweep_expired<F>(app: Arc<App>, target: SweepTarget, step: fn(Vault) -> F)
where
    F: Future<Output = Result<usize, StoreError>>,
{
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        sweep_in_steps(&app, target, || step(app.vault.clone())).await;
    }
}

/// Ticks at once and then so often; one that was missed is not made up for.
pub(crate) fn delayed_interval(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Removes what else nobody may see any more. Not while the vault is sealed: it may be one that is
/// being filled.
async fn sweep_other(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let vault = &app.vault;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    let (store, clock) = (&vault.store, &vault.clock);
    let (day, mut ended) = (Duration::from_secs(24 * 60 * 60), load_deleted_tenants(&app).await);
    loop {
        ticks.tick().await;
        sweep_in_steps(&app, SweepTarget::VerificationCodes, || erase_cvcs(vault)).await;
        // A node whose clock is ahead must not remove what others still serve.
        let bounded = async {
            Ok((
                store.cap_at_shared_clock(clock.now()).await?,
                store.cap_at_shared_clock(clock.earliest()).await?,
            ))
        };
        let (now, earliest) = match bounded.await {
            Ok(it) => it,
            Err(error) => {
                let error: StoreError = error;
                tracing::warn!(?error, "nothing is swept: the store did not answer");
                continue;
            }
        };
        save_watermark(vault, ClockWatermark { now, earliest }).await;
        let old = now.minus(RESPONSE_RETENTION);
        sweep_in_steps(&app, SweepTarget::StoredResponses, || store.delete_expired_responses(old))
            .await;
        sweep_in_steps(&app, SweepTarget::AccessSessions, || {
            store.delete_expired_access_sessions(now)
        })
        .await;
        let untold = earliest.minus(THREEDS_EVENT_RETENTION);
        sweep_in_steps(&app, SweepTarget::ThreeDsEvents, || {
            store.delete_expired_threeds_events(untold)
        })
        .await;
        sweep_in_steps(&app, SweepTarget::GuessBudgets, || store.delete_expired_guesses(earliest))
            .await;
        // A day later: what is on its way to the log has the time of when it began.
        let month_over = Month::from_timestamp(earliest.minus(day));
        sweep_in_steps(&app, SweepTarget::UsageCounters, || store.delete_old_usage(month_over))
            .await;
        destroy_due_tenant_keys(&app).await;
        report_forged_deletions(vault).await;
        sweep_in_steps(&app, SweepTarget::DeletedTenants, || purge_tenants(vault, &ended)).await;
        ended.clear();
    }
}

/// So that the next start is not before this, wherever its clock stands.
async fn save_watermark(vault: &Vault, time: ClockWatermark) {
    let Some(key) = vault.audit_trail.key() else { return };
    if let Err(error) = vault.store.save_watermark(SignedWatermark::new(key, time)).await {
        tracing::warn!(?error, "the time could not be noted");
    }
}

/// Deleted tenants whose rows are purged once, whatever the list of them says.
async fn load_deleted_tenants(app: &App) -> Vec<TenantId> {
    let Some(directory) = app.directory.load_full() else { return Vec::new() };
    find_deleted_tenants(&app.vault, &directory).await.unwrap_or_else(|error| {
        tracing::warn!(?error, "deleted tenants could not be looked for");
        Vec::new()
    })
}

/// Destroys the keys of deleted tenants whose grace period is over.
async fn destroy_due_tenant_keys(app: &App) {
    let Some(directory) = app.directory.load_full() else { return };
    match destroy_due_tenants(&app.vault, &directory).await {
        Ok(0) => (),
        Ok(count) => {
            tracing::info!(count, "the keys of deleted tenants were destroyed");
            drop(app.reload().await);
        }
        Err(error) => tracing::warn!(?error, "keys of deleted tenants could not be destroyed"),
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

/// Writes the counts of the guessing budget behind the requests that they belong to.
async fn write_guess_counts(app: Arc<App>) {
    let mut ticks = delayed_interval(WRITE_GUESS_COUNTS_EVERY);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match app.vault.guess_ledger.flush(&*app.vault.store, app.vault.clock.now()).await {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(?error, "counts of the guessing budget not written; retrying");
            }
            Err(_) => (),
        }
    }
}

/// Removes records that no tenant's quota keeps any longer. Not while the vault is sealed: what is
/// left begins with a checkpoint, which takes a key.
async fn prune_old_records(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        let Some(directory) = app.directory.load_full() else { continue };
        match prune_logs(&app.vault, &directory).await {
            Err(error) => tracing::warn!(?error, "old records could not be looked for"),
            Ok(chains) => {
                for chain in chains {
                    let step = || app.vault.store.prune_chain(chain.clone());
                    sweep_in_steps(&app, SweepTarget::AuditRecords, step).await;
                }
            }
        }
    }
}

/// Small ones with pauses between them, so that no writer waits long.
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
                let gentle = steps < GENTLE_STEPS_MAX;
                sleep(if gentle { PAUSE_BETWEEN_STEPS } else { PAUSE_WHEN_BEHIND }).await;
            }
            Err(error) => {
                metrics.sweep_failures.increment(target);
                tracing::warn!(?error, what = target.as_str(), "could not be removed");
                return;
            }
        }
    }
}
