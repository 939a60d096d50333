//! `scrip keys`: the unlock methods of the vault key, and the rotation of keys.

mod add;
mod adopt;
mod dual_control;
pub(crate) mod list;
mod new_shares;
mod remove;
mod rotate_fingerprints;
mod rotate_vault;
mod share_output;
mod shares;
pub(crate) mod unseal;

use clap::Subcommand;
use scrip_operator::actions::{
    key_rotation::{PauseKeyRotation, ResumeKeyRotation, ShowKeyRotation},
    rotate_tenant::RotateTenantKey,
};
use scrip_server::config::Environment;

use crate::commands::{
    arguments::{ActionCommand, ApprovedActionCommand, CommonArguments},
    keys::{
        add::AddCommand, adopt::AdoptArguments, dual_control::DualControlCommand,
        remove::RemoveArguments, rotate_fingerprints::RotateFingerprintsArguments,
        rotate_vault::RotateVaultArguments,
    },
};

const ROTATE_TENANT_EXAMPLES: &str = "\
Examples:
  scrip keys rotate tenant 5f0c…
  scrip keys rotate tenant --all

The command adds a new version of the key. A running server then uses it, encrypts the rows of the
tenant again, and destroys the old version. Fingerprints and search indexes stay the same.";

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List the unlock methods: state, last success and version of the vault key.
    List {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Give a vault of an earlier version its first unlock method; the data is not encrypted again.
    #[command(after_help = adopt::EXAMPLES)]
    Adopt(AdoptArguments),
    /// Add an unlock method to the vault of a running server.
    #[command(subcommand, after_help = add::EXAMPLES)]
    Add(AddCommand),
    /// Remove an unlock method and overwrite its row.
    Remove(RemoveArguments),
    /// Rotate a key.
    #[command(subcommand)]
    Rotate(RotateCommand),
    /// Switch dual control on or off, or show its state.
    #[command(subcommand, after_help = dual_control::EXAMPLES)]
    DualControl(DualControlCommand),
    /// Show, pause and resume rotations of tenants' keys.
    #[command(subcommand)]
    Rotation(RotationCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RotateCommand {
    /// Replace the vault key; all stored keys and unlock methods are wrapped again.
    #[command(after_help = rotate_vault::EXAMPLES)]
    Vault(RotateVaultArguments),
    /// Rotate the sealing key of one tenant, or of all tenants.
    #[command(after_help = ROTATE_TENANT_EXAMPLES)]
    Tenant(ApprovedActionCommand<RotateTenantKey>),
    /// Replace the keys of fingerprints and search indexes, without a running server. Every
    /// fingerprint changes.
    #[command(after_help = rotate_fingerprints::EXAMPLES)]
    Fingerprints(RotateFingerprintsArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RotationCommand {
    /// Print the rotations and the number of rows per key version. Reads every row of the tenants.
    Status(ActionCommand<ShowKeyRotation>),
    /// Pause the rotation of a tenant, or of all tenants.
    Pause(ActionCommand<PauseKeyRotation>),
    /// Resume the rotation of a tenant, or of all tenants.
    Resume(ActionCommand<ResumeKeyRotation>),
}

pub(crate) fn run(command: &KeysCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        KeysCommand::List { common } => list::run(common, environment),
        KeysCommand::Adopt(arguments) => adopt::run(arguments, environment),
        KeysCommand::Add(command) => add::run(command, environment),
        KeysCommand::Remove(arguments) => remove::run(arguments, environment),
        KeysCommand::Rotate(RotateCommand::Vault(it)) => rotate_vault::run(it, environment),
        KeysCommand::Rotate(RotateCommand::Tenant(it)) => it.run(environment),
        KeysCommand::Rotate(RotateCommand::Fingerprints(it)) => {
            rotate_fingerprints::run(it, environment)
        }
        KeysCommand::DualControl(it) => dual_control::run(it, environment),
        KeysCommand::Rotation(RotationCommand::Status(it)) => it.run(environment),
        KeysCommand::Rotation(RotationCommand::Pause(it)) => it.run(environment),
        KeysCommand::Rotation(RotationCommand::Resume(it)) => it.run(environment),
    }
}
