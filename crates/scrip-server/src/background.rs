//! Work that no request waits for. It ends with the runtime; whatever it leaves undone, the next
//! start does.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt;
use scrip_core::{
    Vault,
    operations::claim_answer::ANSWER_RETENTION,
    store::{StoreError, StoreFuture},
    time::Timestamp,
};

use crate::app::{App, Load};

const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// A change that another process made counts here within a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The version that tells of a change can be altered too, so at times nobody asks it.
const LOOKS_BEFORE_RELOAD: u32 = 120;

/// So many looks in a row that failed, two seconds, and rights that were taken away may still be in
/// memory: nobody is let in by them any more.
const FAILURES_MAX: u32 = 8;
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

pub(crate) fn start(app: &Arc<App>) {
    let follower = Arc::clone(app);
    keep_going("follow_directory", move || follow_directory(Arc::clone(&follower)));
    let vault = app.vault.clone();
    keep_going("sweep", move || sweep(vault.clone()));
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
            tokio::time::sleep(PAUSE_AFTER_PANIC).await;
        }
    });
}

/// Takes over what other processes changed of tenants, applications and keys.
async fn follow_directory(app: Arc<App>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut looks, mut failures) = (0_u32, 0_u32);
    loop {
        ticks.tick().await;
        looks = looks.saturating_add(1);
        let load = if looks < LOOKS_BEFORE_RELOAD { Load::IfChanged } else { Load::Always };
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
                failures = failures.saturating_add(1);
                if failures == 1 {
                    tracing::warn!(?error, "changes of rights could not be followed");
                }
                if failures >= FAILURES_MAX && !app.stale.swap(true, Ordering::Relaxed) {
                    tracing::error!(?error, "rights in memory may be old: the vault is sealed");
                }
            }
        }
    }
}

/// Destroys the keys of ended epochs, and removes what nobody may see any more.
async fn sweep(vault: Vault) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        vault.epochs.destroy_ended(vault.clock.now().unix_ms);
        let store = &vault.store;
        let old = |now: Timestamp| now.before(ANSWER_RETENTION);
        in_steps(&vault, "old answers", |now| store.forget_answers(old(now))).await;
        in_steps(&vault, "ended sessions", |now| store.forget_access_sessions(now)).await;
        in_steps(&vault, "deleted tenants", |now| store.purge_tenants(now)).await;
    }
}

/// Small ones, so that no writer waits long for it.
async fn in_steps<'a>(
    vault: &Vault,
    what: &str,
    step: impl Fn(Timestamp) -> StoreFuture<'a, usize>,
) {
    loop {
        let removed: Result<usize, StoreError> = step(vault.clock.now()).await;
        match removed {
            Ok(0) => return,
            Ok(_) => (),
            Err(error) => {
                tracing::warn!(?error, what, "could not be removed");
                return;
            }
        }
    }
}
