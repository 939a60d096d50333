//! Handlers of webhooks.

pub(crate) mod public_key;

use scrip_core::{
    operations::webhooks::{
        create_webhook::create_webhook,
        delete_webhook::delete_webhook,
        list_webhook_deliveries::list_webhook_deliveries,
        list_webhooks::{get_webhook, list_webhooks},
        replay_webhook_deliveries::replay_webhook_deliveries,
        rotate_webhook_secret::rotate_webhook_secret,
        test_webhook::test_webhook,
        update_webhook::update_webhook,
    },
    types::id::WebhookId,
};

use crate::{
    problem::Problem,
    route::{AuthenticatedRequest, Handled, parse_path_id},
    wire::{
        self,
        query::QueryParameters,
        response,
        tokens::list::parse_page,
        webhooks::{delivery_response, webhook_request, webhook_response},
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let loopback = request.app.settings.loopback_destinations;
    let draft = webhook_request::parse_draft(wire::json::read(&request.body)?, loopback)?;
    let recorder = request.response_recorder(webhook_response::render_created);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let created = create_webhook(vault, permit, draft, recorder).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(webhook_response::render_created(&created)))
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = parse_page(&QueryParameters::parse(request.query.as_deref()))?;
    let page = list_webhooks(&request.app.vault, &request.policy_permit()?, &query).await?;
    Ok(response::from_rendered(webhook_response::render_page(&page)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, webhook_id(&request)?);
    let webhook = get_webhook(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(webhook_response::render_webhook(&webhook)))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let (id, loopback) = (webhook_id(&request)?, request.app.settings.loopback_destinations);
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

pub(crate) async fn list_deliveries(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, webhook_id(&request)?);
    let query = QueryParameters::parse(request.query.as_deref());
    let query = parse_page(&query)?;
    let page = list_webhook_deliveries(&request.app.vault, &permit, id, &query).await?;
    Ok(response::from_rendered(delivery_response::render_page(&page)))
}

pub(crate) async fn test(mut request: AuthenticatedRequest) -> Handled {
    let id = webhook_id(&request)?;
    let recorder = request.response_recorder(delivery_response::render_test);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let delivery = test_webhook(vault, permit, id, recorder).await?;
    Ok(response::from_rendered(delivery_response::render_test(&delivery)))
}

pub(crate) async fn replay(mut request: AuthenticatedRequest) -> Handled {
    let id = webhook_id(&request)?;
    let from = webhook_request::parse_replay(wire::json::read(&request.body)?)?;
    let recorder = request.response_recorder(delivery_response::render_replay);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let count = replay_webhook_deliveries(vault, permit, id, from, recorder).await?;
    Ok(response::from_rendered(delivery_response::render_replay(&count)))
}

fn webhook_id(request: &AuthenticatedRequest) -> Result<WebhookId, Problem> {
    parse_path_id(&request.id, WebhookId::parse)
}
