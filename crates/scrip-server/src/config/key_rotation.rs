//! The pace of key rotations.

use std::time::Duration;

use crate::config::table::KeySettings;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The pace of rotations of tenants' sealing keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRotationPace {
    /// Rows that are sealed again in a second.
    pub rows_per_second: usize,
    /// The time between the addition of a version and its promotion. Every node must have loaded
    /// the version by then, or reject all requests.
    pub promote_after: Duration,
    /// The time between the promotion of a version and the destruction of the old ones. Clients
    /// hold cursors of old versions.
    pub destroy_after: Duration,
    /// The cryptoperiod of sealing keys; `None` for no limit.
    pub max_age: Option<Duration>,
    /// Whether the vault rotates keys that are older.
    pub is_automatic: bool,
    /// The cryptoperiod of the vault key; `None` for no limit. Only an operator rotates it.
    pub vault_max_age: Option<Duration>,
}

impl Default for KeyRotationPace {
    fn default() -> Self {
        Self {
            rows_per_second: 1000,
            promote_after: Duration::from_secs(30),
            destroy_after: DAY,
            max_age: Some(DAY.saturating_mul(365)),
            is_automatic: false,
            vault_max_age: Some(DAY.saturating_mul(365)),
        }
    }
}

impl KeySettings {
    /// The cryptoperiod of sealing keys; `None` for no limit.
    pub fn tenant_max_age(&self) -> Option<Duration> {
        days_limit(self.tenant_max_age_days.get())
    }

    /// The cryptoperiod of the vault key; `None` for no limit.
    pub fn vault_max_age(&self) -> Option<Duration> {
        days_limit(self.vault_max_age_days.get())
    }

    pub fn rotation_pace(&self) -> KeyRotationPace {
        KeyRotationPace {
            rows_per_second: self.rotation_rows_per_second.get(),
            promote_after: self.promote_after_seconds.seconds(),
            destroy_after: self.destroy_after_seconds.seconds(),
            max_age: self.tenant_max_age(),
            is_automatic: self.rotate_automatically,
            vault_max_age: self.vault_max_age(),
        }
    }
}

fn days_limit(days: usize) -> Option<Duration> {
    let days = u32::try_from(days).unwrap_or(u32::MAX);
    (days > 0).then(|| DAY.saturating_mul(days))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::tests::{assert_rejected, load};

    #[test]
    fn default_settings_equal_the_default_pace() {
        let settings = load("", &[]).unwrap();
        assert_eq!(settings.keys.rotation_pace(), KeyRotationPace::default());
    }

    #[test]
    fn zero_days_are_no_limit_and_a_pace_of_zero_is_rejected() {
        let settings =
            load("[keys]\ntenant_max_age_days = 0\nvault_max_age_days = 0", &[]).unwrap();
        assert_eq!((settings.keys.tenant_max_age(), settings.keys.vault_max_age()), (None, None));
        assert_rejected("[keys]\nrotation_rows_per_second = 0", "keys.rotation_rows_per_second");
    }
}
