//! Handlers of access sessions: a sentence each.

use scrip_core::operations::{
    authorize_access_session::authorize_access_session,
    create_access_session::create_access_session,
};

use crate::{
    http::{Handling, pipeline::Asked},
    wire::{self, answer, session},
};

pub(crate) fn create(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let remember = asked.remember(session::created);
        let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
        let created = create_access_session(vault, &asked.caller, &pepper, remember).await?;
        Ok(answer::rendered(session::created(&created)))
    })
}

pub(crate) fn authorize(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let authorization = session::parse_authorization(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(session::authorized);
        let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
        let caller = &asked.caller;
        authorize_access_session(vault, caller, &pepper, authorization, remember).await?;
        Ok(answer::rendered(answer::done()))
    })
}
