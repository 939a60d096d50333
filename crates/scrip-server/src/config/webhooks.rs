//! Creates the client of deliveries to webhooks from its settings.

use std::net::SocketAddr;

use scrip_api::app::proxy_egress::LazyEgressClient;
use scrip_egress::EgressLimits;

use crate::config::table::{ProxyCallSettings, WebhookDeliverySettings};

/// The deliverer has a lower limit of its own, which is fair between tenants and receivers.
const REQUESTS_MAX: usize = 1024;
const RECEIVER_REQUESTS_MAX: usize = 64;
/// Each lookup needs a thread.
const LOOKUPS_MAX: usize = 32;
const IDLE_CONNECTIONS_MAX: usize = 256;

impl WebhookDeliverySettings {
    /// `proxy` has the settings that all outgoing calls share. `own_addresses` are the listeners of
    /// this process, which are never a receiver.
    ///
    /// Errors: a file of the settings cannot be read, or does not have its format.
    pub fn egress(
        &self,
        proxy: &ProxyCallSettings,
        own_addresses: Vec<SocketAddr>,
    ) -> anyhow::Result<LazyEgressClient> {
        let (mut settings, roots) = proxy.shared_settings(own_addresses)?;
        settings.allow_list = self.allow.0.clone();
        settings.allowed_ports = self.allowed_ports.0.clone();
        settings.limits = EgressLimits {
            requests_max: REQUESTS_MAX,
            waiting_max: REQUESTS_MAX,
            destination_requests_max: RECEIVER_REQUESTS_MAX,
            lookups_max: LOOKUPS_MAX,
            idle_connections_max: IDLE_CONNECTIONS_MAX,
            ..settings.limits
        };
        Ok(LazyEgressClient::new(settings, roots))
    }
}
