//! Add Proxy Host and Remove Proxy Host: the host that selects a proxy without its key. Commands of
//! the operator, who controls the DNS names and the certificates of the server.

use crate::{
    Error, Vault,
    operations::proxies::update_proxy::rewrite_proxy,
    policy::{PolicyPermit, destination::HostName, proxy::ProxyDetails},
    policy_change::RowChange,
    types::{Operation, id::ProxyId},
};

/// Sets the host of a proxy. It replaces an earlier host of the proxy.
/// Errors: there is no such proxy, or another proxy has the host.
pub async fn add_proxy_host(
    vault: &Vault,
    permit: PolicyPermit,
    id: ProxyId,
    host: HostName,
) -> Result<ProxyDetails, Error> {
    let change = RowChange { permit, operation: Operation::AddProxyHost, id };
    rewrite_proxy(vault, change, None, move |_, details| {
        details.record.host = Some(host.clone());
        Ok(())
    })
    .await
}

/// Errors: there is no such proxy, or it does not have the host.
pub async fn remove_proxy_host(
    vault: &Vault,
    permit: PolicyPermit,
    id: ProxyId,
    host: HostName,
) -> Result<ProxyDetails, Error> {
    let change = RowChange { permit, operation: Operation::RemoveProxyHost, id };
    rewrite_proxy(vault, change, None, move |_, details| match details.record.host.take() {
        Some(current) if current == host => Ok(()),
        Some(_) | None => Err(Error::NotFound),
    })
    .await
}
