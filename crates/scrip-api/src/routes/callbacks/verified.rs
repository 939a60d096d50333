//! Results of production: a directory server whose certificate was verified has its own listener,
//! which knows but one path.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::{Method, Request};
use scrip_core::{
    audit::Operation,
    id::SessionId,
    operations::sessions::receive_result::{Door, Posted, receive_result},
    policy::{Origin, rate_limit::Network},
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX};
use zeroize::Zeroizing;

use crate::{
    app::App,
    middleware::{body::read_body, throttle, trace::TraceId},
    pipeline::around,
    problem::Problem,
    wire::answer,
};

/// One request of whoever these schemes vouch for.
pub async fn receive_verified<B>(
    app: &App,
    schemes: &[Scheme],
    address: IpAddr,
    request: Request<B>,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let begun = (app.ticks)();
    let response = around(request, async |request: Request<Body>, trace: &TraceId| {
        let origin = Origin { trace: Arc::clone(&trace.0), address };
        match receive(app, schemes, &origin, request).await {
            Ok(message) => answer::json(200, Bytes::from_owner(message)),
            Err(problem) => problem.response(trace),
        }
    })
    .await;
    let took = (app.ticks)().saturating_sub(begun);
    app.metrics.answered(Operation::ReceiveResult, response.status().as_u16(), took);
    response
}

async fn receive(
    app: &App,
    schemes: &[Scheme],
    origin: &Origin,
    request: Request<Body>,
) -> Result<Zeroizing<Vec<u8>>, Problem> {
    // Whoever somebody vouches for is not counted: a result that is turned away is a payment lost.
    if schemes.is_empty() {
        throttle::stranger(app, origin.address).await?;
        return Err(Problem::Unauthorized);
    }
    let (id, secret) = place(request.uri().path()).ok_or(Problem::NoRoute)?;
    if request.method() != Method::POST {
        return Err(Problem::MethodNotAllowed);
    }
    let secret = Zeroizing::new(secret.to_owned());
    // A certificate is as good as a key.
    let mut reservation = app.body_memory.begin(Network::of(origin.address));
    let mut body = request.into_body();
    let deadline = app.limits.body_deadline;
    let message = read_body(app, &mut body, deadline, MESSAGE_BYTES_MAX, &mut reservation).await?;
    let directory = app.directory.load_full().filter(|_| !app.is_sealed());
    let directory = directory.ok_or(Problem::Sealed)?;
    let door = Door::Verified(schemes.to_vec());
    let posted = Posted { id, secret: &secret, message: &message, door };
    Ok(receive_result(&app.vault, &directory, origin, posted).await?)
}

/// The session and the secret of `/3ds/sessions/{id}/results/{secret}`.
fn place(path: &str) -> Option<(SessionId, &str)> {
    let (id, secret) = path.strip_prefix("/3ds/sessions/")?.split_once("/results/")?;
    let secret = Some(secret).filter(|it| !it.is_empty() && !it.contains('/'));
    SessionId::parse(id).zip(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_path() {
        let id = "6fa459ea-ee8a-4ca4-894e-db77e160355e";
        let good = format!("/3ds/sessions/{id}/results/abc");
        let (found, secret) = place(&good).unwrap();
        assert_eq!((found.to_string().as_str(), secret), (id, "abc"));
        let bad = [
            format!("/3ds/sessions/{id}/results/"),
            format!("/3ds/sessions/{id}/results"),
            format!("/3ds/sessions/{id}/results/abc/d"),
            "/3ds/sessions/x/results/abc".to_owned(),
            format!("/3ds/sessions/{id}"),
            "/healthz".to_owned(),
            "/".to_owned(),
        ];
        for path in bad {
            assert!(place(&path).is_none(), "{path}");
        }
    }
}
