//! The callback table: notifications of browsers and directory servers about 3DS sessions. The
//! senders have no API key, so each operation decides how far it trusts a message. All rows are
//! POST.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::{Method, Request};
use scrip_core::{
    operations::threeds_sessions::receive_result::{PostedResult, ResultChannel, receive_result},
    policy::{RequestOrigin, rate_limit::ClientNetwork},
    types::{Operation, id::ThreeDsSessionId},
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX};
use zeroize::Zeroizing;

use crate::{
    app::App,
    handlers::notifications,
    middleware::{admission, body::read_body},
    pipeline::serve_request,
    problem::{
        Problem,
        not_ready::{name_storage_cause, not_ready},
    },
    route::{CallbackFormat, CallbackRoute},
    trace_id::TraceId,
    wire::response,
};

#[rustfmt::skip]
pub(crate) const CALLBACKS: &[CallbackRoute] = &[
    CallbackRoute { operation: Operation::NotifyMethod, path: "/3ds/sessions/{id}/method-notification", format: CallbackFormat::FORM, render_rejection: notifications::render_rejection, handler: |it| Box::pin(notifications::receive_method_notification(it)) },
    CallbackRoute { operation: Operation::NotifyChallenge, path: "/3ds/sessions/{id}/challenge-notification", format: CallbackFormat::FORM, render_rejection: notifications::render_rejection, handler: |it| Box::pin(notifications::receive_challenge_notification(it)) },
    CallbackRoute { operation: Operation::ReceiveResult, path: "/3ds/sessions/{id}/results/{secret}", format: CallbackFormat::MESSAGE, render_rejection: |response, _| response, handler: |it| Box::pin(notifications::receive_result_message(it)) },
];

/// Responds to one request. `schemes` are the card schemes that trust the client certificate.
pub async fn receive_verified_result<B>(
    app: &App,
    schemes: &[Scheme],
    address: IpAddr,
    request: Request<B>,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let started = (app.ticks)();
    let response = serve_request(request, async |request: Request<Body>, trace: &TraceId| {
        let origin = RequestOrigin { trace: Arc::clone(&trace.0), address };
        match process_request(app, schemes, &origin, request).await {
            Ok(reply) => response::json(200, Bytes::from_owner(reply)),
            Err(problem) => name_storage_cause(app, problem).response(trace),
        }
    })
    .await;
    let duration = (app.ticks)().saturating_sub(started);
    app.metrics.record_response(Operation::ReceiveResult, response.status().as_u16(), duration);
    response
}

/// Returns the EMV message that the directory server receives as the response.
async fn process_request(
    app: &App,
    schemes: &[Scheme],
    origin: &RequestOrigin,
    request: Request<Body>,
) -> Result<Zeroizing<Vec<u8>>, Problem> {
    // No scheme trusts the certificate any more: the request counts toward the rate limit of its
    // address. Other requests are not rate limited, because a rejected result is a lost payment.
    if schemes.is_empty() {
        admission::count_anonymous(app, origin.address).await?;
        return Err(Problem::UntrustedCertificate);
    }
    let (id, secret) = parse_result_path(request.uri().path()).ok_or(Problem::NoRoute)?;
    if request.method() != Method::POST {
        return Err(Problem::MethodNotAllowed);
    }
    let secret = Zeroizing::new(secret.to_owned());
    // The sender is authenticated by its certificate, so its body uses the pool of authenticated
    // callers.
    let mut reservation =
        app.memory.bodies.start_reservation(ClientNetwork::from_address(origin.address));
    let mut body = request.into_body();
    let deadline = app.settings.limits.body_deadline;
    let message = read_body(app, &mut body, deadline, MESSAGE_BYTES_MAX, &mut reservation).await?;
    let directory = app.directory.load_full().filter(|_| app.rejection_reason().is_none());
    let directory = directory.ok_or_else(|| not_ready(app))?;
    let channel = ResultChannel::Verified(schemes.to_vec());
    let posted = PostedResult { id, secret: &secret, message: &message, channel };
    Ok(receive_result(&app.vault, &directory, origin, posted).await?)
}

/// Returns the session and the secret of the path `/3ds/sessions/{id}/results/{secret}`.
fn parse_result_path(path: &str) -> Option<(ThreeDsSessionId, &str)> {
    let (id, secret) = path.strip_prefix("/3ds/sessions/")?.split_once("/results/")?;
    let secret = Some(secret).filter(|it| !it.is_empty() && !it.contains('/'));
    ThreeDsSessionId::parse(id).zip(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_result_path_is_parsed() {
        let id = "6fa459ea-ee8a-4ca4-894e-db77e160355e";
        let valid_path = format!("/3ds/sessions/{id}/results/abc");
        let (session, secret) = parse_result_path(&valid_path).unwrap();
        assert_eq!((session.to_string().as_str(), secret), (id, "abc"));
        let invalid_paths = [
            format!("/3ds/sessions/{id}/results/"),
            format!("/3ds/sessions/{id}/results"),
            format!("/3ds/sessions/{id}/results/abc/d"),
            "/3ds/sessions/x/results/abc".to_owned(),
            format!("/3ds/sessions/{id}"),
            "/healthz".to_owned(),
            "/".to_owned(),
        ];
        for path in invalid_paths {
            assert!(parse_result_path(&path).is_none(), "{path} was parsed as a result path");
        }
    }
}
