//! What every request shares.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use scrip_core::{Vault, directory::Directory};
use scrip_seal::{KeySource, Pepper};
use tokio::sync::{Mutex, Semaphore};

#[derive(Debug)]
pub struct App {
    pub vault: Vault,
    /// Replaced whole when a key, an application or a tenant changes.
    pub directory: ArcSwap<Directory>,
    pub source: Arc<dyn KeySource>,
    /// Whoever replaces the directory, so that an older one never takes the place of a newer.
    reloading: Mutex<()>,
    pub limits: Limits,
    /// Room for large bodies in flight, in KiB.
    pub body_room: Semaphore,
}

/// Bodies up to this size are not counted. What is read of a body takes up to twenty times its size
/// in memory, so the larger ones share a room.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;
const LARGE_BODIES_KIB: usize = 64 * 1024;

impl App {
    #[must_use]
    pub fn new(vault: Vault, directory: Directory, source: Arc<dyn KeySource>) -> Self {
        report(None, &directory);
        Self {
            vault,
            directory: ArcSwap::new(Arc::new(directory)),
            source,
            reloading: Mutex::default(),
            limits: Limits::default(),
            body_room: Semaphore::new(LARGE_BODIES_KIB),
        }
    }

    /// Takes over what the store has now. When it cannot, the old directory stays, and whoever
    /// looks for changes tries again in a moment.
    pub async fn reload(&self) {
        let _turn = self.reloading.lock().await;
        let before = self.directory.load_full();
        match Directory::load(&*self.vault.store, &*self.source, Some(&before)).await {
            Ok(after) => {
                report(Some(&before), &after);
                self.directory.store(Arc::new(after));
            }
            Err(error) => tracing::error!(%error, ?error, "the directory could not be loaded"),
        }
    }

    #[must_use]
    pub fn pepper(&self) -> Arc<Pepper> {
        Arc::clone(self.directory.load().pepper())
    }
}

/// Every alteration that was not there before: somebody has to look at it.
fn report(before: Option<&Directory>, after: &Directory) {
    let known = before.map(Directory::alterations).unwrap_or_default();
    for alteration in after.alterations().iter().filter(|it| !known.contains(it)) {
        let tenant = alteration.tenant.map(|it| it.to_string()).unwrap_or_default();
        tracing::error!(tenant, what = alteration.what, "policy was altered from outside");
    }
    if !known.is_empty() && after.alterations().is_empty() {
        tracing::info!("policy is as it was written again");
    }
}

/// How much one client may ask of a connection.
#[derive(Debug, Clone)]
pub struct Limits {
    pub body_bytes_max: usize,
    /// From the first byte of a request to the last of its head; also how long a connection idles.
    pub header_deadline: Duration,
    /// From the last byte of the head to the last of the body.
    pub body_deadline: Duration,
    pub connections_max: usize,
    /// How long requests in flight may take to end when the server is told to stop.
    pub drain_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            header_deadline: Duration::from_secs(30),
            body_deadline: Duration::from_secs(30),
            connections_max: 4096,
            drain_deadline: Duration::from_secs(10),
        }
    }
}
