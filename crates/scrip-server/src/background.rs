//! Work that no request waits for. It ends with the runtime; whatever it leaves undone, the next
//! start does.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    operations::claim_answer::ANSWER_RETENTION,
    store::{StoreError, StoreFuture},
    time::Timestamp,
};

use crate::app::App;

const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// A change that another process made counts here within a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The version that tells of a change can be altered too, so at times nobody asks it.
const LOOKS_BEFORE_RELOAD: u32 = 120;

pub(crate) fn start(app: &Arc<App>) {
    tokio::spawn(follow_directory(Arc::clone(app)));
    tokio::spawn(sweep(app.vault.clone()));
}

/// Takes over what other processes changed of tenants, applications and keys.
async fn follow_directory(app: Arc<App>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut looks = 0_u32;
    loop {
        ticks.tick().await;
        looks = looks.saturating_add(1);
        let loaded = app.directory.load().as_ref().map(|it| it.version());
        let changed = match app.vault.store.directory_version().await {
            Ok(version) => loaded.is_some_and(|it| it != version),
            Err(error) => {
                tracing::warn!(?error, "whether policy changed could not be asked");
                false
            }
        };
        if changed || looks >= LOOKS_BEFORE_RELOAD {
            looks = 0;
            app.reload().await;
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
