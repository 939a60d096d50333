//! `scrip keys rotate vault`: replace the vault key.

use clap::Args;
use scrip_server::{
    config::Environment,
    control::protocol::{ControlRequest, send_request},
    storage::unlock::{rotation::RotationStatus, shares::ShareCount},
};
use serde_json::json;

use crate::commands::{
    CommonArguments,
    approval::send_change,
    keys::shares::{print_shares, read_shares},
    output::CommandOutput,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys rotate vault
  scrip keys rotate vault --shares 5 --threshold 3

All stored keys and unlock methods change in one transaction, while the server serves. A vault with
shares gets new shares, which are printed once and must be entered before anything changes. Old shares,
key files and backups of the old vault key open what was stored before, and nothing that was stored since.";

#[derive(Debug, Args)]
pub(crate) struct RotateVaultArguments {
    /// Number of new shares [default: as before].
    #[arg(long, requires = "threshold")]
    shares: Option<u8>,
    /// Number of new shares that unseal the vault [default: as before].
    #[arg(long, requires = "shares")]
    threshold: Option<u8>,
    /// Public age key of a holder; one for each share.
    #[arg(long = "to", value_name = "AGE", requires = "shares")]
    recipients: Vec<String>,
    #[command(flatten)]
    common: CommonArguments,
}

pub(super) fn run(
    arguments: &RotateVaultArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = arguments.common.socket_settings(environment)?;
    let address = settings.control_address();
    let count = arguments.shares.zip(arguments.threshold).map(|(shares, threshold)| ShareCount {
        shares,
        threshold,
        recipients: arguments.recipients.clone(),
    });
    let mut status: RotationStatus =
        send_change(&settings, &arguments.common, &ControlRequest::RotateVault { count })?;
    if let Some(issued) = &status.shares {
        print_shares(issued)?;
        let shares = read_shares(issued.threshold)?;
        status = send_request(&address, &ControlRequest::ConfirmRotation { shares })?;
    }
    let (from, to) = (status.from, status.to);
    let text = format!(
        "rotated the vault key from version {from} to version {to}\nEarlier backups still open with \
         the earlier unlock methods: delete them when you do not need them\n"
    );
    let json = json!({ "from": from, "to": to });
    arguments.common.print_output(&CommandOutput::new(text, json))
}
