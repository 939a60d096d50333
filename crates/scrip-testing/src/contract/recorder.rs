//! A peer between a client and a server that passes bytes on unchanged, and keeps them.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{Builder, JoinHandle},
};

use crate::contract::{Exchange, http1};

/// The bytes of one connection, by direction.
#[derive(Debug, Default)]
struct ConnectionBytes {
    sent: Mutex<Vec<u8>>,
    received: Mutex<Vec<u8>>,
}

/// A free port; connections wait there until they are forwarded.
#[derive(Debug)]
pub struct RecorderListener(TcpListener);

impl RecorderListener {
    #[must_use]
    pub fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("its address")
    }

    /// Forwards every connection to this server.
    #[must_use]
    pub fn forward(self, server: SocketAddr) -> Recorder {
        let address = self.address();
        let connections = Arc::<Mutex<Vec<Arc<ConnectionBytes>>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let (kept, over) = (Arc::clone(&connections), Arc::clone(&is_over));
        let accept = move || {
            for client in self.0.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let bytes = Arc::<ConnectionBytes>::default();
                lock(&kept).push(Arc::clone(&bytes));
                // A server that is gone is told by closing, as it would be without this peer.
                drop(forward(&client, server, &bytes));
            }
        };
        let thread = Builder::new().name("recorder".to_owned()).spawn(accept).expect("a thread");
        Recorder { address, connections, is_stopped: is_over, thread: Some(thread) }
    }
}

impl Default for RecorderListener {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes no more connections when dropped. Those that are open stay so until either side closes.
#[derive(Debug)]
pub struct Recorder {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<ConnectionBytes>>>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// All requests until now that have a whole response.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        let connections = lock(&self.connections);
        let of = |it: &Arc<ConnectionBytes>| http1::exchanges(&lock(&it.sent), &lock(&it.received));
        connections.iter().flat_map(of).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        drop(TcpStream::connect(self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forward(client: &TcpStream, server: SocketAddr, bytes: &Arc<ConnectionBytes>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let both = [
        (client.try_clone()?, server.try_clone()?, Arc::clone(bytes), true),
        (server, client.try_clone()?, Arc::clone(bytes), false),
    ];
    for (from, to, bytes, is_sent) in both {
        let copy = move || {
            let kept = if is_sent { &bytes.sent } else { &bytes.received };
            let how =
                if relay(&from, &to, kept).is_ok() { Shutdown::Write } else { Shutdown::Both };
            drop(to.shutdown(how));
            if how == Shutdown::Both {
                drop(from.shutdown(how));
            }
        };
        Builder::new().name("recorder".to_owned()).spawn(copy)?;
    }
    Ok(())
}

/// Up to the end of one direction.
fn relay(mut from: &TcpStream, mut to: &TcpStream, recorded: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut chunk)?;
        let Some(bytes) = chunk.get(..count).filter(|it| !it.is_empty()) else { return Ok(()) };
        lock(recorded).extend_from_slice(bytes);
        to.write_all(bytes)?;
    }
}
