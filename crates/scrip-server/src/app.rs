//! What every request shares.

use std::{
    sync::{Arc, OnceLock, atomic::AtomicUsize},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use scrip_core::{Vault, directory::Directory};
use scrip_seal::KeySource;
use tokio::sync::Semaphore;

#[derive(Debug)]
pub struct App {
    pub vault: Vault,
    /// Nothing while the vault is sealed. Replaced whole when a key, an application or a tenant
    /// changes.
    pub directory: ArcSwapOption<Directory>,
    /// What opened the directory, and opens it again after a change.
    pub source: OnceLock<Arc<dyn KeySource>>,
    pub limits: Limits,
    /// Room for large bodies in flight, in KiB.
    pub body_room: Semaphore,
    /// How many are open now.
    pub connections: AtomicUsize,
}

/// Bodies up to this size are not counted. What is read of a body takes up to twenty times its size
/// in memory, so the larger ones share a room.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;
const LARGE_BODIES_KIB: usize = 64 * 1024;

impl App {
    /// Open from the start.
    #[must_use]
    pub fn new(vault: Vault, directory: Directory) -> Self {
        let app = Self::sealed(vault);
        app.replace(directory);
        app
    }

    /// Refuses everything until it is opened.
    #[must_use]
    pub fn sealed(vault: Vault) -> Self {
        Self {
            vault,
            directory: ArcSwapOption::empty(),
            source: OnceLock::new(),
            limits: Limits::default(),
            body_room: Semaphore::new(LARGE_BODIES_KIB),
            connections: AtomicUsize::new(0),
        }
    }

    /// Takes what the key source opened, and the source for later.
    pub fn open(&self, directory: Directory, source: Arc<dyn KeySource>) {
        // The first one stays: it is what opened the vault.
        self.source.get_or_init(|| source);
        self.replace(directory);
    }

    /// Takes a directory that was loaded again.
    pub fn replace(&self, directory: Directory) {
        self.directory.store(Some(Arc::new(directory)));
    }

    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.directory.load().is_none()
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
