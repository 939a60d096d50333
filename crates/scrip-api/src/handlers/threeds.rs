//! Handlers of 3DS sessions.

use std::sync::Arc;

use scrip_core::{
    Error,
    operations::threeds_sessions::{
        authenticate_threeds_session::authenticate_threeds_session,
        create_threeds_session::create_threeds_session, get_challenge_result::get_challenge_result,
        get_threeds_session::get_threeds_session, update_threeds_session::update_threeds_session,
    },
    types::id::ThreeDsSessionId,
};
use tracing::Instrument;

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{response, threeds},
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let new = threeds::parse_new(request.json()?, observe_client(&request))?;
    let recorder = request.response_recorder(threeds::render_created);
    let created =
        create_threeds_session(&request.app.vault, &request.caller, new, recorder).await?;
    Ok(response::from_rendered(threeds::render_created(&created)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let session = get_threeds_session(
        &request.app.vault,
        &request.caller,
        request.path_id(ThreeDsSessionId::parse)?,
    )
    .await?;
    Ok(response::from_rendered(threeds::render_session(&session)))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let (id, device) =
        (request.path_id(ThreeDsSessionId::parse)?, threeds::parse_device(request.json()?)?);
    let recorder = request.response_recorder(threeds::render_updated);
    let (vault, caller) = (&request.app.vault, &request.caller);
    let updated = update_threeds_session(vault, caller, id, device, recorder).await?;
    Ok(response::from_rendered(threeds::render_updated(&updated)))
}

/// Runs in a separate task, because a message to a directory server cannot be undone and its
/// outcome must be stored even if the client disconnects. A stopping server waits for the task.
pub(crate) async fn authenticate(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ThreeDsSessionId::parse)?;
    let new = threeds::parse_authentication(request.json()?)?;
    let recorder = request.response_recorder(threeds::render_authentication);
    let app = Arc::clone(&request.app);
    let guard = app.tasks.authentications.track();
    let authentication = async move {
        let _guard = guard;
        authenticate_threeds_session(&request.app.vault, &request.caller, id, new, recorder).await
    };
    let outcome = tokio::spawn(authentication.in_current_span()).await;
    let outcome = outcome.unwrap_or_else(|_| {
        app.metrics.panics.increment();
        Err(Error::Internal("an authentication panicked".into()))
    });
    Ok(response::from_rendered(threeds::render_authentication(&outcome?)))
}

pub(crate) async fn get_result(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ThreeDsSessionId::parse)?;
    let result = get_challenge_result(&request.app.vault, &request.caller, id).await?;
    Ok(response::from_rendered(threeds::render_authentication(&result)))
}

fn observe_client(request: &AuthenticatedRequest) -> threeds::ObservedClient {
    let accept = request.accept.as_ref().and_then(|it| it.to_str().ok());
    let accept = accept.filter(|it| !it.is_empty()).map(str::to_owned);
    threeds::ObservedClient { accept, address: request.caller.origin().address }
}
