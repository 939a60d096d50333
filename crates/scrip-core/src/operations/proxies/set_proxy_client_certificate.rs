//! Set Proxy Client Certificate, and its removal. A destination takes the certificate for the tenant,
//! so a change needs `application:update` too.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    operations::proxies::update_proxy::{check_application_update, rewrite_proxy},
    policy::{
        PolicyPermit,
        proxy::{ClientCertificate, ProxyDetails},
    },
    policy_change::RowChange,
    types::{Operation, id::ProxyId},
};

/// Errors: there is no such proxy, or the caller may not update applications.
pub async fn set_proxy_client_certificate(
    vault: &Vault,
    permit: PolicyPermit,
    id: ProxyId,
    certificate: ClientCertificate,
    recorder: Option<ResponseRecorder<ProxyDetails>>,
) -> Result<ProxyDetails, Error> {
    let operation = Operation::SetProxyClientCertificate;
    let change = RowChange { permit: permit.clone(), operation, id };
    rewrite_proxy(vault, change, recorder, move |records, details| {
        check_application_update(&permit, records)?;
        details.settings.certificate_pem = Some(certificate.certificate_pem.clone());
        details.secrets.private_key_pem = Some(certificate.private_key_pem.clone());
        Ok(())
    })
    .await
}

/// Errors: there is no such proxy, it has no certificate, or the caller may not update
/// applications.
pub async fn delete_proxy_client_certificate(
    vault: &Vault,
    permit: PolicyPermit,
    id: ProxyId,
) -> Result<(), Error> {
    let operation = Operation::DeleteProxyClientCertificate;
    let change = RowChange { permit: permit.clone(), operation, id };
    rewrite_proxy(vault, change, None, move |records, details| {
        check_application_update(&permit, records)?;
        details.secrets.private_key_pem = None;
        details.settings.certificate_pem.take().map(drop).ok_or(Error::NotFound)
    })
    .await
    .map(drop)
}
