//! The compiled settings of a proxy.

use std::time::Duration;

use scrip_seal::TenantKeys;

use crate::{
    Error,
    policy::{
        destination::DestinationUrl,
        entity::EntityRecord,
        proxy::{
            AuthorityCertificates, ProxyRecord, ProxySettings, ProxyTransform, TlsMinimum,
            TransformList,
            record::SETTINGS,
            transform::{CompiledTransforms, TransformStage},
        },
    },
};

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
