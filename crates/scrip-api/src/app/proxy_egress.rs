//! The guarded client of proxied calls, and the TLS options of proxies.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

use scrip_core::{
    Error,
    policy::{
        DestinationChoice, Proxy,
        proxy::{self, ProxyProgram},
    },
    types::id::ProxyId,
};
use scrip_egress::{
    ClientCertificate, EgressClient, EgressSettings, EgressStats, TlsMaterial, TlsMinimum,
    TlsOptions,
};

use crate::app::egress_client::LazyEgressClient;

pub use crate::app::egress_client::DestinationRoots;

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
    client: LazyEgressClient,
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

    /// Errors: the TLS library rejects its own defaults.
    pub(crate) fn client(&self) -> Result<&EgressClient, Error> {
        self.client.get()
    }

    /// Whether a caller can have a destination of its own.
    pub(crate) fn destinations(&self) -> DestinationChoice {
        match self.client.allows_any_name() {
            true => DestinationChoice::Any,
            false => DestinationChoice::Listed,
        }
    }

    /// The counts of the client; `None` before the first call.
    pub fn stats(&self) -> Option<EgressStats> {
        self.client.stats()
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
        self.client()?.tls_options(&material).map_err(|_| Error::Unprocessable {
            reason: "the certificate or the certificate authorities of the proxy cannot be used",
        })
    }
}
