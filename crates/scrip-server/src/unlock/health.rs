//! Health of unlock methods: each method that can be asked proves that it still returns the vault
//! key.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use scrip_core::unlock::UnlockRecord;
use tokio::time::sleep;

use crate::{
    clock::ticks,
    config::keys::{CheckInterval, SourceLossLimit},
    unlock::{
        inputs::UnlockProblem,
        manager::{KeyManager, OpenVault},
        open::{MethodName, source_text, unwrap_method},
    },
};

/// Longest pause between two checks while a method fails.
const RETRY_EVERY: Duration = Duration::from_secs(60);
/// Pause between two looks for a rotation by another node.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// The outcome of one round of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckRound {
    /// There is nothing to ask: the vault is sealed, or only people can unlock it.
    NothingToAsk,
    /// The methods cannot be read, or were altered, so none proves that it returns the key.
    Unknown,
    AllWork,
    SomeFail,
    AllFail,
}

impl KeyManager {
    /// Asks every method that needs no people for the vault key.
    pub(crate) async fn check_methods(&self) -> CheckRound {
        let vault = match self.open_vault().await {
            Ok(vault) => vault,
            Err(_) if self.app.is_sealed() || self.has_legacy_key.load(Ordering::Relaxed) => {
                return CheckRound::NothingToAsk;
            }
            Err(_) => return CheckRound::Unknown,
        };
        // An altered row could name a file that must not be sent to a source.
        let is_authentic =
            |it: &&UnlockRecord| it.is_authentic(&vault.audit_key, vault.identity.id);
        let (people, methods): (Vec<_>, Vec<_>) = vault
            .unlocks
            .active_methods()
            .filter(is_authentic)
            .partition(|it| it.kind.needs_people());
        self.health.retain(|id| methods.iter().any(|it| it.id.to_string() == id));
        let mut working = 0_usize;
        for method in &methods {
            working = working.saturating_add(usize::from(self.check_method(&vault, method).await));
        }
        match working {
            _ if methods.is_empty() && people.is_empty() => CheckRound::Unknown,
            _ if methods.is_empty() => CheckRound::NothingToAsk,
            0 => CheckRound::AllFail,
            it if it == methods.len() => CheckRound::AllWork,
            _ => CheckRound::SomeFail,
        }
    }

    async fn check_method(&self, vault: &OpenVault, method: &UnlockRecord) -> bool {
        let name = MethodName::new(method).to_string();
        let problem = match unwrap_method(&self.inputs, vault.identity, method).await {
            Ok(key) if key.constant_time_eq(vault.key.secret().expose()) => None,
            Ok(_) => Some("the method returned another key".to_owned()),
            Err(error) => Some(source_text(method.kind, &error)),
        };
        let before = self.health.set(method.id.to_string(), problem.is_none());
        match problem {
            Some(cause) => {
                if before != Some(false) {
                    tracing::error!(
                        cause,
                        method = name,
                        "an unlock method does not return the vault key: the server serves from \
                         memory, but a restart may find the vault sealed"
                    );
                    self.record(&format!("unlock method {name} fails"), "failed").await;
                }
                false
            }
            None => {
                if before != Some(true) {
                    tracing::info!(method = name, "the unlock method returns the vault key");
                }
                if before == Some(false) {
                    self.record(&format!("unlock method {name} works again"), "completed").await;
                }
                let now = self.app.vault.clock.now();
                drop(self.app.vault.store.save_unlock_check(method.id, now).await);
                true
            }
        }
    }
}

/// Checks the methods for as long as the server runs, and seals the vault if the settings require
/// it.
pub async fn check_periodically(
    manager: Arc<KeyManager>,
    check_every: CheckInterval,
    loss_limit: Option<SourceLossLimit>,
) {
    manager.app.wait_until_unsealed().await;
    let mut last_success = ticks();
    loop {
        let round = manager.check_methods().await;
        let now = ticks();
        if !matches!(round, CheckRound::AllFail | CheckRound::Unknown) {
            last_success = now;
        } else if loss_limit.is_some_and(|it| now.saturating_sub(last_success) >= it.0) {
            tracing::error!("no unlock method returns the vault key any more; sealing the vault");
            manager.record("seal: no unlock method returns the vault key", "completed").await;
            manager.seal();
        }
        let pause = match round {
            CheckRound::NothingToAsk | CheckRound::AllWork => check_every.0,
            CheckRound::SomeFail | CheckRound::AllFail | CheckRound::Unknown => {
                check_every.0.min(RETRY_EVERY)
            }
        };
        let limit = loss_limit.map_or(pause, |it| it.0.max(Duration::from_secs(1)));
        sleep(pause.min(limit)).await;
    }
}

/// Gets the new vault key when another node has rotated it. Only several nodes on one database need
/// this.
pub async fn follow_rotations(manager: Arc<KeyManager>) {
    manager.app.wait_until_unsealed().await;
    let (mut last_cause, mut pause, mut has_sealed_cause) = (String::new(), FOLLOW_EVERY, false);
    loop {
        tokio::select! {
            () = sleep(pause) => (),
            () = manager.new_key_entered.notified() => (),
        }
        let result = manager.follow_rotation().await;
        // Each attempt asks all sources, so a row that no source opens must not be tried at once.
        pause = match &result {
            Ok(()) => FOLLOW_EVERY,
            Err(_) => pause.saturating_mul(2).min(RETRY_EVERY),
        };
        let problem = result.as_ref().err().and_then(|it| it.downcast_ref::<UnlockProblem>());
        manager.app.health.new_key_missing_by.replace(problem.map(|it| it.reason));
        if problem.is_some() || has_sealed_cause {
            manager.set_sealed_cause(problem.map(ToString::to_string));
            has_sealed_cause = problem.is_some();
        }
        if let Err(error) = &result {
            let cause = format!("{error:#}");
            // The store logs its own outage.
            if cause != last_cause && manager.app.storage_reason().is_none() {
                match problem {
                    Some(_) => {
                        tracing::error!(cause, "the new vault key cannot be loaded; retrying");
                    }
                    // Whether another node has rotated the key is unknown.
                    None => tracing::error!(
                        cause,
                        "the state of the vault key cannot be read; retrying"
                    ),
                }
                last_cause = cause;
            }
        }
    }
}
