//! Failed authentication, counted per client address until it is written to the audit log.
//!
//! Each address gets one record per window, with a count: a flood of requests without a valid API
//! key cannot make the log grow faster. No part of a key is stored.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::Vault;

/// The interval at which the counts are written.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Addresses with their own record in one window; all other addresses share a record.
const ADDRESSES_MAX: usize = 128;
/// The address in the shared record.
const OTHER_ADDRESSES: &str = "others";

#[derive(Debug, Default)]
pub struct AuthFailures(Mutex<FailureCounts>);

#[derive(Debug, Default)]
struct FailureCounts {
    by_address: HashMap<IpAddr, i64>,
    other_addresses: i64,
}

impl AuthFailures {
    pub fn record(&self, address: IpAddr) {
        let address = mask_to_network(address);
        let mut counts = self.lock();
        let is_full = counts.by_address.len() >= ADDRESSES_MAX;
        if is_full && !counts.by_address.contains_key(&address) {
            counts.other_addresses = counts.other_addresses.saturating_add(1);
            return;
        }
        let count = counts.by_address.entry(address).or_default();
        *count = count.saturating_add(1);
    }

    /// Writes one record for each address. Counts that cannot be written are added to the next
    /// window.
    pub async fn write_audit_records(&self, vault: &Vault) {
        let FailureCounts { by_address, other_addresses: other_count } =
            std::mem::take(&mut *self.lock());
        let mut last_error = None;
        for (address, count) in by_address {
            let text = address.to_string().into();
            if let Err(error) = vault.record_failed_authentication(text, count).await {
                self.restore_count(address, count);
                last_error = Some(error);
            }
        }
        if other_count > 0
            && let Err(error) =
                vault.record_failed_authentication(OTHER_ADDRESSES.into(), other_count).await
        {
            let mut counts = self.lock();
            counts.other_addresses = counts.other_addresses.saturating_add(other_count);
            drop(counts);
            last_error = Some(error);
        }
        if let Some(error) = last_error {
            tracing::error!(
                cause = error.cause_text(),
                "failed to write audit records of failed authentication (retrying in the next window)"
            );
        }
    }

    fn restore_count(&self, address: IpAddr, count: i64) {
        let mut counts = self.lock();
        let stored_count = counts.by_address.entry(address).or_default();
        *stored_count = stored_count.saturating_add(count);
    }

    fn lock(&self) -> MutexGuard<'_, FailureCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the /64 network of an IPv6 address, because a client can use any number of addresses of
/// its network.
fn mask_to_network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(it) => {
            let [a, b, c, d, ..] = it.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// Writes the counts after every window, until the process ends.
pub async fn write_periodically(failures: Arc<AuthFailures>, vault: Vault) {
    let mut ticks = tokio::time::interval(WINDOW);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        failures.write_audit_records(&vault).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_above_the_maximum_share_one_count() {
        let failures = AuthFailures::default();
        for last_byte in 0..=255 {
            failures.record(IpAddr::from([192, 0, 2, last_byte]));
            failures.record(IpAddr::from([192, 0, 2, last_byte]));
        }
        let counts = failures.lock();
        assert_eq!(counts.by_address.len(), ADDRESSES_MAX);
        assert!(counts.by_address.values().all(|it| *it == 2));
        assert_eq!(counts.other_addresses, 2 * (256 - 128));
    }

    #[test]
    fn addresses_of_one_ipv6_network_have_one_count() {
        let failures = AuthFailures::default();
        for last_segment in 0..1000_u16 {
            failures.record(Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 1, 2, 3, last_segment).into());
        }
        let counts = failures.lock();
        let counts_by_address: Vec<_> = counts.by_address.iter().collect();
        assert_eq!(counts_by_address, [(&"2001:db8:0:7::".parse().unwrap(), &1000)]);
    }
}
