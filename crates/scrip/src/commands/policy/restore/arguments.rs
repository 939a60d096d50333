//! Arguments of `scrip policy restore`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::arguments::ApprovedArguments;

#[derive(Debug, Args)]
pub(crate) struct PolicyRestoreArguments {
    /// File of `scrip backup` or `scrip export`.
    #[arg(long, value_name = "BACKUP")]
    pub(super) from: PathBuf,
    /// Id of the tenant, or its name in the backup.
    #[arg(long)]
    pub(super) tenant: String,
    /// Restore although the audit log is altered and cannot show whether the tenant was deleted.
    #[arg(long)]
    pub(super) ignore_audit_log: bool,
    /// Confirm the changes.
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) common: ApprovedArguments,
}
