//! The operator commands.

pub(crate) mod backup;
#[cfg(target_os = "linux")]
mod backup_killed;
mod bin_data;
pub(crate) mod commands;
mod doctor;
mod leaked_key;
mod policy_restore;
mod policy_restore_deleted;
mod proxy_hosts;
#[cfg(target_os = "linux")]
mod quotas;
mod recorded_commands;
#[cfg(target_os = "linux")]
mod stalled_command;
mod tenant_types;
#[cfg(target_os = "linux")]
mod transfer;
mod webhooks;
