//! A proxy of the directory, ready for requests.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use scrip_seal::TenantKeys;

use crate::{
    Error,
    policy::{
        Tenant,
        destination::DestinationUrl,
        entity::EntityRecord,
        proxy::{
            AuthorityCertificates, ProxyRecord, ProxySecrets, ProxySettings, ProxyTransform,
            TlsMinimum, TransformList,
            record::SETTINGS,
            transform::{CompiledTransforms, TransformStage},
        },
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

/// The settings of a proxy, opened and compiled once. It contains no key and no configuration.
#[derive(Debug)]
pub struct ProxyProgram {
    pub destination: DestinationUrl,
    pub request_transforms: Vec<ProxyTransform>,
    pub response_transforms: Vec<ProxyTransform>,
    pub timeout: Option<Duration>,
    pub authorities: Option<AuthorityCertificates>,
    pub tls_min: TlsMinimum,
    /// The chain of the client certificate, in PEM. Its key is in the secrets.
    pub certificate_pem: Option<String>,
    /// The sources of the transforms: a later version of the proxy compiles only other ones.
    request_list: TransformList,
    response_list: TransformList,
}

impl ProxyProgram {
    /// `previous` is the program of an earlier version of the row.
    pub(in crate::policy) fn compile(
        keys: &TenantKeys,
        record: &ProxyRecord,
        previous: Option<&Self>,
    ) -> Result<Self, Error> {
        let settings = ProxySettings::open(keys, record)?;
        let reuse = |list, transforms| CompiledTransforms { list, transforms };
        let previous_request = previous.map(|it| reuse(&it.request_list, &it.request_transforms));
        let previous_response =
            previous.map(|it| reuse(&it.response_list, &it.response_transforms));
        let request_transforms =
            settings.request_transforms.compile(TransformStage::Request, previous_request);
        let response_transforms =
            settings.response_transforms.compile(TransformStage::Response, previous_response);
        let invalid = || ProxyRecord::invalid_document(SETTINGS);
        Ok(Self {
            destination: settings.destination,
            request_transforms: request_transforms.ok_or_else(invalid)?,
            response_transforms: response_transforms.ok_or_else(invalid)?,
            timeout: settings.timeout.map(|it| Duration::from_secs(it.seconds())),
            authorities: settings.authorities,
            tls_min: settings.tls_min,
            certificate_pem: settings.certificate_pem,
            request_list: settings.request_transforms,
            response_list: settings.response_transforms,
        })
    }
}
