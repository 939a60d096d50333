//! What every request shares.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use scrip_core::{Vault, directory::Directory};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub struct App {
    pub vault: Vault,
    /// Replaced whole when a key, an application or a tenant changes.
    pub directory: ArcSwap<Directory>,
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
    pub fn new(vault: Vault, directory: Directory) -> Self {
        let directory = ArcSwap::new(Arc::new(directory));
        let body_room = Semaphore::new(LARGE_BODIES_KIB);
        Self { vault, directory, limits: Limits::default(), body_room }
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
