//! A proxy between a client and a server that forwards bytes unchanged and records them.

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

/// A listener on a free port. Connections wait until they are forwarded.
#[derive(Debug)]
pub struct RecorderListener(TcpListener);

impl RecorderListener {
    pub fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("bind a free port"))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("the local address")
    }

    /// Forwards every connection to this server.
    pub fn forward(self, server: SocketAddr) -> Recorder {
        let address = self.address();
        let connections = Arc::<Mutex<Vec<Arc<ConnectionBytes>>>>::default();
        let is_stopped = Arc::<AtomicBool>::default();
        let (recorded_connections, stop_signal) =
            (Arc::clone(&connections), Arc::clone(&is_stopped));
        let accept = move || {
            for client in self.0.incoming().flatten() {
                if stop_signal.load(Ordering::SeqCst) {
                    return;
                }
                let bytes = Arc::<ConnectionBytes>::default();
                lock(&recorded_connections).push(Arc::clone(&bytes));
                // If the server is unavailable, the client sees a closed connection, as it would
                // without the proxy.
                drop(forward(&client, server, &bytes));
            }
        };
        let thread =
            Builder::new().name("recorder".to_owned()).spawn(accept).expect("start a thread");
        Recorder { address, connections, is_stopped, thread: Some(thread) }
    }
}

impl Default for RecorderListener {
    fn default() -> Self {
        Self::new()
    }
}

/// Accepts no more connections after it is dropped. Open connections stay open until either side
/// closes.
#[derive(Debug)]
pub struct Recorder {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<ConnectionBytes>>>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// All requests so far that have a complete response.
    pub fn exchanges(&self) -> Vec<Exchange> {
        let connections = lock(&self.connections);
        let parse = |it: &Arc<ConnectionBytes>| {
            http1::parse_exchanges(&lock(&it.sent), &lock(&it.received))
        };
        connections.iter().flat_map(parse).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
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
    let directions = [
        (client.try_clone()?, server.try_clone()?, Arc::clone(bytes), true),
        (server, client.try_clone()?, Arc::clone(bytes), false),
    ];
    for (from, to, bytes, is_sent) in directions {
        let copy = move || {
            let recorded = if is_sent { &bytes.sent } else { &bytes.received };
            let shutdown =
                if relay(&from, &to, recorded).is_ok() { Shutdown::Write } else { Shutdown::Both };
            drop(to.shutdown(shutdown));
            if shutdown == Shutdown::Both {
                drop(from.shutdown(shutdown));
            }
        };
        Builder::new().name("recorder".to_owned()).spawn(copy)?;
    }
    Ok(())
}

/// Forwards one direction until its end.
fn relay(
    mut from: &TcpStream,
    mut to: &TcpStream,
    recorded_bytes: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut chunk)?;
        let Some(bytes) = chunk.get(..count).filter(|it| !it.is_empty()) else { return Ok(()) };
        lock(recorded_bytes).extend_from_slice(bytes);
        to.write_all(bytes)?;
    }
}
