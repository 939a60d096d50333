//! The simulator of directory servers that `scrip dev` brings along.

/// Starts it on a listener of its own; where it is, without a slash at the end. Nothing as long as
/// this program has none.
///
/// # Errors
/// It cannot listen.
pub(crate) async fn start(_vault_url: &str) -> anyhow::Result<Option<String>> {
    // Here the simulator is started: `scrip_simulator::...`, and its address is returned.
    Ok(None)
}
