//! The guarded client of proxied calls, and the TLS options of proxies.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock, Weak},
    time::Duration,
};

use scrip_core::{
    Error,
    policy::{DestinationChoice, Proxy, ProxyProgram, proxy},
    types::id::ProxyId,
};
use scrip_egress::{
    ClientCertificate, EgressClient, EgressSettings, EgressStats, TlsMaterial, TlsMinimum,
    TlsOptions, TrustedRoots,
};

/// Limits of a proxied call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// The maximum size of the request and of an answer that is not streamed.
    pub body_bytes_max: usize,
    /// Until the answer is complete, unless the proxy has its own time limit.
    pub timeout: Duration,
    pub timeout_max: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            timeout: Duration::from_secs(25),
            timeout_max: Duration::from_secs(60),
        }
    }
}

/// The client of proxied calls. It is created at the first call.
#[derive(Debug)]
pub struct ProxyEgress {
    pub limits: CallLimits,
    pub client: LazyEgressClient,
    tls_options: RwLock<HashMap<ProxyId, ProxyTls>>,
}

/// The TLS options of one state of a proxy.
#[derive(Debug)]
struct ProxyTls {
    program: Weak<ProxyProgram>,
    options: Arc<TlsOptions>,
}

impl Default for ProxyEgress {
    fn default() -> Self {
        Self::with_client(LazyEgressClient::default(), CallLimits::default())
    }
}

impl ProxyEgress {
    pub fn new(settings: EgressSettings, roots: DestinationRoots, limits: CallLimits) -> Self {
        Self::with_client(LazyEgressClient::new(settings, roots), limits)
    }

    fn with_client(client: LazyEgressClient, limits: CallLimits) -> Self {
        Self { limits, client, tls_options: RwLock::default() }
    }

    /// Whether a caller can have a destination of its own.
    pub(crate) fn destinations(&self) -> DestinationChoice {
        match self.client.allows_any_name() {
            true => DestinationChoice::Any,
            false => DestinationChoice::Listed,
        }
    }

    /// The time limit of a call.
    pub(crate) fn timeout(&self, proxy_timeout: Option<Duration>) -> Duration {
        proxy_timeout.unwrap_or(self.limits.timeout).min(self.limits.timeout_max)
    }

    /// The TLS options of a proxy; `None` if it uses the defaults. They are built once for each
    /// change of the proxy, because connections are shared only with the same options.
    ///
    /// Errors: the secrets of the proxy cannot be opened, or its certificate cannot be used.
    pub(crate) fn tls_options(
        &self,
        proxy: &Proxy,
        program: &Arc<ProxyProgram>,
    ) -> Result<Option<Arc<TlsOptions>>, Error> {
        let is_default = program.authorities.is_none()
            && program.certificate_pem.is_none()
            && program.tls_min == proxy::TlsMinimum::default();
        if is_default {
            return Ok(None);
        }
        let id = proxy.record().id;
        let is_current = |it: &&ProxyTls| std::ptr::eq(it.program.as_ptr(), Arc::as_ptr(program));
        let cached = self.tls_options.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = cached.get(&id).filter(is_current) {
            return Ok(Some(Arc::clone(&found.options)));
        }
        drop(cached);
        let options = self.build_tls_options(proxy, program)?;
        let mut cached = self.tls_options.write().unwrap_or_else(PoisonError::into_inner);
        // Another call may have built the options first.
        if let Some(found) = cached.get(&id).filter(is_current) {
            return Ok(Some(Arc::clone(&found.options)));
        }
        cached.retain(|_, it| it.program.strong_count() > 0);
        let program = Arc::downgrade(program);
        cached.insert(id, ProxyTls { program, options: Arc::clone(&options) });
        Ok(Some(options))
    }

    fn build_tls_options(
        &self,
        proxy: &Proxy,
        program: &ProxyProgram,
    ) -> Result<Arc<TlsOptions>, Error> {
        let secrets = proxy.open_secrets()?;
        let chain_and_key = program.certificate_pem.as_ref().zip(secrets.private_key_pem.as_ref());
        let material = TlsMaterial {
            ca_pem: program.authorities.as_ref().map(|it| it.as_pem()),
            client_certificate: chain_and_key
                .map(|(chain_pem, key_pem)| ClientCertificate { chain_pem, key_pem }),
            minimum: match program.tls_min {
                proxy::TlsMinimum::Tls12 => TlsMinimum::Tls12,
                proxy::TlsMinimum::Tls13 => TlsMinimum::Tls13,
            },
        };
        self.client.get()?.tls_options(&material).map_err(|_| Error::Unprocessable {
            reason: "the certificate or the certificate authorities of the proxy cannot be used",
        })
    }
}

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
