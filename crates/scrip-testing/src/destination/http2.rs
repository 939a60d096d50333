//! A server for HTTP/2.

use std::{future::pending, io, sync::Arc};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    server::conn::http2::Builder,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::destination::{
    behavior::{CannedResponse, DestinationBehavior},
    host_state::{ConnectionInfo, HostState},
    request::DestinationRequest,
};

type Http2Body = BoxBody<Bytes, io::Error>;

/// Serves requests until the client closes the connection.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: Arc<HostState>,
    connection: ConnectionInfo,
) {
    let service = service_fn(move |request| {
        let (host, connection) = (Arc::clone(&host), connection.clone());
        async move { respond(&host, connection, request).await }
    });
    let builder = Builder::new(TokioExecutor::new());
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

async fn respond(
    host: &HostState,
    connection: ConnectionInfo,
    request: Request<Incoming>,
) -> Result<Response<Http2Body>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes().to_vec();
    let value = |it: &hyper::header::HeaderValue| it.to_str().unwrap_or_default().to_owned();
    let headers = head.headers.iter().map(|(name, it)| (name.to_string(), value(it)));
    let mut headers: Vec<_> = headers.collect();
    // The pseudo-header is the `Host` header of this version.
    if let Some(authority) = head.uri.authority() {
        headers.push(("host".to_owned(), authority.to_string()));
    }
    let request = DestinationRequest {
        method: head.method.to_string(),
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers,
        body: body.clone(),
        head: Vec::new(),
        is_http2: true,
        connection: connection.number,
        client_certificate: connection.client_certificate,
        tls_version: connection.tls_version,
    };
    let content_type = request.headers_named("content-type").first().map(|it| (*it).to_owned());
    host.record(request);
    let behavior = host.next_reaction().await;
    let response = match behavior {
        DestinationBehavior::Echo => {
            CannedResponse::new(200, content_type.as_deref().unwrap_or("text/plain"), body)
        }
        DestinationBehavior::Respond(response) => response,
        DestinationBehavior::HangUp => return Err(io::Error::other("hung up")),
        DestinationBehavior::Endless => {
            let next_frame = || Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[b' '; 4096])));
            let body = StreamBody::new(stream::repeat_with(next_frame));
            return Ok(Response::new(BodyExt::boxed(body)));
        }
        DestinationBehavior::Silent
        | DestinationBehavior::Gated(_)
        | DestinationBehavior::Delayed(..) => pending().await,
        DestinationBehavior::Raw(_) | DestinationBehavior::RawThenSilent(_) => {
            unreachable!("raw bytes are a behavior of HTTP/1.1")
        }
    };
    let mut builder = Response::builder().status(response.status);
    for (name, value) in &response.headers {
        builder = builder.header(name, value);
    }
    let body = Full::new(Bytes::from(response.body)).map_err(|it| match it {});
    Ok(builder.body(BodyExt::boxed(body)).unwrap())
}
