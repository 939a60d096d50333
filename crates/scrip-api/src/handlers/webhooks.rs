//! Handlers of webhooks.

use scrip_core::{
    id::WebhookId,
    operations::webhooks::{
        create_webhook::create_webhook,
        delete_webhook::delete_webhook,
        list_webhooks::{get_webhook, list_webhooks},
        rotate_webhook_secret::rotate_webhook_secret,
        update_webhook::update_webhook,
    },
};

use crate::{
    problem::Problem,
    route::{AuthenticatedRequest, Handled, parse_path_id},
    wire::{
        self,
        query::QueryParameters,
        response,
        webhooks::{webhook_request, webhook_response},
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let loopback = request.app.loopback_destinations;
    let draft = webhook_request::parse_draft(wire::json::read(&request.body)?, loopback)?;
    let recorder = request.response_recorder(webhook_response::render_created);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let created = create_webhook(vault, permit, draft, recorder).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(webhook_response::render_created(&created)))
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = webhook_request::parse_query(&QueryParameters::parse(request.query.as_deref()))?;
    let page = list_webhooks(&request.app.vault, &request.policy_permit()?, &query).await?;
    Ok(response::from_rendered(webhook_response::render_page(&page)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, webhook_id(&request)?);
    let webhook = get_webhook(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(webhook_response::render_webhook(&webhook)))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let (id, loopback) = (webhook_id(&request)?, request.app.loopback_destinations);
    let draft = webhook_request::parse_draft(wire::json::read(&request.body)?, loopback)?;
    let recorder = request.response_recorder(webhook_response::render_webhook);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let updated = update_webhook(vault, permit, id, draft, recorder).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(webhook_response::render_webhook(&updated)))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let id = webhook_id(&request)?;
    delete_webhook(&request.app.vault, request.policy_permit()?, id).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(response::no_content()))
}

pub(crate) async fn rotate_secret(mut request: AuthenticatedRequest) -> Handled {
    let id = webhook_id(&request)?;
    let recorder = request.response_recorder(webhook_response::render_rotated);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let rotated = rotate_webhook_secret(vault, permit, id, recorder).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(webhook_response::render_rotated(&rotated)))
}

pub(crate) async fn event_types(_: AuthenticatedRequest) -> Handled {
    Ok(response::from_rendered(webhook_response::render_event_types()))
}

fn webhook_id(request: &AuthenticatedRequest) -> Result<WebhookId, Problem> {
    parse_path_id(&request.id, WebhookId::parse)
}
