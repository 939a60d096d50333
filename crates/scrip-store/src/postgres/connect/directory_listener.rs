//! Listens for `NOTIFY` when another node changes the directory. This only shortens the delay:
//! nodes also poll the directory version. `LISTEN` needs a session, which a pooler in transaction
//! mode does not provide, and other engines that speak the protocol may not support it.

use std::{
    future::poll_fn,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use scrip_core::types::StoreError;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_postgres::{AsyncMessage, Config, NoTls, Socket, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::postgres::engine::{error::store_error, pool::PooledConnection};

/// Pause between two connection attempts.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const LISTEN_TIMEOUT: Duration = Duration::from_secs(15);

/// Waits for notifications on a separate connection.
#[derive(Debug)]
pub(crate) struct DirectoryListener {
    target: ConnectionTarget,
    notified: Arc<Notify>,
    /// Started by the first call of `wait`, because only a server listens.
    task: OnceLock<JoinHandle<()>>,
}

/// Address and TLS configuration of the server.
#[derive(Clone)]
pub(crate) struct ConnectionTarget {
    pub(crate) config: Config,
    pub(crate) tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for ConnectionTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectionTarget")
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

    /// Waits for a notification of a change. Several notifications may wake the caller once.
    pub(crate) async fn wait(&self) {
        let (target, notified) = (&self.target, &self.notified);
        self.task.get_or_init(|| tokio::spawn(listen(target.clone(), Arc::clone(notified))));
        notified.notified().await;
    }
}

/// Listens until the store is dropped.
async fn listen(target: ConnectionTarget, notified: Arc<Notify>) {
    let mut is_reported = false;
    loop {
        let end_reason = match target.tls.clone() {
            None => listen_once(&target.config, NoTls, &notified).await,
            Some(tls) => listen_once(&target.config, tls, &notified).await,
        };
        if !is_reported {
            is_reported = true;
            tracing::warn!(
                reason = end_reason,
                "LISTEN unavailable: policy changes of other nodes are found by polling"
            );
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Listens until the connection ends and returns the reason. The server's message may quote a
/// value, so it is not part of the reason.
async fn listen_once<T>(config: &Config, tls: T, notified: &Notify) -> &'static str
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Unpin,
{
    let connect_result = tokio::time::timeout(LISTEN_TIMEOUT, config.connect(tls)).await;
    let Ok(Ok((client, mut connection))) = connect_result else { return "connection failed" };
    let receive_messages = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                Ok(AsyncMessage::Notification(_)) => notified.notify_one(),
                Ok(_) => (),
                Err(_) => return "connection lost",
            }
        }
        "connection closed by the server"
    };
    let start_listening = async {
        let listen = client.batch_execute("LISTEN scrip_directory");
        let result = tokio::time::timeout(LISTEN_TIMEOUT, listen).await;
        result.map_err(io::Error::other)?.map_err(io::Error::other)?;
        // Notifications sent before `LISTEN` were lost, so wake the caller once.
        notified.notify_one();
        std::future::pending::<Result<(), io::Error>>().await
    };
    tokio::select! {
        reason = receive_messages => reason,
        _ = start_listening => "LISTEN failed or timed out",
    }
}

/// Notifies other nodes. PostgreSQL sends the notification with the commit. The savepoint lets the
/// transaction continue on an engine that does not support `NOTIFY`.
pub(crate) async fn notify_directory_changed(
    connection: &PooledConnection,
) -> Result<(), StoreError> {
    let client = connection.client()?;
    let sql = "SAVEPOINT notify; NOTIFY scrip_directory; RELEASE SAVEPOINT notify";
    let send_notification = async {
        match client.batch_execute(sql).await {
            Err(error) if error.code().is_some() => {
                client.batch_execute("ROLLBACK TO SAVEPOINT notify").await
            }
            result => result,
        }
    };
    connection.with_timeout(send_notification).await?.map_err(store_error)
}
