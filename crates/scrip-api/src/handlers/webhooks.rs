//! Handlers of webhooks.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use scrip_core::{
    Error,
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
    app::App,
    problem::{Problem, not_ready::name_storage_cause},
    route::{AuthenticatedRequest, Handled, PublicCacheControl},
    trace_id::TraceId,
    wire::{response, tokens::list::parse_page, webhooks},
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let loopback = request.app.settings.loopback_destinations;
    let draft = webhooks::parse_draft(request.json()?, loopback)?;
    let recorder = request.response_recorder(webhooks::render_created);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let created = create_webhook(vault, permit, draft, recorder).await?;
    request.respond_to_change(webhooks::render_created(&created)).await
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = parse_page(&request.query())?;
    let page = list_webhooks(&request.app.vault, &request.policy_permit()?, &query).await?;
    Ok(response::from_rendered(webhooks::render_page(&page)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, request.path_id(WebhookId::parse)?);
    let webhook = get_webhook(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(webhooks::render_webhook(&webhook)))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let (id, loopback) =
        (request.path_id(WebhookId::parse)?, request.app.settings.loopback_destinations);
    let draft = webhooks::parse_draft(request.json()?, loopback)?;
    let recorder = request.response_recorder(webhooks::render_webhook);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let updated = update_webhook(vault, permit, id, draft, recorder).await?;
    request.respond_to_change(webhooks::render_webhook(&updated)).await
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(WebhookId::parse)?;
    delete_webhook(&request.app.vault, request.policy_permit()?, id).await?;
    request.respond_to_change(response::no_content()).await
}

pub(crate) async fn rotate_secret(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(WebhookId::parse)?;
    let recorder = request.response_recorder(webhooks::render_rotated);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let rotated = rotate_webhook_secret(vault, permit, id, recorder).await?;
    request.respond_to_change(webhooks::render_rotated(&rotated)).await
}

pub(crate) async fn event_types(_: AuthenticatedRequest) -> Handled {
    Ok(response::from_rendered(webhooks::render_event_types()))
}

pub(crate) async fn list_deliveries(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, request.path_id(WebhookId::parse)?);
    let query = request.query();
    let query = parse_page(&query)?;
    let page = list_webhook_deliveries(&request.app.vault, &permit, id, &query).await?;
    Ok(response::from_rendered(webhooks::render_delivery_page(&page)))
}

pub(crate) async fn test(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(WebhookId::parse)?;
    let recorder = request.response_recorder(webhooks::render_test);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let delivery = test_webhook(vault, permit, id, recorder).await?;
    Ok(response::from_rendered(webhooks::render_test(&delivery)))
}

pub(crate) async fn replay(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(WebhookId::parse)?;
    let from = webhooks::parse_replay(request.json()?)?;
    let recorder = request.response_recorder(webhooks::render_replay);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let count = replay_webhook_deliveries(vault, permit, id, from, recorder).await?;
    Ok(response::from_rendered(webhooks::render_replay(&count)))
}

/// The key pair stays the same while the vault exists. An hour is short enough for a vault that was
/// set up again.
const CACHE_TIME: PublicCacheControl = PublicCacheControl("public, max-age=3600");

/// Responds with the public key as PEM. The first request of a vault makes the key pair.
pub(crate) async fn webhook_key(app: &Arc<App>, trace: &TraceId) -> Response {
    // A storage that cannot keep a new key pair must not cost one for each request.
    if let Some(reason) = app.storage_reason() {
        return Problem::NotReady(reason).response(trace);
    }
    // In a separate task: a client that disconnects must not cancel the work, because each such
    // client would then start another one.
    let task_app = Arc::clone(app);
    let key = tokio::spawn(async move { task_app.webhook_signing_key().await }).await;
    let panicked = |_| Err(Error::Internal("loading the key for webhooks panicked".into()));
    match key.unwrap_or_else(panicked) {
        Ok(key) => pem_response(key.public_key_pem().to_owned()),
        Err(error) => name_storage_cause(app, Problem::Failed(error)).response(trace),
    }
}

fn pem_response(pem: String) -> Response {
    let mut response = Response::new(Body::from(pem));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-pem-file"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.extensions_mut().insert(CACHE_TIME);
    response
}
