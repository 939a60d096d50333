//! The simulator of directory servers that `scrip dev` brings along.

use std::future::pending;

use anyhow::Context;
use scrip_simulator::Settings;
use tokio::net::TcpListener;

/// Starts it on a listener of its own, as long as this process lives; where it is, without a slash at
/// the end.
///
/// # Errors
/// It cannot listen.
pub(crate) async fn start(_vault_url: &str) -> anyhow::Result<Option<String>> {
    // Any free port: several of these may run on one machine.
    let listener = TcpListener::bind("127.0.0.1:0").await.context("the simulator cannot listen")?;
    let simulator = scrip_simulator::start(listener, Settings::default())?;
    let url = simulator.base_url().to_owned();
    tokio::spawn(async move {
        pending::<()>().await;
        drop(simulator);
    });
    Ok(Some(url))
}
