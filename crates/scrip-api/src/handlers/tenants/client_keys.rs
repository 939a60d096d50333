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
    problem::Problem,
    route::{AuthenticatedRequest, Handled, parse_path_id},
    wire::{self, policy::client_key, response},
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let expires_at = match request.body.is_empty() {
        true => None,
        false => client_key::parse_new(wire::json::read(&request.body)?)?,
    };
    let recorder = request.response_recorder(client_key::render_created);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let created = create_client_key(vault, permit, expires_at, recorder).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(client_key::render_created(&created)))
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let client_keys = list_client_keys(&request.app.vault, &request.policy_permit()?).await?;
    Ok(response::from_rendered(client_key::render_list(&client_keys)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, client_key_id(&request)?);
    let client_key = get_client_key(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(client_key::render_client_key(&client_key)))
}

/// For every application of the tenant: the hosted fields encrypt only for a key that the vault
/// confirms, because a page could name a key of its own. The read is not recorded: the key is public.
pub(crate) async fn get_public_key(request: AuthenticatedRequest) -> Handled {
    let id = client_key_id(&request)?;
    let (vault, tenant) = (&request.app.vault, request.caller.tenant());
    let record = tenant.client_keys.get(&id).filter(|it| it.is_live(vault.clock.latest()));
    let record = record.ok_or(Error::NotFound)?;
    let public_key_pem = record.public_key_pem(&tenant.keys)?;
    Ok(response::from_rendered(client_key::render_public_key(record, &public_key_pem)))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let id = client_key_id(&request)?;
    delete_client_key(&request.app.vault, request.policy_permit()?, id).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(response::no_content()))
}

fn client_key_id(request: &AuthenticatedRequest) -> Result<ClientKeyId, Problem> {
    parse_path_id(&request.id, ClientKeyId::parse)
}
