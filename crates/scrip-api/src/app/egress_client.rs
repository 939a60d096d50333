//! A guarded client that is created at its first use.

use std::sync::OnceLock;

use scrip_core::Error;
use scrip_egress::{EgressClient, EgressSettings, EgressStats, TrustedRoots};

/// The certificate authorities of destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationRoots {
    /// Loaded at the first use: they take a few milliseconds of processor time.
    System,
    /// Those of the settings.
    Given,
}

/// A client that is created at its first use: most vaults use neither proxies nor webhooks.
#[derive(Debug)]
pub struct LazyEgressClient {
    settings: EgressSettings,
    roots: DestinationRoots,
    client: OnceLock<EgressClient>,
}

impl Default for LazyEgressClient {
    /// Every public destination, with the certificate authorities of the system.
    fn default() -> Self {
        Self::new(EgressSettings::new(TrustedRoots::none()), DestinationRoots::System)
    }
}

impl LazyEgressClient {
    pub fn new(settings: EgressSettings, roots: DestinationRoots) -> Self {
        Self { settings, roots, client: OnceLock::new() }
    }

    /// Errors: the TLS library rejects its own defaults.
    pub fn get(&self) -> Result<&EgressClient, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut settings = self.settings.clone();
        if self.roots == DestinationRoots::System {
            settings.roots = TrustedRoots::load_from_system().unwrap_or_else(|error| {
                tracing::error!(cause = %error, "destinations without ca_pem cannot be verified");
                TrustedRoots::none()
            });
        }
        let client = EgressClient::new(settings).map_err(|it| Error::Internal(it.into()))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Whether the operator allows every public name.
    pub fn allows_any_name(&self) -> bool {
        self.settings.allow_list.allows_any_name()
    }

    /// The counts of the client; `None` before its first use.
    pub fn stats(&self) -> Option<EgressStats> {
        self.client.get().map(EgressClient::stats)
    }
}
