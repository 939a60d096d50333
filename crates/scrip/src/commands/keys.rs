//! `scrip keys`: the keys of the vault and of its tenants.

mod rotate_tenant;
mod rotation;

use clap::{Args, Subcommand};
use scrip_server::config::Environment;

use crate::commands::{CommonArguments, keys::rotation::RotationCommand};

const ROTATE_EXAMPLES: &str = "\
Examples:
  scrip keys rotate tenant 5f0c…
  scrip keys rotate tenant --all

The command adds a new version of the key. A running server then uses it, encrypts the rows of the
tenant again, and destroys the old version. Fingerprints and search indexes stay the same.";

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Rotate a key.
    #[command(subcommand)]
    Rotate(RotateCommand),
    /// Show, pause and resume running rotations.
    #[command(subcommand)]
    Rotation(RotationCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RotateCommand {
    /// Rotate the sealing key of one tenant, or of all tenants.
    #[command(after_help = ROTATE_EXAMPLES)]
    Tenant(RotateTenantArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RotateTenantArguments {
    /// Id of the tenant, or its name.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    tenant: Option<String>,
    /// Rotate the keys of all tenants without a running rotation.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(command: &KeysCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        KeysCommand::Rotate(RotateCommand::Tenant(it)) => rotate_tenant::run(it, environment),
        KeysCommand::Rotation(it) => rotation::run(it, environment),
    }
}
