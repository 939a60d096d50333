//! A small HTTP client for sources that the operator configured.
//!
//! The guard of destinations does not apply here: a source may be on loopback or have a link-local
//! address. Each request uses a new connection. Redirects are not followed.

mod endpoint;
mod tls_trust;

use std::{net::SocketAddr, pin::pin, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    client::conn::http1,
    header::{CONNECTION, HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use scrip_seal::Secret;
use serde::Serialize;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use zeroize::Zeroizing;

use self::tls_trust::SourceStream;
pub(crate) use self::{endpoint::Endpoint, tls_trust::TlsTrust};
use crate::source::UnlockError;

const RESPONSE_BYTES_MAX: usize = 64 * 1024;
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest request has a web token of some kilobytes.
const REQUEST_BYTES_TYPICAL: usize = 16 * 1024;
/// For each address of a host, so that one that drops packets does not use up the deadline.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A request to a source. There is no `Debug`: the body may contain a key.
pub(crate) struct SourceRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// The answer of a source. There is no `Debug`: the body may contain a key.
pub(crate) struct SourceResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// Sends a request and reads the response. The caller limits the time.
pub(crate) async fn send_request(
    endpoint: &Endpoint,
    trust: &TlsTrust,
    request: SourceRequest,
) -> Result<SourceResponse, UnlockError> {
    let stream = connect(endpoint, trust).await?;
    let request = build_request(endpoint, request)?;
    let authority = &endpoint.authority;
    let response = exchange(stream, request).await.map_err(|cause| {
        UnlockError::Unavailable(format!("the exchange with {authority} failed: {cause}"))
    })?;
    if response.status.is_redirection() {
        return Err(UnlockError::Unavailable(format!(
            "{authority} redirects to another server (status {}), which is not followed: set the \
             address of the server that answers",
            response.status.as_u16()
        )));
    }
    Ok(response)
}

/// A header value that is wiped from memory and not printed.
pub(crate) fn secret_header(secret: &Secret) -> Result<HeaderValue, UnlockError> {
    let bytes = Bytes::from_owner(Zeroizing::new(secret.expose().to_vec()));
    let value = HeaderValue::from_maybe_shared(bytes);
    let mut value = value.map_err(|_| {
        UnlockError::Settings("a secret contains a line break or a control character".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// JSON in a buffer that is wiped. It does not grow, because that would leave copies in memory.
pub(crate) fn secret_json(value: &impl Serialize) -> Result<Zeroizing<Vec<u8>>, UnlockError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(REQUEST_BYTES_TYPICAL));
    serde_json::to_writer(&mut *bytes, value)
        .map_err(|_| UnlockError::Settings("a setting is not valid text".to_owned()))?;
    Ok(bytes)
}

async fn connect(
    endpoint: &Endpoint,
    trust: &TlsTrust,
) -> Result<Box<dyn SourceStream>, UnlockError> {
    let authority = &endpoint.authority;
    let addresses =
        lookup_host((endpoint.host.as_str(), endpoint.port)).await.map_err(|error| {
            let kind = error.kind();
            UnlockError::Unavailable(format!("cannot resolve the host of {authority}: {kind}"))
        })?;
    let mut cause = "the host has no address".to_owned();
    for address in addresses {
        match connect_address(endpoint, address).await? {
            Ok(stream) => {
                return match &endpoint.tls_name {
                    Some(name) => trust.handshake(name.clone(), stream, authority).await,
                    None => Ok(Box::new(stream)),
                };
            }
            Err(failure) => cause = format!("{address}: {failure}"),
        }
    }
    Err(UnlockError::Unavailable(format!("cannot connect to {authority}: {cause}")))
}

/// The inner result is the outcome of the connection. The outer one is an address that must not be
/// used.
async fn connect_address(
    endpoint: &Endpoint,
    address: SocketAddr,
) -> Result<Result<TcpStream, String>, UnlockError> {
    if endpoint.tls_name.is_none() && !endpoint::is_plain_http_allowed(address.ip()) {
        let authority = &endpoint.authority;
        return Err(UnlockError::Settings(format!(
            "{authority} has the address {}, and http is for addresses of this machine only: use \
             https",
            address.ip()
        )));
    }
    Ok(match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(error.kind().to_string()),
        Err(_) => Err("connect timeout".to_owned()),
    })
}

fn build_request(
    endpoint: &Endpoint,
    request: SourceRequest,
) -> Result<Request<Full<Bytes>>, UnlockError> {
    // The body is wiped when the last reference is dropped.
    let body = Full::new(Bytes::from_owner(request.body));
    let mut builder = Request::builder()
        .method(request.method)
        .uri(request.path)
        .header(HOST, &endpoint.authority)
        .header(CONNECTION, "close");
    for (name, value) in request.headers {
        builder = builder.header(name, value);
    }
    builder
        .body(body)
        .map_err(|_| UnlockError::Settings("the path of a request is not valid".to_owned()))
}

async fn exchange(
    stream: Box<dyn SourceStream>,
    request: Request<Full<Bytes>>,
) -> Result<SourceResponse, String> {
    let mut builder = http1::Builder::new();
    // Vectored writes avoid a copy of the body in a buffer that is not wiped.
    builder.writev(true).max_buf_size(HEAD_BYTES_MAX);
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| describe(&error))?;
    let response = async {
        let response = sender.send_request(request).await.map_err(|error| describe(&error))?;
        read_response(response).await
    };
    let (mut response, mut connection) = (pin!(response), pin!(connection));
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            result = &mut response => return result,
            // The other future returns the error of the connection.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

async fn read_response(response: Response<Incoming>) -> Result<SourceResponse, String> {
    let status = response.status();
    let mut body = response.into_body();
    let too_large = || format!("the answer has more than {RESPONSE_BYTES_MAX} bytes");
    let announced_length = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced_length > RESPONSE_BYTES_MAX {
        return Err(too_large());
    }
    // The whole capacity at once: a growing buffer would leave copies of a key in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(RESPONSE_BYTES_MAX));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| describe(&error))?.into_data() else { continue };
        if bytes.len().saturating_add(data.len()) > RESPONSE_BYTES_MAX {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(SourceResponse { status, body: bytes })
}

/// The kind of an error, without data of the peer.
fn describe(error: &hyper::Error) -> String {
    let kind = if error.is_timeout() {
        "timeout"
    } else if error.is_parse() {
        "the answer is not HTTP"
    } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "the connection was closed before the answer was complete"
    } else {
        "the connection failed"
    };
    kind.to_owned()
}
