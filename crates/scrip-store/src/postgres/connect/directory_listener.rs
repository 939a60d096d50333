//! Changes of the directory, heard of as they happen. This makes nodes faster, and is never the only
//! means: they ask for the version as well, since `LISTEN` needs a session, which a pooler in
//! transaction mode does not give, and an engine of another kind may not know it.

use std::{
    future::poll_fn,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use scrip_core::store::StoreError;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_postgres::{AsyncMessage, Config, NoTls, Socket, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::postgres::engine::{error::store_error, pool::PooledConnection};

/// Between one attempt and the next.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const LISTEN_TIMEOUT: Duration = Duration::from_secs(15);

/// Where to listen, and who waits.
#[derive(Debug)]
pub(crate) struct DirectoryListener {
    target: ConnectionTarget,
    notified: Arc<Notify>,
    /// Only a server listens, so not before the first that waits.
    task: OnceLock<JoinHandle<()>>,
}

#[derive(Clone)]
pub(crate) struct ConnectionTarget {
    pub(crate) config: Config,
    pub(crate) tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for ConnectionTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Place")
    }
}

impl Drop for DirectoryListener {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl DirectoryListener {
    pub(crate) fn new(target: ConnectionTarget) -> Self {
        Self { target, notified: Arc::default(), task: OnceLock::new() }
    }

    /// Until somebody tells of a change. Several that come together are one.
    pub(crate) async fn wait(&self) {
        let (place, heard) = (&self.target, &self.notified);
        self.task.get_or_init(|| tokio::spawn(listen(place.clone(), Arc::clone(heard))));
        heard.notified().await;
    }
}

/// As long as the store is there.
async fn listen(target: ConnectionTarget, notified: Arc<Notify>) {
    let mut is_told = false;
    loop {
        let ended = match target.tls.clone() {
            None => listen_once(&target.config, NoTls, &notified).await,
            Some(tls) => listen_once(&target.config, tls, &notified).await,
        };
        if !is_told {
            is_told = true;
            tracing::warn!(
                why = ended,
                "changes of rights on other nodes are not heard of, only looked for"
            );
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Until it ends, and why it did. The engine's own words may quote a value.
async fn listen_once<T>(config: &Config, tls: T, notified: &Notify) -> &'static str
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Unpin,
{
    let connected = tokio::time::timeout(LISTEN_TIMEOUT, config.connect(tls)).await;
    let Ok(Ok((client, mut connection))) = connected else { return "no connection" };
    let messages = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                Ok(AsyncMessage::Notification(_)) => notified.notify_one(),
                Ok(_) => (),
                Err(_) => return "the connection was lost",
            }
        }
        "the connection was closed"
    };
    let listening = async {
        let listening = client.batch_execute("LISTEN scrip_directory");
        let listening = tokio::time::timeout(LISTEN_TIMEOUT, listening).await;
        listening.map_err(io::Error::other)?.map_err(io::Error::other)?;
        // Before that there may have been some that nobody heard.
        notified.notify_one();
        std::future::pending::<Result<(), io::Error>>().await
    };
    tokio::select! {
        ended = messages => ended,
        _ = listening => "the engine does not know LISTEN, or did not answer",
    }
}

/// Sent with the commit, and not if there is none. An engine that does not know it goes on without.
pub(crate) async fn notify_directory_changed(
    connection: &PooledConnection,
) -> Result<(), StoreError> {
    let client = connection.client()?;
    let notify = "SAVEPOINT told; NOTIFY scrip_directory; RELEASE SAVEPOINT told";
    let told = async {
        match client.batch_execute(notify).await {
            Err(error) if error.code().is_some() => {
                client.batch_execute("ROLLBACK TO SAVEPOINT told").await
            }
            told => told,
        }
    };
    connection.with_timeout(told).await?.map_err(store_error)
}
