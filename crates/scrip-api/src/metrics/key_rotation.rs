//! Metrics of rotations of sealing keys.

use scrip_core::types::metrics::{Counter, Gauge};

#[derive(Debug, Default)]
pub struct KeyRotationMetrics {
    /// Rows that this node sealed again.
    pub resealed: Counter,
    /// Failed steps of this node.
    pub failures: Counter,
    /// Tenants with more than one version, as of the last check.
    pub running: Gauge,
    /// Rows that cannot be opened, so that an old version stays.
    pub unopened: Gauge,
    /// The age of the oldest sealing key in seconds, as of the last check.
    pub oldest_key_seconds: Gauge,
    /// Sealing keys that are older than the setting allows, as of the last check.
    pub overdue: Gauge,
    /// The age of the vault key in seconds, as of the last check.
    pub vault_key_seconds: Gauge,
    /// 1 if the vault key is older than the setting allows.
    pub is_vault_key_overdue: Gauge,
}
