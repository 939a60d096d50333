//! Settings of the client. The program reads them from its configuration.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use zeroize::Zeroizing;

use crate::{
    guard::allow_list::AllowList,
    resolve::{Resolve, SystemResolver},
    tls::TrustedRoots,
};

/// Settings of an [`EgressClient`](crate::EgressClient).
#[derive(Debug, Clone)]
pub struct EgressSettings {
    pub allow_list: AllowList,
    pub allowed_ports: Vec<u16>,
    /// For development: `localhost`, `127.0.0.0/8` and `[::1]` are destinations, over http too.
    pub loopback_http: bool,
    pub forward_proxy: Option<ForwardProxy>,
    /// Listeners of this vault. They are never a destination.
    pub own_addresses: Vec<SocketAddr>,
    /// Certificate authorities for destinations without a private one.
    pub roots: TrustedRoots,
    pub limits: EgressLimits,
    pub resolver: Arc<dyn Resolve>,
    pub(crate) has_guard: bool,
}

impl EgressSettings {
    /// The defaults: every public name on port 443, resolved by the system.
    pub fn new(roots: TrustedRoots) -> Self {
        Self {
            allow_list: AllowList::default(),
            allowed_ports: vec![443],
            loopback_http: false,
            forward_proxy: None,
            own_addresses: Vec::new(),
            roots,
            limits: EgressLimits::default(),
            resolver: Arc::new(SystemResolver),
            has_guard: true,
        }
    }

    /// Disables the guard, so that a test can show that the guard is what rejects a destination.
    #[must_use]
    pub fn without_guard_for_control_run(self) -> Self {
        Self { has_guard: false, ..self }
    }
}

/// Limits of the client. A tenant gets at most as much of a shared limit as is still free, so one
/// tenant never gets everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// Requests of all tenants at the same time.
    pub requests_max: usize,
    /// Requests at the same time to one destination of one scope.
    pub destination_requests_max: usize,
    /// Requests that wait until others end.
    pub waiting_max: usize,
    /// Lookups of names at the same time. The system needs a thread for each.
    pub lookups_max: usize,
    /// Connections that wait for the next request.
    pub idle_connections_max: usize,
    pub idle_timeout: Duration,
    /// Age at which a connection is no longer used again, so that changes of DNS take effect.
    pub connection_age_max: Duration,
    /// Lookup, connection and TLS handshake together.
    pub connect_timeout: Duration,
    /// Size of the head of a response.
    pub head_bytes_max: usize,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            requests_max: 2048,
            destination_requests_max: 512,
            waiting_max: 2048,
            lookups_max: 64,
            idle_connections_max: 1024,
            idle_timeout: Duration::from_secs(50),
            connection_age_max: Duration::from_secs(10 * 60),
            connect_timeout: Duration::from_secs(10),
            head_bytes_max: 64 * 1024,
        }
    }
}

/// A forward proxy that opens tunnels (`CONNECT`) to checked addresses. The operator chooses it, so
/// the guard does not apply to its own address.
#[derive(Debug, Clone)]
pub struct ForwardProxy {
    /// A name or an address.
    pub host: String,
    pub port: u16,
    pub credentials: Option<ForwardProxyCredentials>,
}

/// User name and password of a forward proxy.
#[derive(Clone)]
pub struct ForwardProxyCredentials {
    pub user: String,
    pub password: Zeroizing<String>,
}

impl fmt::Debug for ForwardProxyCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ForwardProxyCredentials").finish_non_exhaustive()
    }
}
