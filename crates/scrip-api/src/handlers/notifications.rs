//! Handlers of what is told without a key: a sentence each.

mod page;

use scrip_core::{
    id::SessionId,
    operations::sessions::{
        notify_challenge::notify_challenge,
        notify_method::notify_method,
        receive_result::{Door, Posted, receive_result},
    },
};

use crate::{
    problem::Problem,
    route::{Handled, Heard, path_id},
    wire::{
        answer,
        query::{Query, invalid},
    },
};

pub(crate) use page::refused;

pub(crate) async fn method(heard: Heard) -> Handled {
    let (id, form) = (path_id(&heard.id, SessionId::parse)?, form(&heard.body)?);
    let data = field(&form, "threeDSMethodData")?;
    let Heard { app, directory, origin, .. } = &heard;
    notify_method(&app.vault, directory, origin, id, data).await?;
    let in_popup = Query::parse(heard.query.as_deref()).all("mode").any(|it| it == "redirect");
    let page = if in_popup { page::Page::MethodPopup } else { page::Page::Method(id) };
    Ok(page.response(app.vault.chance))
}

pub(crate) async fn challenge(heard: Heard) -> Handled {
    let (id, form) = (path_id(&heard.id, SessionId::parse)?, form(&heard.body)?);
    let Heard { app, directory, origin, .. } = &heard;
    // An error message proves nothing, so it changes nothing; the waiting page ends at once.
    if form.one("cres")?.is_none() && form.one("erro")?.is_some() {
        let page = page::Page::Challenge { id, is_completed: false, is_successful: false };
        return Ok(page.response(app.vault.chance));
    }
    let told = field(&form, "cres")?;
    let told = notify_challenge(&app.vault, directory, origin, id, told).await?;
    let page = page::Page::Challenge {
        id,
        is_completed: told.is_completed,
        is_successful: told.is_successful,
    };
    Ok(page.response(app.vault.chance))
}

pub(crate) async fn result(heard: Heard) -> Handled {
    let Heard { app, directory, origin, .. } = &heard;
    // A path that names no session is as one that names none of ours.
    let id = SessionId::parse(&heard.id).unwrap_or(SessionId(uuid::Uuid::nil()));
    let posted = Posted { id, secret: &heard.secret, message: &heard.body, door: Door::Open };
    let message = receive_result(&app.vault, directory, origin, posted).await?;
    Ok(answer::json(200, message.to_vec()))
}

fn form(body: &[u8]) -> Result<Query<'_>, Problem> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::Malformed("the form is not text".to_owned()))?;
    Ok(Query::parse(Some(text)))
}

fn field<'a>(form: &'a Query<'_>, name: &'static str) -> Result<&'a str, Problem> {
    Ok(form.one(name)?.ok_or_else(|| invalid(name, "is required"))?)
}
