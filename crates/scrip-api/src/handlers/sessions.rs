//! Handlers of access sessions: a sentence each.

use scrip_core::operations::access_sessions::{
    authorize_access_session::authorize_access_session,
    create_access_session::create_access_session,
};

use crate::{
    route::{Asked, Handled},
    wire::{self, answer, policy::session},
};

/// Not remembered: every browser has the public key, and would be given another one's session by a
/// guessed idempotency key. To begin a second session harms nobody.
pub(crate) async fn create(asked: Asked) -> Handled {
    let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
    let created = create_access_session(vault, asked.mandate()?, &pepper).await?;
    Ok(answer::rendered(session::created(&created)))
}

pub(crate) async fn authorize(mut asked: Asked) -> Handled {
    let authorization = session::parse_authorization(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(session::authorized);
    let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
    let mandate = asked.mandate()?;
    authorize_access_session(vault, mandate, &pepper, authorization, remember).await?;
    Ok(answer::rendered(answer::done()))
}
