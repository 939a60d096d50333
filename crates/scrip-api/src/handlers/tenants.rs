//! Handlers of the tenant: a sentence each.

use scrip_core::operations::tenants::{
    delete_tenant::delete_tenant,
    get_tenant::{get_tenant, get_tenant_quotas},
    get_tenant_usage::get_tenant_usage,
    update_tenant::update_tenant,
};

use crate::{
    route::{Asked, Handled},
    wire::{
        self, answer,
        policy::{tenant, usage},
    },
};

pub(crate) async fn get(asked: Asked) -> Handled {
    let mandate = asked.mandate()?;
    Ok(answer::rendered(tenant::found(get_tenant(&asked.app.vault, &mandate).await?)))
}

pub(crate) async fn update(mut asked: Asked) -> Handled {
    let (name, edit) = tenant::parse_update(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(tenant::updated);
    let (vault, mandate) = (&asked.app.vault, asked.mandate()?);
    let updated = update_tenant(vault, mandate, name, edit, remember).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(tenant::updated(&updated)))
}

pub(crate) async fn delete(asked: Asked) -> Handled {
    delete_tenant(&asked.app.vault, asked.mandate()?).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(answer::done()))
}

pub(crate) async fn quotas(asked: Asked) -> Handled {
    let mandate = asked.mandate()?;
    Ok(answer::rendered(tenant::quotas(get_tenant_quotas(&asked.app.vault, &mandate).await?)))
}

pub(crate) async fn usage(asked: Asked) -> Handled {
    let mandate = asked.mandate()?;
    Ok(answer::rendered(usage::found(&get_tenant_usage(&asked.app.vault, &mandate).await?)))
}
