//! Handlers of client encryption keys.

use scrip_core::{
    Error,
    operations::client_keys::{
        create_client_key::create_client_key,
        delete_client_key::delete_client_key,
        list_client_keys::{get_client_key, list_client_keys},
    },
    types::id::ClientKeyId,
};

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{policy::client_key, response},
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let expires_at = match request.body.is_empty() {
        true => None,
        false => client_key::parse_new(request.json()?)?,
    };
    let recorder = request.response_recorder(client_key::render_created);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let created = create_client_key(vault, permit, expires_at, recorder).await?;
    request.respond_to_change(client_key::render_created(&created)).await
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let client_keys = list_client_keys(&request.app.vault, &request.policy_permit()?).await?;
    Ok(response::from_rendered(client_key::render_list(&client_keys)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, request.path_id(ClientKeyId::parse)?);
    let client_key = get_client_key(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(client_key::render_client_key(&client_key)))
}

/// For every application of the tenant: the hosted fields encrypt only for a key that the vault
/// confirms, because a page could name a key of its own. The read is not recorded: the key is public.
pub(crate) async fn get_public_key(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ClientKeyId::parse)?;
    let (vault, tenant) = (&request.app.vault, request.caller.tenant());
    let record = tenant.client_keys.get(&id).filter(|it| it.is_live(vault.clock.latest()));
    let record = record.ok_or(Error::NotFound)?;
    let public_key_pem = record.public_key_pem(&tenant.keys)?;
    Ok(response::from_rendered(client_key::render_public_key(record, &public_key_pem)))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ClientKeyId::parse)?;
    delete_client_key(&request.app.vault, request.policy_permit()?, id).await?;
    request.respond_to_change(response::no_content()).await
}
