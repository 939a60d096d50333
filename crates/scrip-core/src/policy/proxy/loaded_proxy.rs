//! A proxy of the directory, ready for requests.

use std::sync::{Arc, OnceLock};

use crate::{
    error::Error,
    policy::Tenant,
    proxy::{ProxyProgram, ProxyRecord, ProxySecrets},
};

/// A proxy with its tenant. Clones and later loads of an unchanged row share the compiled settings.
#[derive(Debug, Clone)]
pub struct Proxy {
    tenant: Arc<Tenant>,
    record: Arc<ProxyRecord>,
    program: Arc<OnceLock<Arc<ProxyProgram>>>,
}

/// The result of a lookup by the key or the host of a proxy.
#[derive(Debug, Clone)]
pub enum ProxyLookup {
    Found(Arc<Proxy>),
    /// The policy of the proxy's tenant was altered outside of the vault. Until an operator repairs
    /// it, no proxy of this tenant is used.
    PolicyAltered,
}

impl Proxy {
    /// `previous` is the same proxy before a reload of the directory.
    #[must_use]
    pub fn new(tenant: Arc<Tenant>, record: Arc<ProxyRecord>, previous: Option<&Self>) -> Self {
        let previous = previous.filter(|it| it.record == record);
        let program = previous.map(|it| Arc::clone(&it.program)).unwrap_or_default();
        Self { tenant, record, program }
    }

    #[must_use]
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    #[must_use]
    pub fn record(&self) -> &ProxyRecord {
        &self.record
    }

    /// The compiled settings. The first use opens and compiles them.
    ///
    /// # Errors
    /// The settings cannot be opened.
    pub fn program(&self) -> Result<&Arc<ProxyProgram>, Error> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let program = Arc::new(ProxyProgram::compile(&self.tenant.keys, &self.record)?);
        Ok(self.program.get_or_init(|| program))
    }

    /// Opens the secrets for one use.
    ///
    /// # Errors
    /// The secrets cannot be opened.
    pub fn open_secrets(&self) -> Result<ProxySecrets, Error> {
        ProxySecrets::open(&self.tenant.keys, &self.record)
    }
}
