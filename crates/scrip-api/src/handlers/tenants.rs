//! Handlers of the tenant.

pub(crate) mod client_keys;

use scrip_core::operations::tenants::{
    delete_tenant::delete_tenant,
    get_tenant::{get_tenant, get_tenant_quotas},
    get_tenant_usage::get_tenant_usage,
    update_tenant::update_tenant,
};

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{policy::tenant, response},
};

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let permit = request.policy_permit()?;
    Ok(response::from_rendered(tenant::render_tenant(
        get_tenant(&request.app.vault, &permit).await?,
    )))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let (name, edit) = tenant::parse_update(request.json()?)?;
    let recorder = request.response_recorder(tenant::render_record);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let updated = update_tenant(vault, permit, name, edit, recorder).await?;
    request.respond_to_change(tenant::render_record(&updated)).await
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    delete_tenant(&request.app.vault, request.policy_permit()?).await?;
    request.respond_to_change(response::no_content()).await
}

pub(crate) async fn get_quotas(request: AuthenticatedRequest) -> Handled {
    let permit = request.policy_permit()?;
    Ok(response::from_rendered(tenant::render_quotas(
        get_tenant_quotas(&request.app.vault, &permit).await?,
    )))
}

pub(crate) async fn get_usage(request: AuthenticatedRequest) -> Handled {
    let permit = request.policy_permit()?;
    Ok(response::from_rendered(tenant::render_usage(
        &get_tenant_usage(&request.app.vault, &permit).await?,
    )))
}
