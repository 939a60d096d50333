//! Delete Proxy. Its key and its host are unknown from then on.

use crate::{
    Error, Vault,
    policy::PolicyPermit,
    policy_change::remove_row,
    types::{Operation, id::ProxyId},
};

/// Errors: there is no such proxy.
pub async fn delete_proxy(vault: &Vault, permit: PolicyPermit, id: ProxyId) -> Result<(), Error> {
    remove_row(vault, permit, Operation::DeleteProxy, id, move |records| {
        records.proxies.iter().any(|it| it.record.id == id)
    })
    .await
}
