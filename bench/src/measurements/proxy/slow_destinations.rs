//! The memory of the vault while many destinations do not answer.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use scrip_testing::directory_server::authority::CertificateAuthority;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::harness::{
    load::connect_from,
    process::{BenchServer, anonymous_mb},
};

const DESTINATIONS: usize = 1000;
const WAVES: usize = 4;
/// Samples of the memory while a wave waits.
const SAMPLES: usize = 4;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
/// Shorter than the time limit of a call, minus the time that a wave waits.
const WAVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Calls from one address, which the vault limits.
const CALLS_PER_ADDRESS: usize = 100;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

/// Anonymous memory in MB.
#[derive(Debug)]
pub(super) struct SlowDestinationsResult {
    pub(super) destinations: usize,
    pub(super) before: f64,
    /// Of each wave, from its first sample to its last.
    pub(super) waves: Vec<Vec<f64>>,
    pub(super) after: f64,
}

/// The state of all destinations.
struct SlowPeers {
    /// A permit for each request that arrived and waits.
    waiting: Semaphore,
    /// The number of finished waves.
    released: watch::Sender<usize>,
}

pub(super) async fn measure(
    server: &BenchServer,
    authority: &CertificateAuthority,
) -> anyhow::Result<SlowDestinationsResult> {
    let acceptor = TlsAcceptor::from(server_config(authority)?);
    let (released, _) = watch::channel(0);
    let peers = Arc::new(SlowPeers { waiting: Semaphore::new(0), released });
    let mut listeners = JoinSet::new();
    let mut ports = Vec::with_capacity(DESTINATIONS);
    for _ in 0..DESTINATIONS {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        ports.push(listener.local_addr()?.port());
        listeners.spawn(accept(listener, acceptor.clone(), Arc::clone(&peers)));
    }
    let before = anonymous_mb(server.pid())?;
    let mut waves = Vec::with_capacity(WAVES);
    for wave in 1..=WAVES {
        let mut calls = JoinSet::new();
        for (index, port) in ports.iter().enumerate() {
            let client = client_address(index)?;
            calls.spawn(call(client, server.address, server.api_key.clone(), *port));
        }
        let all = u32::try_from(DESTINATIONS)?;
        let arrival = timeout(WAVE_TIMEOUT, peers.waiting.acquire_many(all)).await;
        arrival.context("not every call arrived at its destination")??.forget();
        let mut samples = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            sleep(SAMPLE_INTERVAL).await;
            samples.push(anonymous_mb(server.pid())?);
        }
        waves.push(samples);
        peers.released.send_replace(wave);
        while let Some(result) = calls.join_next().await {
            result??;
        }
    }
    listeners.shutdown().await;
    sleep(SAMPLE_INTERVAL).await;
    let after = anonymous_mb(server.pid())?;
    Ok(SlowDestinationsResult { destinations: DESTINATIONS, before, waves, after })
}

fn server_config(authority: &CertificateAuthority) -> anyhow::Result<Arc<ServerConfig>> {
    let issued = authority.issue("slow", &["localhost"]);
    let chain = CertificateDer::pem_file_iter(&issued.certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&issued.key)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
    Ok(Arc::new(config.with_single_cert(chain, key)?))
}

/// Clients have several addresses, because the vault limits the connections of each.
fn client_address(index: usize) -> anyhow::Result<Ipv4Addr> {
    let group = u8::try_from(index / CALLS_PER_ADDRESS)?;
    Ok(Ipv4Addr::new(127, 0, group.saturating_add(1), 1))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, peers: Arc<SlowPeers>) {
    while let Ok((stream, _)) = listener.accept().await {
        // A failure shows at the client, which gets no answer.
        drop(answer_late(stream, &acceptor, &peers).await);
    }
}

async fn answer_late(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    peers: &SlowPeers,
) -> anyhow::Result<()> {
    let mut released = peers.released.subscribe();
    let wave = *released.borrow_and_update();
    let mut stream = acceptor.accept(stream).await?;
    let mut buffer = Vec::with_capacity(1024);
    while !buffer.ends_with(b"}}") {
        ensure!(stream.read_buf(&mut buffer).await? > 0, "the request is incomplete");
    }
    peers.waiting.add_permits(1);
    released.wait_for(|it| *it > wave).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    Ok(())
}

async fn call(
    client: Ipv4Addr,
    server: SocketAddr,
    api_key: String,
    port: u16,
) -> anyhow::Result<()> {
    let body = r#"{"amount":1999,"card":{"number":"4242424242424242"}}"#;
    let request = format!(
        "POST /proxy HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {api_key}\r\n\
         BT-PROXY-URL: https://localhost:{port}/\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = connect_from(client, server).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    ensure!(response.starts_with("HTTP/1.1 200"), "a slow call failed: {response}");
    Ok(())
}
