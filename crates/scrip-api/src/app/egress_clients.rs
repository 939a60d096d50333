//! The clients of outgoing requests.

use crate::app::{egress_client::LazyEgressClient, proxy_egress::ProxyEgress};

/// Proxied calls and deliveries have different clients, so that neither uses the limits of the
/// other.
#[derive(Debug, Default)]
pub struct EgressClients {
    pub proxied_calls: ProxyEgress,
    pub webhooks: LazyEgressClient,
}
