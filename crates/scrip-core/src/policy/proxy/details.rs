//! A proxy with its opened settings and secrets, for responses and changes.

use scrip_seal::TenantKeys;

use crate::{
    Error,
    policy::{
        SignedRow,
        proxy::{CompiledDraft, ProxyDraft, ProxyRecord, ProxySecrets, ProxySettings},
    },
};

/// All parts of a proxy. `Debug` prints neither its key nor its configuration.
#[derive(Debug, Clone)]
pub struct ProxyDetails {
    pub record: ProxyRecord,
    pub settings: ProxySettings,
    pub secrets: ProxySecrets,
}

impl ProxyDetails {
    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: ProxyRecord) -> Result<Self, Error> {
        let settings = ProxySettings::open(keys, &record)?;
        let secrets = ProxySecrets::open(keys, &record)?;
        Ok(Self { record, settings, secrets })
    }

    /// Seals settings and secrets again, and signs the row.
    pub(crate) fn seal(&mut self, keys: &TenantKeys) -> Result<SignedRow<ProxyRecord>, Error> {
        let settings = self.settings.seal(keys, &self.record)?;
        let secrets = self.secrets.seal(keys, &self.record)?;
        (self.record.settings, self.record.secrets) = (settings, secrets);
        Ok(SignedRow::new(keys, self.record.clone()))
    }

    /// The attributes that a client chooses.
    pub fn draft(&self) -> ProxyDraft {
        let (record, settings) = (&self.record, &self.settings);
        ProxyDraft {
            name: record.name.clone(),
            destination: settings.destination.clone(),
            request_transforms: settings.request_transforms.clone(),
            response_transforms: settings.response_transforms.clone(),
            application: record.application,
            configuration: self.secrets.configuration.clone(),
            require_auth: record.require_auth,
            disable_detokenization: record.disable_detokenization,
            timeout: settings.timeout,
            authorities: settings.authorities.clone(),
            tls_min: settings.tls_min,
        }
    }

    /// Replaces the attributes that a client chooses. Key, host and client certificate stay.
    pub(crate) fn apply(&mut self, draft: CompiledDraft) {
        let pattern_bytes = draft.pattern_bytes().or(self.settings.pattern_bytes);
        let draft = draft.into_draft();
        self.record.name = draft.name;
        self.record.application = draft.application;
        self.record.require_auth = draft.require_auth;
        self.record.disable_detokenization = draft.disable_detokenization;
        self.secrets.configuration = draft.configuration;
        self.settings = ProxySettings {
            destination: draft.destination,
            request_transforms: draft.request_transforms,
            response_transforms: draft.response_transforms,
            timeout: draft.timeout,
            authorities: draft.authorities,
            tls_min: draft.tls_min,
            certificate_pem: self.settings.certificate_pem.take(),
            pattern_bytes,
        };
    }
}
