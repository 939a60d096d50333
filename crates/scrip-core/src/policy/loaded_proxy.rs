//! A proxy of the directory, ready for requests.

use std::sync::{Arc, OnceLock};

use crate::{
    Error,
    policy::{
        Tenant,
        proxy::{ProxyProgram, ProxyRecord, ProxySecrets},
    },
};

/// A proxy with its tenant. Clones and later loads of an unchanged row share the compiled settings.
#[derive(Debug, Clone)]
pub struct Proxy {
    tenant: Arc<Tenant>,
    record: Arc<ProxyRecord>,
    program: Arc<OnceLock<Arc<ProxyProgram>>>,
    /// The program of the row before its last change, for transforms that did not change.
    previous: Option<Arc<ProxyProgram>>,
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
    pub fn new(tenant: Arc<Tenant>, record: Arc<ProxyRecord>, previous: Option<&Self>) -> Self {
        let unchanged = previous.filter(|it| it.record == record);
        let program = unchanged.map(|it| Arc::clone(&it.program)).unwrap_or_default();
        let previous = previous.filter(|_| program.get().is_none());
        let previous = previous.and_then(|it| it.program.get().or(it.previous.as_ref()).cloned());
        Self { tenant, record, program, previous }
    }

    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    pub fn record(&self) -> &ProxyRecord {
        &self.record
    }

    /// The compiled settings. If they are not compiled yet, `run` runs the compilation where it
    /// delays nobody; it returns `false` if it cannot.
    ///
    /// Errors: the settings cannot be opened, or `run` did not run the compilation.
    pub fn program(
        &self,
        run: impl FnOnce(&mut dyn FnMut()) -> bool,
    ) -> Result<&Arc<ProxyProgram>, Error> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let (keys, previous) = (&self.tenant.keys, self.previous.as_deref());
        let mut compiled = None;
        let mut compile = || compiled = Some(ProxyProgram::compile(keys, &self.record, previous));
        if !run(&mut compile) {
            return Err(Error::Unavailable("too many compilations at the same time".into()));
        }
        let failed = || Error::Internal("a proxy was not compiled".into());
        let program = Arc::new(compiled.ok_or_else(failed)??);
        Ok(self.program.get_or_init(|| program))
    }

    /// Opens the secrets for one use.
    /// Errors: the secrets cannot be opened.
    pub fn open_secrets(&self) -> Result<ProxySecrets, Error> {
        ProxySecrets::open(&self.tenant.keys, &self.record)
    }
}
