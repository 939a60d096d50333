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
    app::{App, Load, auth_failures},
    metrics::{Label, Swept},
};
use scrip_core::{
    Vault,
    audit::NotedTime,
    id::TenantId,
    operations::{
        claim_answer::ANSWER_RETENTION,
        logs::prune_logs::prune_logs,
        sessions::expire_session::expire_session,
        tenants::{
            delete_tenant::destroy_due_tenants,
            purge_tenants::{ended_tenants, forged_deletions, purge_tenants},
        },
        tokens::expire_token::{erase_cvcs, expire_token, expire_token_intent},
    },
    store::StoreError,
    threeds::EVENT_RETENTION,
    time::{KnownTime, Month},
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

use crate::{directory_servers::keep_ranges, node::Node};

const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// A sweep leaves the file to others for so long: to the writer's queue, and to other processes,
/// which the engine lets in only when they find it free.
const PAUSE_BETWEEN_STEPS: Duration = Duration::from_millis(5);
/// After so many steps, some quarter of an hour of them, there is more than gentle sweeping gets
/// done within the hour: then it takes its full share of the writer.
const GENTLE_STEPS_MAX: u32 = 100_000;
const PAUSE_IN_A_HURRY: Duration = Duration::from_millis(1);
/// A crash loses the counts of so long, and of one write.
const WRITE_GUESSES_EVERY: Duration = Duration::from_millis(250);
const SWEEP_COUNTERS_EVERY: Duration = Duration::from_secs(1);
const LOOK_AT_KEYS_EVERY: Duration = Duration::from_secs(1);
const RENEW_KEYS_EVERY: Duration = Duration::from_secs(2);
const PAUSE_LEAST: Duration = Duration::from_millis(5);
/// A change that another process made counts here within a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The version that tells of a change can be altered too, so at times nobody asks it.
const LOOKS_BEFORE_RELOAD: u32 = 120;

/// So many looks in a row that failed, two seconds, and rights that were taken away may still be in
/// memory: nobody is let in by them any more.
const FAILURES_MAX: u32 = 8;
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// One piece of work, for as long as the runtime lives.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) fn start(node: &Node) {
    let app = &node.app;
    let keep = |what, work: fn(Arc<App>) -> Work| {
        let app = Arc::clone(app);
        keep_going(what, move || work(Arc::clone(&app)));
    };
    keep("follow_directory", |app| Box::pin(follow_directory(app)));
    keep("destroy_epoch_keys", |app| Box::pin(destroy_epoch_keys(app)));
    if app.vault.epochs.exchange().is_some() {
        keep("renew_epoch_keys", |app| Box::pin(renew_epoch_keys(app)));
    }
    keep("expire_tokens", |app| {
        Box::pin(expire(app, Swept::Tokens, |it| async move { expire_token(&it).await }))
    });
    keep("expire_token_intents", |app| {
        Box::pin(expire(
            app,
            Swept::TokenIntents,
            |it| async move { expire_token_intent(&it).await },
        ))
    });
    keep("expire_sessions", |app| {
        Box::pin(expire(app, Swept::Sessions, |it| async move { expire_session(&it).await }))
    });
    keep("sweep_counters", |app| Box::pin(sweep_counters(app)));
    keep("record_failed_authentication", |app| {
        Box::pin(auth_failures::follow(Arc::clone(&app.auth_failures), app.vault.clone()))
    });
    keep("sweep", |app| Box::pin(sweep(app)));
    keep("write_guesses", |app| Box::pin(write_guesses(app)));
    keep("prune", |app| Box::pin(prune(app)));
    for peer in node.settings.schemes.iter().flat_map(|it| it.peers()) {
        let (vault, every) = (app.vault.clone(), node.settings.ranges_every);
        keep_going("keep_ranges", move || keep_ranges(vault.clone(), Arc::clone(&peer), every));
    }
}

/// What ends here ends by a panic, and begins again.
fn keep_going<F: Future<Output = ()> + Send + 'static>(
    what: &'static str,
    work: impl Fn() -> F + Send + 'static,
) {
    tokio::spawn(async move {
        loop {
            drop(AssertUnwindSafe(work()).catch_unwind().await);
            tracing::error!(what, "ended by a panic, and begins again");
            sleep(PAUSE_AFTER_PANIC).await;
        }
    });
}

/// Where few ask, few give back what others left.
async fn sweep_counters(app: Arc<App>) {
    let mut ticks = every(SWEEP_COUNTERS_EVERY);
    loop {
        ticks.tick().await;
        app.limiter.sweep(app.vault.clock.now());
    }
}

/// Takes over what other processes changed of tenants, applications and keys.
async fn follow_directory(app: Arc<App>) {
    let mut ticks = every(LOOK_EVERY);
    let (mut looks, mut failures) = (0_u32, 0_u32);
    loop {
        tokio::select! {
            _ = ticks.tick() => looks = looks.saturating_add(1),
            // Whoever changed it says so, where the engine can tell. One that cannot never does.
            Ok(()) = app.vault.store.directory_changed() => (),
        }
        let load = if looks < LOOKS_BEFORE_RELOAD { Load::IfChanged } else { Load::Always };
        let began = Instant::now();
        match app.load(load).await {
            Ok(()) => {
                failures = 0;
                if load == Load::Always {
                    looks = 0;
                }
                if app.stale.swap(false, Ordering::Relaxed) {
                    tracing::info!("changes of rights can be followed again");
                }
            }
            Err(error) => {
                let is_first = failures == 0;
                // One that was waited for counts for those that it kept from being taken.
                let missed = began.elapsed().as_millis() / LOOK_EVERY.as_millis();
                let missed = u32::try_from(missed).unwrap_or(u32::MAX);
                failures = failures.saturating_add(1).saturating_add(missed);
                if is_first {
                    tracing::warn!(?error, "changes of rights could not be followed");
                }
                if failures >= FAILURES_MAX && !app.stale.swap(true, Ordering::Relaxed) {
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
        match vault.epochs.destroy_ended(now.unix_ms) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::error!(%error, "epoch keys: a restart would lose codes");
            }
            Err(_) => (),
        }
        let left = vault.epochs.next_end_ms().map(|it| it.saturating_sub(now.unix_ms));
        let left = left.and_then(|it| u64::try_from(it).ok()).map(Duration::from_millis);
        // The clock may be set forward meanwhile, and keys that end sooner may be made.
        sleep(left.unwrap_or(LOOK_AT_KEYS_EVERY).clamp(PAUSE_LEAST, LOOK_AT_KEYS_EVERY)).await;
    }
}

/// What is held here and was lost where nodes share it, by a restart or by a hand, is back there
/// before long: other nodes show codes that were sealed with it.
async fn renew_epoch_keys(app: Arc<App>) {
    app.opened().await;
    let mut ticks = every(RENEW_KEYS_EVERY);
    loop {
        ticks.tick().await;
        // That they are away was said by whoever found out.
        drop(app.vault.epochs.renew().await);
    }
}

/// Removes what has expired; it has been out of reach since. Each kind apart from the rest, which must
/// not wait for a million of them. Not before the vault is open: what is removed is recorded, which
/// takes a key.
async fn expire<F>(app: Arc<App>, what: Swept, step: fn(Vault) -> F)
where
    F: Future<Output = Result<usize, StoreError>>,
{
    app.opened().await;
    let mut ticks = every(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        in_steps(&app, what, || step(app.vault.clone())).await;
    }
}

/// Ticks at once and then so often; one that was missed is not made up for.
pub(crate) fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Removes what else nobody may see any more. Not while the vault is sealed: it may be one that is
/// being filled.
async fn sweep(app: Arc<App>) {
    app.opened().await;
    let vault = &app.vault;
    let mut ticks = every(SWEEP_EVERY);
    let (store, clock) = (&vault.store, &vault.clock);
    let (day, mut ended) = (Duration::from_secs(24 * 60 * 60), find_ended(&app).await);
    loop {
        ticks.tick().await;
        in_steps(&app, Swept::VerificationCodes, || erase_cvcs(vault)).await;
        // A node whose clock is ahead must not remove what others still serve.
        let bounded = async {
            Ok((store.not_after(clock.now()).await?, store.not_after(clock.earliest()).await?))
        };
        let (now, earliest) = match bounded.await {
            Ok(it) => it,
            Err(error) => {
                let error: StoreError = error;
                tracing::warn!(?error, "nothing is swept: the store did not answer");
                continue;
            }
        };
        note_time(vault, KnownTime { now, earliest }).await;
        let old = now.before(ANSWER_RETENTION);
        in_steps(&app, Swept::Answers, || store.forget_answers(old)).await;
        in_steps(&app, Swept::AccessSessions, || store.forget_access_sessions(now)).await;
        let untold = earliest.before(EVENT_RETENTION);
        in_steps(&app, Swept::SessionEvents, || store.forget_events(untold)).await;
        in_steps(&app, Swept::Guesses, || store.sweep_guesses(earliest)).await;
        // A day later: what is on its way to the log has the time of when it began.
        let month_over = Month::of(earliest.before(day));
        in_steps(&app, Swept::Usage, || store.sweep_usage(month_over)).await;
        destroy_due(&app).await;
        report_forged_deletions(vault).await;
        in_steps(&app, Swept::DeletedTenants, || purge_tenants(vault, &ended)).await;
        ended.clear();
    }
}

/// So that the next start is not before this, wherever its clock stands.
async fn note_time(vault: &Vault, time: KnownTime) {
    let Some(key) = vault.audit.key() else { return };
    if let Err(error) = vault.store.note_time(NotedTime::new(key, time)).await {
        tracing::warn!(?error, "the time could not be noted");
    }
}

/// Deleted tenants whose rows are purged once, whatever the list of them says.
async fn find_ended(app: &App) -> Vec<TenantId> {
    let Some(directory) = app.directory.load_full() else { return Vec::new() };
    ended_tenants(&app.vault, &directory).await.unwrap_or_else(|error| {
        tracing::warn!(?error, "deleted tenants could not be looked for");
        Vec::new()
    })
}

/// Destroys the keys of deleted tenants whose grace period is over.
async fn destroy_due(app: &App) {
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
    for tenant in forged_deletions(vault).await.unwrap_or_default() {
        tracing::error!(
            %tenant,
            "a row of deleted_tenants is not authentic; the tenant is not purged; run: scrip doctor"
        );
    }
}

/// Writes the counts of the guessing budget behind the requests that they belong to.
async fn write_guesses(app: Arc<App>) {
    let mut ticks = every(WRITE_GUESSES_EVERY);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match app.vault.guesses.flush(&*app.vault.store, app.vault.clock.now()).await {
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
async fn prune(app: Arc<App>) {
    app.opened().await;
    let mut ticks = every(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        let Some(directory) = app.directory.load_full() else { continue };
        match prune_logs(&app.vault, &directory).await {
            Err(error) => tracing::warn!(?error, "old records could not be looked for"),
            Ok(chains) => {
                for chain in chains {
                    let step = || app.vault.store.prune_chain(chain.clone());
                    in_steps(&app, Swept::Records, step).await;
                }
            }
        }
    }
}

/// Small ones with pauses between them, so that no writer waits long.
async fn in_steps<F>(app: &App, what: Swept, step: impl Fn() -> F)
where
    F: Future<Output = Result<usize, StoreError>>,
{
    let metrics = &app.metrics;
    for steps in 0_u32.. {
        match step().await {
            Ok(0) => {
                let now_ms = u64::try_from(app.vault.clock.now().unix_ms).unwrap_or_default();
                return metrics.sweep_finished.set(what, now_ms);
            }
            Ok(removed) => {
                metrics.swept.add(what, removed.try_into().unwrap_or(u64::MAX));
                let gentle = steps < GENTLE_STEPS_MAX;
                sleep(if gentle { PAUSE_BETWEEN_STEPS } else { PAUSE_IN_A_HURRY }).await;
            }
            Err(error) => {
                metrics.sweep_failures.one(what);
                tracing::warn!(?error, what = what.as_str(), "could not be removed");
                return;
            }
        }
    }
}
