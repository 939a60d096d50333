//! Handlers of 3-D Secure sessions: a sentence each.

use std::sync::Arc;

use scrip_core::{
    error::Error,
    id::SessionId,
    operations::sessions::{
        authenticate_session::authenticate_session, create_session::create_session,
        get_challenge_result::get_challenge_result, get_session::get_session,
        update_session::update_session,
    },
};
use tracing::Instrument;

use crate::{
    route::{Asked, Handled, path_id},
    wire::{self, answer, threeds},
};

pub(crate) async fn create(mut asked: Asked) -> Handled {
    let new = threeds::parse_new(wire::json::read(&asked.body)?, seen(&asked))?;
    let remember = asked.remember(threeds::created);
    let created = create_session(&asked.app.vault, &asked.caller, new, remember).await?;
    Ok(answer::rendered(threeds::created(&created)))
}

pub(crate) async fn get(asked: Asked) -> Handled {
    let found =
        get_session(&asked.app.vault, &asked.caller, path_id(&asked.id, SessionId::parse)?).await?;
    Ok(answer::rendered(threeds::found(&found)))
}

pub(crate) async fn update(mut asked: Asked) -> Handled {
    let (id, device) = (
        path_id(&asked.id, SessionId::parse)?,
        threeds::parse_device(wire::json::read(&asked.body)?)?,
    );
    let remember = asked.remember(threeds::updated);
    let (vault, caller) = (&asked.app.vault, &asked.caller);
    let updated = update_session(vault, caller, id, device, remember).await?;
    Ok(answer::rendered(threeds::updated(&updated)))
}

/// What is sent cannot be taken back, and its outcome has to be written down: so this goes on in a
/// task of its own, whether its client stays or not; a server that stops waits for it.
pub(crate) async fn authenticate(mut asked: Asked) -> Handled {
    let id = path_id(&asked.id, SessionId::parse)?;
    let new = threeds::parse_authentication(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(threeds::authenticated);
    let app = Arc::clone(&asked.app);
    let counted = app.authenticating.begin();
    let asking = async move {
        let _counted = counted;
        authenticate_session(&asked.app.vault, &asked.caller, id, new, remember).await
    };
    let asked = tokio::spawn(asking.in_current_span()).await;
    let asked = asked.unwrap_or_else(|_| {
        app.metrics.panics.one();
        Err(Error::Internal("an authentication panicked".into()))
    });
    Ok(answer::rendered(threeds::authenticated(&asked?)))
}

pub(crate) async fn challenge_result(asked: Asked) -> Handled {
    let id = path_id(&asked.id, SessionId::parse)?;
    let result = get_challenge_result(&asked.app.vault, &asked.caller, id).await?;
    Ok(answer::rendered(threeds::authenticated(&result)))
}

fn seen(asked: &Asked) -> threeds::Seen {
    let accept = asked.accept.as_ref().and_then(|it| it.to_str().ok());
    let accept = accept.filter(|it| !it.is_empty()).map(str::to_owned);
    threeds::Seen { accept, address: asked.caller.origin().address }
}
