//! Work that no request waits for. It ends with the runtime; whatever it leaves undone, the next
//! start does.

use std::{sync::Arc, time::Duration};

use scrip_core::{Vault, operations::claim_answer::ANSWER_RETENTION};

const EVERY: Duration = Duration::from_secs(30);

/// Destroys the keys of ended epochs and forgets old answers.
pub(crate) fn start(vault: Vault) {
    let keys = Arc::clone(&vault.epochs);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            keys.destroy_ended(vault.clock.now().unix_ms);
            forget_answers(&vault).await;
        }
    });
}

/// In small steps, so that no writer waits long for it.
async fn forget_answers(vault: &Vault) {
    loop {
        let before = vault.clock.now().before(ANSWER_RETENTION);
        match vault.store.forget_answers(before).await {
            Ok(0) => return,
            Ok(_) => (),
            Err(error) => {
                tracing::warn!(?error, "old answers could not be forgotten");
                return;
            }
        }
    }
}
