//! Signals that stop a server.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Completes at SIGTERM or SIGINT.
pub(crate) fn termination_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}
