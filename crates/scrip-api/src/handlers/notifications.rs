//! Handlers of the callbacks. The senders have no API key.

mod page;

use scrip_core::{
    operations::threeds_sessions::{
        notify_challenge::notify_challenge,
        notify_method::notify_method,
        receive_result::{PostedResult, ResultChannel, receive_result},
    },
    types::id::ThreeDsSessionId,
};

use crate::{
    problem::Problem,
    route::{CallbackRequest, Handled, parse_path_id},
    wire::{
        query::{QueryParameters, invalid_parameter},
        response,
    },
};

pub(crate) use page::render_rejection;

pub(crate) async fn receive_method_notification(request: CallbackRequest) -> Handled {
    let (id, form) =
        (parse_path_id(&request.id, ThreeDsSessionId::parse)?, parse_form(&request.body)?);
    let data = required_field(&form, "threeDSMethodData")?;
    let CallbackRequest { app, directory, origin, .. } = &request;
    notify_method(&app.vault, directory, origin, id, data).await?;
    let is_popup =
        QueryParameters::parse(request.query.as_deref()).all("mode").any(|it| it == "redirect");
    let page = if is_popup {
        page::NotificationPage::MethodPopup
    } else {
        page::NotificationPage::Method(id)
    };
    Ok(page.response(app.vault.fill_random))
}

pub(crate) async fn receive_challenge_notification(request: CallbackRequest) -> Handled {
    let (id, form) =
        (parse_path_id(&request.id, ThreeDsSessionId::parse)?, parse_form(&request.body)?);
    let CallbackRequest { app, directory, origin, .. } = &request;
    // An error message is not authenticated, so it changes nothing; the waiting page ends at once.
    if form.one("cres")?.is_none() && form.one("erro")?.is_some() {
        let page =
            page::NotificationPage::Challenge { id, is_completed: false, is_successful: false };
        return Ok(page.response(app.vault.fill_random));
    }
    let cres = required_field(&form, "cres")?;
    let notification = notify_challenge(&app.vault, directory, origin, id, cres).await?;
    let page = page::NotificationPage::Challenge {
        id,
        is_completed: notification.is_completed,
        is_successful: notification.is_successful,
    };
    Ok(page.response(app.vault.fill_random))
}

pub(crate) async fn receive_result_message(request: CallbackRequest) -> Handled {
    let CallbackRequest { app, directory, origin, .. } = &request;
    // An invalid id is handled like an unknown session.
    let id = ThreeDsSessionId::parse(&request.id).unwrap_or(ThreeDsSessionId(uuid::Uuid::nil()));
    let result = PostedResult {
        id,
        secret: &request.secret,
        message: &request.body,
        channel: ResultChannel::Unauthenticated,
    };
    let reply = receive_result(&app.vault, directory, origin, result).await?;
    Ok(response::json(200, reply.to_vec()))
}

fn parse_form(body: &[u8]) -> Result<QueryParameters<'_>, Problem> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::Malformed("the form is not UTF-8 text".to_owned()))?;
    Ok(QueryParameters::parse(Some(text)))
}

fn required_field<'a>(
    form: &'a QueryParameters<'_>,
    name: &'static str,
) -> Result<&'a str, Problem> {
    Ok(form.one(name)?.ok_or_else(|| invalid_parameter(name, "is required"))?)
}
