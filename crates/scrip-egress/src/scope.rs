//! The part of a tenant that a connection belongs to.

/// The tenant of a scope, by which limits are shared.
pub(crate) type TenantKey = [u8; 16];

/// Requests of different scopes never share a connection or a TLS session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionScope {
    /// The tenant. Limits are fair between tenants.
    pub tenant: [u8; 16],
    /// The proxy, the application of an ephemeral proxy, or another part of the tenant.
    pub part: [u8; 16],
}
