//! Unsealing of a vault after the start.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use scrip_api::app::App;
use scrip_core::policy::Directory;
use scrip_seal::KeySource;
use tokio::time::sleep;

use crate::storage::explain;

const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Retries until the root key opens the vault. Creates nothing: an empty vault stays sealed.
pub async fn unseal_with_retries<F>(app: Arc<App>, find_source: F)
where
    F: Fn() -> anyhow::Result<Arc<dyn KeySource>> + Send,
{
    let mut pause = PAUSE_MIN;
    let mut logged_causes = BTreeSet::new();
    while let Err(error) = try_unseal(&app, &find_source).await {
        let cause = format!("{error:#}");
        if logged_causes.insert(cause.clone()) {
            tracing::error!(cause, "the vault is sealed; retrying");
        }
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
    tracing::info!("the vault is open");
}

/// Unseals the vault. Loading the directory decrypts the pepper, so a wrong root key is an error.
async fn try_unseal<F>(app: &App, find_source: &F) -> anyhow::Result<()>
where
    F: Fn() -> anyhow::Result<Arc<dyn KeySource>>,
{
    let store = &*app.vault.store;
    let directory = store.load_directory().await.map_err(explain)?;
    if directory.system_keys.is_none() {
        anyhow::bail!("the vault is empty; run: scrip init");
    }
    let source = find_source()?;
    let directory = Directory::load(store, &*source, None).await.map_err(explain)?;
    app.start_clock(&directory).await.map_err(explain)?;
    app.unseal(directory, source);
    Ok(())
}
