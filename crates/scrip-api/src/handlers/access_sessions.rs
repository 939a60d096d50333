//! Handlers of access sessions.

use scrip_core::operations::access_sessions::{
    authorize_access_session::authorize_access_session,
    create_access_session::create_access_session,
};

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{policy::access_session, response},
};

/// The response is not stored: all browsers share the public key, so a guessed idempotency key
/// would return the session of another browser. A second session does no harm.
pub(crate) async fn create(request: AuthenticatedRequest) -> Handled {
    let (vault, pepper) = (&request.app.vault, request.app.pepper()?);
    let created = create_access_session(vault, request.policy_permit()?, &pepper).await?;
    Ok(response::from_rendered(access_session::render_created(&created)))
}

pub(crate) async fn authorize(mut request: AuthenticatedRequest) -> Handled {
    let authorization = access_session::parse_authorization(request.json()?)?;
    let recorder = request.response_recorder(access_session::render_authorized);
    let (vault, pepper) = (&request.app.vault, request.app.pepper()?);
    let permit = request.policy_permit()?;
    authorize_access_session(vault, permit, &pepper, authorization, recorder).await?;
    Ok(response::from_rendered(response::no_content()))
}
