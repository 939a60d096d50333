//! The settings that requests read.

use scrip_core::{policy::destination::LoopbackDestinations, types::Operation};

use crate::app::{
    field_hosting::FieldHosting, limits::RequestLimits, trusted_proxies::TrustedProxies,
};

/// What the operator decided about requests. The server sets it before the first request.
#[derive(Debug, Default)]
pub struct RequestSettings {
    pub limits: RequestLimits,
    /// Proxies that may report a client's address.
    pub trusted_proxies: TrustedProxies,
    /// Deprecated operations that the operator switched off. Other operations cannot be switched
    /// off.
    pub disabled_operations: Vec<Operation>,
    /// Whether proxies may have a destination on this machine: for development only.
    pub loopback_destinations: LoopbackDestinations,
    /// The hosts that serve the hosted fields.
    pub field_hosting: FieldHosting,
}
