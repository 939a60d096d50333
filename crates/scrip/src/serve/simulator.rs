//! The simulator of directory servers that `scrip dev` starts.

use std::future::pending;

use anyhow::Context;
use scrip_simulator::{ResultDestinations, SimulatorSettings};
use tokio::net::TcpListener;

/// Starts the simulator for a vault with this host and port, on a separate listener, until the
/// process exits. Returns its URL without a trailing slash.
/// Errors: the listener cannot be bound.
pub(crate) async fn start(vault: Option<String>) -> anyhow::Result<Option<String>> {
    // Any free port: several of these may run on one machine.
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("binding the listener of the simulator failed")?;
    let results = vault.map_or(ResultDestinations::Loopback, ResultDestinations::LoopbackAndHost);
    let simulator = scrip_simulator::start(
        listener,
        SimulatorSettings { result_destinations: results, ..SimulatorSettings::default() },
    )?;
    let url = simulator.base_url().to_owned();
    tokio::spawn(async move {
        pending::<()>().await;
        drop(simulator);
    });
    Ok(Some(url))
}
