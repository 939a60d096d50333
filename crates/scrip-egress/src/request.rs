//! Prepares a request for the wire. The destination, not the caller, determines its target and host.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Uri, Version,
    header::{self, HeaderName},
    http::uri::Scheme,
};

use crate::{
    connection::OutgoingRequest,
    destination::Destination,
    error::{SendError, SendFailure},
};

/// Headers that describe the connection or the framing. The client writes its own.
const CONNECTION_HEADERS: &[HeaderName] = &[
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
];

/// Removes headers that would change the framing, and sets host and target for HTTP/1.1.
pub(crate) fn prepare(
    request: Request<Bytes>,
    destination: &Destination,
) -> Result<OutgoingRequest, SendError> {
    // A tunnel would let a caller send bytes that the vault does not see.
    if request.method() == Method::CONNECT {
        return Err(SendError::not_sent(SendFailure::InvalidRequest));
    }
    let (mut parts, body) = request.into_parts();
    for name in CONNECTION_HEADERS {
        parts.headers.remove(name);
    }
    parts.headers.remove("proxy-connection");
    parts.headers.insert(header::HOST, destination.host_header().clone());
    parts.version = Version::HTTP_11;
    parts.uri = Uri::from(destination.request_target().clone());
    Ok(Request::from_parts(parts, Full::new(body)))
}

/// HTTP/2 sends the host as a part of the target.
pub(crate) fn convert_to_http2(
    request: &mut OutgoingRequest,
    destination: &Destination,
) -> Result<(), SendError> {
    let uri = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(destination.authority().clone())
        .path_and_query(destination.request_target().clone());
    *request.uri_mut() =
        uri.build().map_err(|_| SendError::not_sent(SendFailure::InvalidRequest))?;
    request.headers_mut().remove(header::HOST);
    Ok(())
}

/// Undoes [`convert_to_http2`], for another connection.
pub(crate) fn convert_to_http1(request: &mut OutgoingRequest, destination: &Destination) {
    *request.uri_mut() = Uri::from(destination.request_target().clone());
    request.headers_mut().insert(header::HOST, destination.host_header().clone());
}
